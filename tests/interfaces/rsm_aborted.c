// interface: rsm
// args: withdrawn | gone
// A segment is withdrawn, or its owner ends, while others are connected: nothing happens to them, the next barrier tells, and
// so does the error status, with the node, and only to those whose accesses met it.
#include "check.h"
#include <farpost/rsm.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = 4096, ID = 0x500000 };
#define OK(call)                                                                                                        \
    do {                                                                                                                \
        int code_ = (call);                                                                                             \
        if (code_ != RSM_SUCCESS) {                                                                                     \
            fprintf(stderr, "FAIL %s:%d: %s: %d, %s\n", __FILE__, __LINE__, #call, code_, rsm_error_message());         \
            exit(1);                                                                                                    \
        }                                                                                                               \
    } while (0)

/* The error status is set again, by this connection's loss, and is empty once read. */
static void lost(int gone, rsm_error_status_t *status) {
    OK(rsm_get_error_status(status));
    CHECK(status->cause == RSM_CESR_TRANSLATION && status->node == 0 && status->segment == ID && status->count == 1);
    CHECK(strstr(status->message, "node 0") != NULL && strstr(status->message, gone ? "ended" : "it was withdrawn") != NULL);
    OK(rsm_get_error_status(status));
    CHECK(status->cause == RSM_CESR_NONE && status->count == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    const int gone = strcmp(argv[1], "gone") == 0;
    rsm_topology_t *topology;
    OK(rsm_get_interconnect_topology(&topology));
    const unsigned me = topology->topology_hdr.local_nodeid;
    const int nodes = topology->connections[1]->hdr.remote_cntlr_count;
    rsm_free_interconnect_topology(topology);
    rsmapi_controller_handle_t ctl;
    OK(rsm_get_controller("shm0", &ctl));
    if (me == 0) {
        unsigned char *memory;
        CHECK(posix_memalign((void **)&memory, PAGE, PAGE) == 0);
        memset(memory, 1, PAGE);
        rsm_memseg_export_handle_t exported;
        rsm_memseg_id_t id = ID;
        OK(rsm_memseg_export_create(ctl, &exported, memory, PAGE, 0));
        OK(rsm_memseg_export_publish(exported, &id, NULL, 0));
        for (int i = 1; i < nodes; i++)
            OK(rsm_intr_signal_wait(exported, -1));
        if (gone)
            _exit(0);
        /* From here on what they store is not seen. */
        OK(rsm_memseg_export_unpublish(exported));
        memory[8] = 5;
        /* The same memory under another name, for them to say that they are done. */
        id = ID + 1;
        OK(rsm_memseg_export_publish(exported, &id, NULL, 0));
        for (int i = 1; i < nodes; i++)
            OK(rsm_intr_signal_wait(exported, -1));
        for (int i = 0; i < PAGE; i++)
            CHECK(memory[i] == (i == 8 ? 5 : 1));
        OK(rsm_memseg_export_destroy(exported));
        return 0;
    }
    rsm_memseg_import_handle_t imported, done;
    while (rsm_memseg_import_connect(ctl, 0, ID, RSM_PERM_RDWR, &imported) != RSM_SUCCESS)
        ;
    rsmapi_barrier_t barrier;
    OK(rsm_memseg_import_init_barrier(imported, 0, &barrier));
    OK(rsm_memseg_import_set_mode(imported, RSM_BARRIER_MODE_EXPLICIT));
    void *at;
    OK(rsm_memseg_import_map(imported, &at, RSM_MAP_NONE, RSM_PERM_RDWR, 0, PAGE));
    OK(rsm_intr_signal_post(imported, 0));
    /* Until the owner has done what it does: no signal will come. */
    CHECK(rsm_intr_signal_wait(imported, -1) == RSMERR_CONN_ABORTED);
    unsigned char line[64] __attribute__((aligned(64)));
    memset(line, 9, sizeof line);
    OK(rsm_memseg_import_open_barrier(&barrier));
    OK(rsm_memseg_import_put(imported, 64, line, 64));
    OK(rsm_memseg_import_get(imported, 64, line, 64));
    ((volatile unsigned char *)at)[100] = 9;
    CHECK(rsm_memseg_import_order_barrier(&barrier) == RSMERR_CONN_ABORTED);
    CHECK(rsm_memseg_import_close_barrier(&barrier) == RSMERR_CONN_ABORTED);
    OK(rsm_memseg_import_set_mode(imported, RSM_BARRIER_MODE_IMPLICIT));
    CHECK(rsm_memseg_import_put(imported, 64, line, 64) == RSMERR_CONN_ABORTED);
    CHECK(strstr(rsm_error_message(), "node 0") != NULL);
    CHECK(rsm_intr_signal_post(imported, 0) == RSMERR_CONN_ABORTED);
    rsm_error_status_t status;
    OK(rsm_get_error_status(&status));
    CHECK(status.cause == RSM_CESR_TRANSLATION && status.node == 0 && status.segment == ID && status.count >= 1);
    CHECK(strlen(status.message) > 0);
    OK(rsm_get_error_status(&status));
    CHECK(status.cause == RSM_CESR_NONE);
    /* Reading clears it, and what is lost afterwards sets it again: by a call, in a scope, and where a program stores. */
    for (int round = 0; round < 2; round++) {
        CHECK(rsm_memseg_import_put(imported, 64, line, 64) == RSMERR_CONN_ABORTED);
        lost(gone, &status);
        OK(rsm_memseg_import_set_mode(imported, RSM_BARRIER_MODE_EXPLICIT));
        OK(rsm_memseg_import_open_barrier(&barrier));
        OK(rsm_memseg_import_put(imported, 64, line, 64));
        CHECK(rsm_memseg_import_close_barrier(&barrier) == RSMERR_CONN_ABORTED);
        lost(gone, &status);
        OK(rsm_memseg_import_open_barrier(&barrier));
        ((volatile unsigned char *)at)[101] = 9;
        CHECK(rsm_memseg_import_close_barrier(&barrier) == RSMERR_CONN_ABORTED);
        lost(gone, &status);
        OK(rsm_memseg_import_set_mode(imported, RSM_BARRIER_MODE_IMPLICIT));
    }
    OK(rsm_memseg_import_unmap(imported));
    OK(rsm_memseg_import_disconnect(imported));
    const int again = rsm_memseg_import_connect(ctl, 0, ID, RSM_PERM_READ, &imported);
    if (gone) {
        CHECK(again == RSMERR_REMOTE_NODE_UNREACHABLE);
    } else {
        CHECK(again == RSMERR_SEG_NOT_PUBLISHED);
        while (rsm_memseg_import_connect(ctl, 0, ID + 1, RSM_PERM_NONE, &done) != RSM_SUCCESS)
            ;
        OK(rsm_intr_signal_post(done, 0));
    }
    return 0;
}
