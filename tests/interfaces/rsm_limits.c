/* As many segments as the controller's attribute promises, all of them used by another rank, and one more refused; and errors by segment: puts to
 * one that is withdrawn fail at its barrier, and at no other's. */
// interface: rsm
// ranks: 2
// settings: FARPOST_RSM_SEGMENTS=80
#include "rsm.h"
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = 4096, ID = 0x500000, MOST = 4096 };

static rsm_memseg_export_handle_t exported[MOST + 1];
static rsm_memseg_import_handle_t imported[MOST];
static rsmapi_barrier_t barriers[MOST];

int main(void) {
    alarm(100);
    rsm_topology_t *topology;
    OK(rsm_get_interconnect_topology(&topology));
    const unsigned me = topology->topology_hdr.local_nodeid;
    rsm_free_interconnect_topology(topology);
    rsmapi_controller_handle_t ctl;
    controller_to(1 - me, &ctl);
    rsmapi_controller_attr_t attr;
    OK(rsm_get_controller_attr(ctl, &attr));
    const unsigned most = (unsigned)attr.attr_max_export_segments;
    const char *set = getenv("FARPOST_RSM_SEGMENTS");
    CHECK(most == (set != NULL ? (unsigned)atoi(set) : 64) && most <= MOST);
    CHECK(attr.attr_max_import_segments >= most);
    if (me == 0) {
        /* All but the first two show the same pages; the second is the one withdrawn. */
        void *memory[3];
        for (int i = 0; i < 3; i++) {
            CHECK(posix_memalign(&memory[i], PAGE, i == 2 ? 16 * PAGE : PAGE) == 0);
            memset(memory[i], 0, PAGE);
        }
        memset(memory[2], 0, 16 * PAGE);
        for (unsigned i = 0; i <= most; i++) {
            rsm_memseg_id_t id = ID + i;
            OK(rsm_memseg_export_create(ctl, &exported[i], memory[i < 2 ? i : 2], i < 2 ? PAGE : 16 * PAGE, 0));
            if (i < most)
                OK(rsm_memseg_export_publish(exported[i], &id, NULL, 0));
            else
                CODE(RSMERR_INSUFFICIENT_RESOURCES, rsm_memseg_export_publish(exported[i], &id, NULL, 0));
        }
        OK(rsm_intr_signal_wait(exported[0], 90000));
        for (unsigned i = 2; i < most; i++)
            CHECK(((uint64_t *)memory[2])[i] == i + 1);
        CHECK(*(uint64_t *)memory[0] == 1 && *(uint64_t *)memory[1] == 2);
        OK(rsm_memseg_export_unpublish(exported[1]));
        /* There is room again, for one. */
        rsm_memseg_id_t id = ID + most;
        OK(rsm_memseg_export_publish(exported[most], &id, NULL, 0));
        OK(rsm_intr_signal_post(exported[0], 0));
        OK(rsm_intr_signal_wait(exported[0], 90000));
        for (unsigned i = 2; i < most; i++)
            CHECK(((uint64_t *)memory[2])[i] == i + 7);
        CHECK(*(uint64_t *)memory[0] == 7 && *(uint64_t *)memory[1] == 2);
        for (unsigned i = 0; i <= most; i++)
            OK(rsm_memseg_export_destroy(exported[i]));
        return 0;
    }
    for (unsigned i = 0; i < most; i++) {
        int code;
        while ((code = rsm_memseg_import_connect(ctl, 0, ID + i, RSM_PERM_RDWR, &imported[i])) == RSMERR_SEG_NOT_PUBLISHED)
            usleep(1000);
        OK(code);
        OK(rsm_memseg_import_init_barrier(imported[i], 0, &barriers[i]));
        OK(rsm_memseg_import_set_mode(imported[i], RSM_BARRIER_MODE_EXPLICIT));
    }
    CODE(RSMERR_SEG_NOT_PUBLISHED, rsm_memseg_import_connect(ctl, 0, ID + most, RSM_PERM_RDWR, &imported[0]));
    for (unsigned again = 0; again < 2; again++) {
        for (unsigned i = 0; i < most; i++)
            OK(rsm_memseg_import_open_barrier(&barriers[i]));
        for (unsigned i = 0; i < most; i++) {
            const uint64_t value = i + (again ? 7 : 1);
            OK(rsm_memseg_import_put64(imported[i], i < 2 ? 0 : (off_t)i * 8, (uint64_t *)&value, 1));
        }
        for (unsigned i = 0; i < most; i++) {
            if (again && i == 1)
                CODE(RSMERR_CONN_ABORTED, rsm_memseg_import_close_barrier(&barriers[i]));
            else
                OK(rsm_memseg_import_close_barrier(&barriers[i]));
        }
        OK(rsm_intr_signal_post(imported[0], 0));
        if (!again)
            OK(rsm_intr_signal_wait(imported[0], 90000));
    }
    return 0;
}
