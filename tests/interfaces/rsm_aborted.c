// interface: rsm
// args: withdrawn | gone
// A segment is withdrawn, or its owner ends, while others are connected: nothing happens to them, the next barrier tells, and
// so does the error status, with the node, and only to those whose accesses met it, again and again. On one host or between
// hosts: a segment belongs to a controller, so node 0 has one for each way that others come.
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
static void lost(rsm_memseg_id_t id, int gone) {
    rsm_error_status_t status;
    OK(rsm_get_error_status(&status));
    if (status.cause != RSM_CESR_TRANSLATION || status.node != 0 || status.segment != id || status.count != 1 ||
        strstr(status.message, "node 0") == NULL ||
        (strstr(status.message, "withdrawn") == NULL && !(gone && (strstr(status.message, "ended") || strstr(status.message, "gone"))))) {
        fprintf(stderr, "FAIL: cause %u, node %u, segment %#x, count %lu: %s\n", status.cause, status.node, status.segment,
                (unsigned long)status.count, status.message);
        exit(1);
    }
    OK(rsm_get_error_status(&status));
    CHECK(status.cause == RSM_CESR_NONE && status.count == 0);
}

/* The two ways to node 0, and what its segment is called there. */
enum { NEAR, FAR, WAYS };
static const rsm_memseg_id_t ids[WAYS] = {ID, ID + 16};

