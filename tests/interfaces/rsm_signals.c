/* Signals that do not accumulate: of many at once one is there, of those behind others none, and the next one after it was taken is there
 * again; from importers and from the exporter. A second segment tells that all before has come. */
// interface: rsm
// ranks: 2
#include "rsm.h"
#include <string.h>
#include <unistd.h>

enum { PAGE = 4096, ID = 0x500000, MANY = 20 };

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
    rsm_free_interconnect_topology(topology);
    rsmapi_controller_handle_t ctl;
    controller_to(1 - me, &ctl);
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
