/* A handler of the program's that runs while a signal is waited for ends the wait: RSMERR_INTERRUPTED. Signals that came before are taken
   first, and the wait can be taken up again. */
// interface: rsm
// ranks: 2
#include "check.h"
#include <farpost/rsm.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { PAGE = 4096, ID = 0x640000 };
#define IS(code, call)                                                                                                  \
    do {                                                                                                                \
        const int code_ = (call);                                                                                       \
        if (code_ != (code)) {                                                                                          \
            fprintf(stderr, "FAIL %s:%d: %s: %d: %s\n", __FILE__, __LINE__, #call, code_, rsm_error_message());         \
            exit(1);                                                                                                    \
        }                                                                                                               \
    } while (0)
#define OK(call) IS(RSM_SUCCESS, call)

static volatile sig_atomic_t rang;

static void ring(int number) {
    (void)number;
    rang = rang + 1;
}

/* Again and again: the first could come before the wait sleeps. */
static void clock_rings(int every_ms) {
    const struct itimerval every = {{0, every_ms * 1000}, {0, every_ms * 1000}};
    CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
}

/* Wait, however often it takes, for a signal that comes. */
static void wait_through(void *segment) {
    int code;
    while ((code = rsm_intr_signal_wait(segment, -1)) == RSMERR_INTERRUPTED)
        continue;
    OK(code);
}

int main(void) {
    rsmapi_controller_handle_t controller;
    rsm_topology_t *topology;
    OK(rsm_get_controller("shm0", &controller));
    OK(rsm_get_interconnect_topology(&topology));
    const unsigned me = topology->topology_hdr.local_nodeid;
    rsm_free_interconnect_topology(topology);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = ring;
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);

    if (me == 0) {
        static unsigned char memory[2 * PAGE] __attribute__((aligned(4096)));
        rsm_memseg_export_handle_t segment, lonely;
        rsm_memseg_id_t id = ID, nobodys = ID + 16;
        OK(rsm_memseg_export_create(controller, &segment, memory, PAGE, 0));
        OK(rsm_memseg_export_publish(segment, &id, NULL, 0));
        OK(rsm_memseg_export_create(controller, &lonely, memory + PAGE, PAGE, 0));
        OK(rsm_memseg_export_publish(lonely, &nobodys, NULL, 0));
        clock_rings(20);
        IS(RSMERR_INTERRUPTED, rsm_intr_signal_wait(lonely, -1));
        CHECK(rang > 0);
        struct pollfd polled;
        int ready = -1;
        OK(rsm_memseg_get_pollfd(lonely, &polled));
        IS(RSMERR_INTERRUPTED, rsm_intr_signal_wait_pollfd(&polled, 1, -1, &ready));
        CHECK(ready == 0);
        OK(rsm_memseg_release_pollfd(lonely));
        /* Not asleep, not interrupted. */
        IS(RSMERR_TIMEOUT, rsm_intr_signal_wait(lonely, 0));
        wait_through(segment);
        OK(rsm_intr_signal_post(segment, 0));
        wait_through(segment);
        clock_rings(0);
        IS(RSMERR_TIMEOUT, rsm_intr_signal_wait(lonely, 30));
        OK(rsm_memseg_export_destroy(lonely));
        OK(rsm_memseg_export_destroy(segment));
    } else {
        rsm_memseg_import_handle_t segment;
        int code;
        while ((code = rsm_memseg_import_connect(controller, 0, ID, RSM_PERM_RDWR, &segment)) == RSMERR_SEG_NOT_PUBLISHED)
            usleep(1000);
        OK(code);
        clock_rings(20);
        IS(RSMERR_INTERRUPTED, rsm_intr_signal_wait(segment, -1));
        OK(rsm_intr_signal_post(segment, 0));
        wait_through(segment);
        clock_rings(0);
        OK(rsm_intr_signal_post(segment, 0));
        /* Withdrawn after that. */
        IS(RSMERR_CONN_ABORTED, rsm_intr_signal_wait(segment, -1));
        OK(rsm_memseg_import_disconnect(segment));
    }
    return 0;
}
