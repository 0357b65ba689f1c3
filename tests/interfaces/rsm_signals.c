/* Signals that do not accumulate: of many at once one is there, of those behind others none, and the next one after it was taken is there
 * again; from importers and from the exporter. A second segment tells that all before has come. */
// interface: rsm
// ranks: 2
#include "check.h"
#include <farpost/rsm.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = 4096, ID = 0x500000, MANY = 20 };
#define OK(call) CODE(RSM_SUCCESS, call)
#define CODE(wanted, call)                                                                                              \
    do {                                                                                                                \
        const int code_ = (call);                                                                                       \
        if (code_ != (wanted)) {                                                                                        \
            fprintf(stderr, "FAIL %s:%d: %s: %d, %s\n", __FILE__, __LINE__, #call, code_, rsm_error_message());         \
            exit(1);                                                                                                    \
        }                                                                                                               \
    } while (0)

/* Both ends of two connections: what the signals are of, and what says that they have come. */
static void *of, *mark;

static void post(unsigned counted, unsigned single) {
    for (unsigned i = 0; i < counted; i++)
        OK(rsm_intr_signal_post(of, 0));
    for (unsigned i = 0; i < single; i++)
        OK(rsm_intr_signal_post(of, RSM_SIGPOST_NO_ACCUMULATE));
    OK(rsm_intr_signal_post(mark, 0));
    /* They have been taken. */
    OK(rsm_intr_signal_wait(mark, 60000));
}

static void take(unsigned expected) {
    OK(rsm_intr_signal_wait(mark, 60000));
    for (unsigned i = 0; i < expected; i++)
        OK(rsm_intr_signal_wait(of, 0));
    CODE(RSMERR_TIMEOUT, rsm_intr_signal_wait(of, 0));
    OK(rsm_intr_signal_post(mark, 0));
}

static const struct {
    unsigned counted, single, there;
} cases[] = {{0, 1, 1}, {0, MANY, 1}, {1, MANY, 1}, {5, MANY, 5}, {MANY, 0, MANY}, {0, 2, 1}};

int main(void) {
    alarm(100);
    rsm_topology_t *topology;
    OK(rsm_get_interconnect_topology(&topology));
    const unsigned me = topology->topology_hdr.local_nodeid;
    char name[32] = "shm0";
    for (int i = 1; i < topology->topology_hdr.local_cntlr_count; i++)
        for (int j = 0; j < topology->connections[i]->hdr.remote_cntlr_count; j++)
            if (topology->connections[i]->remote_cntlr[j].remote_nodeid == 1 - me)
                memcpy(name, topology->connections[i]->hdr.cntlr_name, sizeof name);
    rsm_free_interconnect_topology(topology);
    rsmapi_controller_handle_t ctl;
    OK(rsm_get_controller(name, &ctl));
    for (unsigned i = 0; i < 2; i++) {
        void **end = i == 0 ? &of : &mark;
        if (me == 0) {
            void *memory;
            CHECK(posix_memalign(&memory, PAGE, PAGE) == 0);
            rsm_memseg_export_handle_t exported;
            rsm_memseg_id_t id = ID + i;
            OK(rsm_memseg_export_create(ctl, &exported, memory, PAGE, 0));
            OK(rsm_memseg_export_publish(exported, &id, NULL, 0));
            *end = exported;
        } else {
            rsm_memseg_import_handle_t imported;
            int code;
            while ((code = rsm_memseg_import_connect(ctl, 0, ID + i, RSM_PERM_RDWR, &imported)) == RSMERR_SEG_NOT_PUBLISHED)
                usleep(1000);
            OK(code);
            *end = imported;
        }
    }
    /* Connected: an exporter signals those only. */
    if (me == 0) {
        OK(rsm_intr_signal_wait(mark, 60000));
        OK(rsm_intr_signal_post(mark, 0));
    } else {
        OK(rsm_intr_signal_post(mark, 0));
        OK(rsm_intr_signal_wait(mark, 60000));
    }
    for (unsigned poster = 2; poster-- > 0;)
        for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
            if (poster == me)
                post(cases[i].counted, cases[i].single);
            else
                take(cases[i].there);
        }
    return 0;
}
