// interface: rsm
// Remote shared memory without MPI: every process exports a page, and writes a line into the page of the next one, in one
// piece: its text, and a number that says that it is there. The receiver looks at its own memory.
//
//   cc rsm_put.c -o rsm_put $(pkg-config --cflags --libs farpost-rsm) && mpiexec -n 4 ./rsm_put
#include <farpost/rsm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, SEGMENT = 0x500000 };

/* Ends the process with a sentence when a call fails. */
static void must(int code) {
    if (code != RSM_SUCCESS) {
        fprintf(stderr, "rsm_put: %s\n", rsm_error_message());
        exit(1);
    }
}

/* A controller that is connected to one at `node`. */
static const char *controller_to(const rsm_topology_t *topology, rsm_node_id_t node) {
    for (int i = topology->topology_hdr.local_cntlr_count - 1; i >= 0; i--)
        for (int j = 0; j < topology->connections[i]->hdr.remote_cntlr_count; j++)
            if (topology->connections[i]->remote_cntlr[j].remote_nodeid == node)
                return topology->connections[i]->hdr.cntlr_name;
    return "loopback";
}

int main(void) {
    rsm_topology_t *topology;
    must(rsm_get_interconnect_topology(&topology));
    const rsm_node_id_t me = topology->topology_hdr.local_nodeid;
    rsm_node_id_t nodes = 1;
    for (int i = 0; i < topology->topology_hdr.local_cntlr_count; i++)
        for (int j = 0; j < topology->connections[i]->hdr.remote_cntlr_count; j++)
            if (topology->connections[i]->remote_cntlr[j].remote_nodeid >= nodes)
                nodes = topology->connections[i]->remote_cntlr[j].remote_nodeid + 1;
    const rsm_node_id_t next = (me + 1) % nodes, previous = (me + nodes - 1) % nodes;

    /* A page that the previous process may write, on the controller that leads there. */
    char *page;
    if (posix_memalign((void **)&page, PAGE, PAGE) != 0)
        return 1;
    memset(page, 0, PAGE);
    rsmapi_controller_handle_t here, there;
    must(rsm_get_controller(controller_to(topology, previous), &here));
    must(rsm_get_controller(controller_to(topology, next), &there));
    rsm_memseg_export_handle_t exported;
    rsm_memseg_id_t id = SEGMENT;
    rsmapi_access_entry_t writer = {previous, RSM_PERM_RDWR};
    must(rsm_memseg_export_create(here, &exported, page, PAGE, 0));
    must(rsm_memseg_export_publish(exported, &id, &writer, 1));

    /* The page of the next one, when it is there. */
    rsm_memseg_import_handle_t imported;
    int code;
    do
        code = rsm_memseg_import_connect(there, next, SEGMENT, RSM_PERM_RDWR, &imported);
    while (code == RSMERR_SEG_NOT_PUBLISHED);
    must(code);
    rsmapi_barrier_t barrier;
    must(rsm_memseg_import_init_barrier(imported, RSM_BARRIER_SEGMENT, &barrier));
    must(rsm_memseg_import_set_mode(imported, RSM_BARRIER_MODE_EXPLICIT));

    /* A line arrives whole, so it carries its own flag. */
    struct {
        uint64_t flag;
        char text[56];
    } line = {1, ""};
    snprintf(line.text, sizeof line.text, "greetings from process %u", me);
    must(rsm_memseg_import_open_barrier(&barrier));
    must(rsm_memseg_import_put(imported, 0, &line, sizeof line));
    must(rsm_memseg_import_close_barrier(&barrier));

    /* The line that the previous one writes. Between hosts, calls of the library take it in. */
    int done = 0;
    while (__atomic_load_n((uint64_t *)(void *)page, __ATOMIC_ACQUIRE) != 1) {
        code = rsm_intr_signal_wait(exported, 0);
        if (code == RSM_SUCCESS)
            done = 1;
        else if (code != RSMERR_TIMEOUT)
            must(code);
    }
    printf("process %u of %u: %s\n", me, nodes, page + sizeof line.flag);

    /* Nobody goes before its writer is done. */
    must(rsm_intr_signal_post(imported, 0));
    must(rsm_memseg_import_destroy_barrier(&barrier));
    must(rsm_memseg_import_disconnect(imported));
    if (!done)
        must(rsm_intr_signal_wait(exported, -1));
    must(rsm_memseg_export_destroy(exported));
    rsm_free_interconnect_topology(topology);
    free(page);
    return 0;
}
