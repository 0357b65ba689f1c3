/* An exporter that computes and never calls the library is served by it all the same: importers connect, put, get and signal. */
// interface: rsm
// ranks: 2 3 4
#include <farpost/rsm.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = 4096, NODES = 64, SIZE = NODES * PAGE, ID = 0x600000 };
#define OK(call)                                                                                                        \
    do {                                                                                                                \
        int code_ = (call);                                                                                             \
        if (code_ != RSM_SUCCESS) {                                                                                     \
            fprintf(stderr, "FAIL %s:%d: %s: %s\n", __FILE__, __LINE__, #call, rsm_error_message());                    \
            exit(1);                                                                                                    \
        }                                                                                                               \
    } while (0)

/* What importer n writes, a page each: all bytes, then the last word of the page. */
static unsigned char pattern(unsigned n, size_t i) {
    return (unsigned char)(n * 31 + i * 7 + 1);
}
static uint64_t word(unsigned n) {
    return 0x1122334455667700u + n;
}

/* Nodes that the controller reaches, a bit each. */
static unsigned long reached;

static int imports(unsigned n) {
    return n != 0 && (reached >> n & 1) != 0;
}

int main(void) {
    /* A program that is not served would compute for ever. */
    alarm(60);
    rsm_topology_t *topology;
    OK(rsm_get_interconnect_topology(&topology));
    const unsigned me = topology->topology_hdr.local_nodeid;
    /* A rail where there is one, else the memory of the host. */
    const rsm_connections_t *last_one = topology->connections[topology->topology_hdr.local_cntlr_count - 1];
    for (int i = 0; i < last_one->hdr.remote_cntlr_count; i++)
        reached |= 1ul << last_one->remote_cntlr[i].remote_nodeid;
    char controller[32];
    snprintf(controller, sizeof controller, "%s", last_one->hdr.cntlr_name);
    rsm_free_interconnect_topology(topology);
    if (me != 0 && (reached & 1) == 0)
        return 0;
    rsmapi_controller_handle_t ctl;
    OK(rsm_get_controller(controller, &ctl));
    if (me == 0) {
        unsigned char *memory;
        if (posix_memalign((void **)&memory, PAGE, SIZE) != 0)
            return 1;
        memset(memory, 0, SIZE);
        for (int i = 0; i < PAGE - 8; i++)
            memory[i] = pattern(0, (size_t)i);
        rsm_memseg_export_handle_t exported;
        rsm_memseg_id_t id = ID;
        OK(rsm_memseg_export_create(ctl, &exported, memory, SIZE, 0));
        OK(rsm_memseg_export_publish(exported, &id, NULL, 0));
        /* Twice: a call in between, after which the program computes again. */
        volatile uint64_t *words = (volatile uint64_t *)memory;
        for (unsigned n = 0; n < NODES; n++)
            while (imports(n) && words[(n + 1) * (PAGE / 8) - 1] != word(n))
                ;
        memory[PAGE - 8] = 1;
        rsm_topology_t *again;
        OK(rsm_get_interconnect_topology(&again));
        rsm_free_interconnect_topology(again);
        for (unsigned n = 0; n < NODES; n++)
            while (imports(n) && words[(n + 1) * (PAGE / 8) - 1] != UINT64_MAX)
                ;
        for (unsigned n = 0; n < NODES; n++) {
            if (!imports(n))
                continue;
            for (size_t i = 0; i < PAGE - 8; i++)
                if (memory[n * PAGE + i] != pattern(n, i)) {
                    fprintf(stderr, "FAIL node %u, byte %zu\n", n, i);
                    return 1;
                }
            OK(rsm_intr_signal_wait(exported, 30000));
        }
        OK(rsm_intr_signal_post(exported, 0));
        for (unsigned n = 0; n < NODES; n++)
            if (imports(n))
                OK(rsm_intr_signal_wait(exported, 30000));
        OK(rsm_memseg_export_destroy(exported));
        return 0;
    }
    rsm_memseg_import_handle_t imported;
    int code;
    while ((code = rsm_memseg_import_connect(ctl, 0, ID, RSM_PERM_RDWR, &imported)) == RSMERR_SEG_NOT_PUBLISHED)
        ;
    OK(code);
    rsmapi_barrier_t barrier;
    OK(rsm_memseg_import_init_barrier(imported, 0, &barrier));
    OK(rsm_memseg_import_set_mode(imported, RSM_BARRIER_MODE_EXPLICIT));
    OK(rsm_memseg_import_open_barrier(&barrier));
    unsigned char page[PAGE], back[PAGE];
    OK(rsm_memseg_import_get(imported, 0, back, PAGE - 8));
    for (size_t i = 0; i < PAGE - 8; i++)
        if (back[i] != pattern(0, i)) {
            fprintf(stderr, "FAIL read byte %zu\n", i);
            return 1;
        }
    for (size_t i = 0; i < PAGE; i++)
        page[i] = pattern(me, i);
    const off_t at = (off_t)me * PAGE;
    OK(rsm_memseg_import_put(imported, at, page, PAGE - 8));
    OK(rsm_memseg_import_close_barrier(&barrier));
    OK(rsm_memseg_import_get(imported, at, back, PAGE - 8));
    if (memcmp(page, back, PAGE - 8) != 0) {
        fprintf(stderr, "FAIL: what was put is not what is got\n");
        return 1;
    }
    OK(rsm_intr_signal_post(imported, 0));
    uint64_t last = word(me);
    OK(rsm_memseg_import_put64(imported, at + PAGE - 8, &last, 1));
    /* Until it has seen the words of all. */
    unsigned char seen;
    do {
        OK(rsm_memseg_import_get(imported, PAGE - 8, &seen, 1));
    } while (seen != 1);
    last = UINT64_MAX;
    OK(rsm_memseg_import_put64(imported, at + PAGE - 8, &last, 1));
    OK(rsm_intr_signal_wait(imported, 30000));
    OK(rsm_intr_signal_post(imported, 0));
    OK(rsm_memseg_import_disconnect(imported));
    return 0;
}