/* Node 0: a segment for those of its host, and one of the same memory for those of other hosts. */
static void exporter(int gone, const int *others, char names[WAYS][64]) {
    unsigned char *memory;
    CHECK(posix_memalign((void **)&memory, PAGE, PAGE) == 0);
    memset(memory, 1, PAGE);
    rsm_memseg_export_handle_t exported[WAYS];
    for (int way = 0; way < WAYS; way++) {
        rsmapi_controller_handle_t ctl;
        rsm_memseg_id_t id = ids[way];
        if (others[way] == 0)
            continue;
        OK(rsm_get_controller(names[way], &ctl));
        OK(rsm_memseg_export_create(ctl, &exported[way], memory, PAGE, 0));
        OK(rsm_memseg_export_publish(exported[way], &id, NULL, 0));
    }
    for (int way = 0; way < WAYS; way++)
        for (int i = 0; i < others[way]; i++)
            OK(rsm_intr_signal_wait(exported[way], 60000));
    if (gone)
        _exit(0);
    /* From here on what they store is not seen. Those who map the memory lose it with the last segment that shows it. */
    for (int way = WAYS; way-- > 0;)
        if (others[way] > 0)
            OK(rsm_memseg_export_unpublish(exported[way]));
    memory[8] = 5;
    /* The same memory under another name, for them to say that they are done. */
    for (int way = 0; way < WAYS; way++) {
        rsm_memseg_id_t id = ids[way] + 1;
        if (others[way] > 0)
            OK(rsm_memseg_export_publish(exported[way], &id, NULL, 0));
    }
    for (int way = 0; way < WAYS; way++)
        for (int i = 0; i < others[way]; i++)
            OK(rsm_intr_signal_wait(exported[way], 60000));
    for (int i = 0; i < PAGE; i++)
        CHECK(memory[i] == (i == 8 ? 5 : 1));
    for (int way = 0; way < WAYS; way++)
        if (others[way] > 0)
            OK(rsm_memseg_export_destroy(exported[way]));
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    const int gone = strcmp(argv[1], "gone") == 0;
    rsm_topology_t *topology;
    OK(rsm_get_interconnect_topology(&topology));
    const unsigned me = topology->topology_hdr.local_nodeid;
    /* Others by the host's memory and by the first rail. */
    int others[WAYS] = {-1, 0}, way = -1;
    char names[WAYS][64];
    for (int i = 1; i < topology->topology_hdr.local_cntlr_count && i <= WAYS; i++) {
        rsm_connections_t *of = topology->connections[i];
        others[i - 1] += of->hdr.remote_cntlr_count;
        strcpy(names[i - 1], of->hdr.cntlr_name);
        for (int j = 0; j < of->hdr.remote_cntlr_count; j++)
            if (of->remote_cntlr[j].remote_nodeid == 0)
                way = i - 1;
    }
    rsm_free_interconnect_topology(topology);
    CHECK(way >= 0);
    if (me == 0) {
        exporter(gone, others, names);
        return 0;
    }
    const rsm_memseg_id_t id = ids[way];
    rsmapi_controller_handle_t ctl;
    OK(rsm_get_controller(names[way], &ctl));
    rsm_memseg_import_handle_t imported, done;
    while (rsm_memseg_import_connect(ctl, 0, id, RSM_PERM_RDWR, &imported) != RSM_SUCCESS)
        ;
    rsmapi_barrier_t barrier;
    OK(rsm_memseg_import_init_barrier(imported, 0, &barrier));
    OK(rsm_memseg_import_set_mode(imported, RSM_BARRIER_MODE_EXPLICIT));
    void *at = NULL;
    if (way == NEAR)
        OK(rsm_memseg_import_map(imported, &at, RSM_MAP_NONE, RSM_PERM_RDWR, 0, PAGE));
    OK(rsm_intr_signal_post(imported, 0));
    /* Until the owner has done what it does: no signal will come. */
    CHECK(rsm_intr_signal_wait(imported, -1) == RSMERR_CONN_ABORTED);
    unsigned char line[64] __attribute__((aligned(64)));
    memset(line, 9, sizeof line);
    OK(rsm_memseg_import_open_barrier(&barrier));
    OK(rsm_memseg_import_put(imported, 64, line, 64));
    OK(rsm_memseg_import_get(imported, 64, line, 64));
    if (at != NULL)
        ((volatile unsigned char *)at)[100] = 9;
    CHECK(rsm_memseg_import_order_barrier(&barrier) == RSMERR_CONN_ABORTED);
    CHECK(rsm_memseg_import_close_barrier(&barrier) == RSMERR_CONN_ABORTED);
    OK(rsm_memseg_import_set_mode(imported, RSM_BARRIER_MODE_IMPLICIT));
    CHECK(rsm_memseg_import_put(imported, 64, line, 64) == RSMERR_CONN_ABORTED);
    CHECK(strstr(rsm_error_message(), "node 0") != NULL);
    CHECK(rsm_intr_signal_post(imported, 0) == RSMERR_CONN_ABORTED);
    rsm_error_status_t status;
    OK(rsm_get_error_status(&status));
    CHECK(status.cause == RSM_CESR_TRANSLATION && status.node == 0 && status.segment == id && status.count >= 1);
    CHECK(strlen(status.message) > 0);
    OK(rsm_get_error_status(&status));
    CHECK(status.cause == RSM_CESR_NONE);
    /* Reading clears it, and what is lost afterwards sets it again: by a call, in a scope, and where a program stores. */
    for (int round = 0; round < 2; round++) {
        CHECK(rsm_memseg_import_put(imported, 64, line, 64) == RSMERR_CONN_ABORTED);
        lost(id, gone);
        OK(rsm_memseg_import_set_mode(imported, RSM_BARRIER_MODE_EXPLICIT));
        OK(rsm_memseg_import_open_barrier(&barrier));
        OK(rsm_memseg_import_put(imported, 64, line, 64));
        CHECK(rsm_memseg_import_close_barrier(&barrier) == RSMERR_CONN_ABORTED);
        lost(id, gone);
        if (at != NULL) {
            OK(rsm_memseg_import_open_barrier(&barrier));
            ((volatile unsigned char *)at)[101] = 9;
            CHECK(rsm_memseg_import_close_barrier(&barrier) == RSMERR_CONN_ABORTED);
            lost(id, gone);
        }
        OK(rsm_memseg_import_set_mode(imported, RSM_BARRIER_MODE_IMPLICIT));
    }
    if (at != NULL)
        OK(rsm_memseg_import_unmap(imported));
    OK(rsm_memseg_import_disconnect(imported));
    const int again = rsm_memseg_import_connect(ctl, 0, id, RSM_PERM_READ, &imported);
    if (gone) {
        CHECK(again == RSMERR_REMOTE_NODE_UNREACHABLE);
    } else {
        CHECK(again == RSMERR_SEG_NOT_PUBLISHED);
        while (rsm_memseg_import_connect(ctl, 0, id + 1, RSM_PERM_NONE, &done) != RSM_SUCCESS)
            ;
        OK(rsm_intr_signal_post(done, 0));
    }
    return 0;
}
