/* Process 0 has a segment for process 1; process 2 is a stranger (stranger.rs). Process 0 refuses what the stranger says, counts
 * it and is told once, with who it was and the value; then it signals process 1, whose signal it still gets. "untold": nobody
 * asks, and the end of the process says it. Run by ../rsm_strangers.sh. */
#include "../check.h"
#include <farpost/rsm.h>
#include <string.h>

enum { PAGE = 4096, ID = 0x500000, STRANGER = 2, WRONG = 5 };
#define OK(call)                                                                                                        \
    do {                                                                                                                \
        int code_ = (call);                                                                                             \
        if (code_ != RSM_SUCCESS) {                                                                                     \
            fprintf(stderr, "FAIL %s:%d: %s: %d, %s\n", __FILE__, __LINE__, #call, code_, rsm_error_message());         \
            exit(1);                                                                                                    \
        }                                                                                                               \
    } while (0)

/* A controller that reaches `node`. */
static rsmapi_controller_handle_t controller_to(unsigned node) {
    rsmapi_controller_handle_t ctl = NULL;
    rsm_topology_t *topology;
    OK(rsm_get_interconnect_topology(&topology));
    for (int i = 1; i < topology->topology_hdr.local_cntlr_count && ctl == NULL; i++)
        for (int j = 0; j < topology->connections[i]->hdr.remote_cntlr_count && ctl == NULL; j++)
            if (topology->connections[i]->remote_cntlr[j].remote_nodeid == node)
                OK(rsm_get_controller(topology->connections[i]->hdr.cntlr_name, &ctl));
    rsm_free_interconnect_topology(topology);
    CHECK(ctl != NULL);
    return ctl;
}

static void victim(int ask) {
    rsmapi_controller_handle_t ctl = controller_to(1);
    unsigned char *memory;
    CHECK(posix_memalign((void **)&memory, PAGE, PAGE) == 0);
    memset(memory, 3, PAGE);
    rsm_memseg_export_handle_t exported;
    rsm_memseg_id_t id = ID;
    rsmapi_access_entry_t list = {1, 0600};
    CHECK(rsm_next_fault(NULL, NULL, 0) == 0);
    OK(rsm_memseg_export_create(ctl, &exported, memory, PAGE, 0));
    OK(rsm_memseg_export_publish(exported, &id, &list, 1));
    OK(rsm_intr_signal_wait(exported, 30000));
    rsm_refused_t refused;
    CHECK(rsm_get_refused(NULL) == RSMERR_BAD_ADDR);
    if (ask) {
        /* What was wrong, in the order in which it came. */
        const char *values[WRONG] = {"0x500000", "0x500000", "0x500000", "0x1267", "0x30201"};
        for (int told = 0; told < WRONG;) {
            char sentence[200] = "";
            rsm_node_id_t node = 99;
            if (rsm_next_fault(&node, sentence, sizeof sentence) == 0)
                continue;
            CHECK(node == STRANGER && strstr(sentence, "process 2 ") != NULL);
            if (strstr(sentence, values[told]) == NULL) {
                fprintf(stderr, "FAIL: fault %d, \"%s\", is not about %s\n", told, sentence, values[told]);
                exit(1);
            }
            told++;
        }
        CHECK(rsm_next_fault(NULL, NULL, 0) == 0);
    }
    do {
        CHECK(rsm_intr_signal_wait(exported, 1) == RSMERR_TIMEOUT);
        OK(rsm_get_refused(&refused));
    } while (refused.strangers + refused.malformed < WRONG);
    CHECK(refused.strangers == 4 && refused.malformed == 1 && refused.late == 0);
    CHECK(refused.controllers == 0 && refused.segments == 0 && refused.ranges == 0);
    /* What is right arrives, and that alone. */
    OK(rsm_intr_signal_post(exported, 0));
    OK(rsm_intr_signal_wait(exported, 30000));
    CHECK(memory[100] == 5 && memory[101] == 3);
    CHECK(rsm_intr_signal_wait(exported, 0) == RSMERR_TIMEOUT);
    OK(rsm_memseg_export_destroy(exported));
}

static void importer(void) {
    rsmapi_controller_handle_t ctl = controller_to(0);
    rsm_memseg_import_handle_t imported;
    rsmapi_barrier_t barrier;
    int code;
    while ((code = rsm_memseg_import_connect(ctl, 0, ID, RSM_PERM_RDWR, &imported)) == RSMERR_SEG_NOT_PUBLISHED)
        ;
    OK(code);
    OK(rsm_memseg_import_init_barrier(imported, 0, &barrier));
    OK(rsm_intr_signal_post(imported, 0));
    OK(rsm_intr_signal_wait(imported, 60000));
    OK(rsm_memseg_import_put8(imported, 100, (uint8_t[]){5}, 1));
    OK(rsm_intr_signal_post(imported, 0));
    CHECK(rsm_intr_signal_wait(imported, 60000) == RSMERR_CONN_ABORTED);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    rsm_topology_t *topology;
    OK(rsm_get_interconnect_topology(&topology));
    const unsigned me = topology->topology_hdr.local_nodeid;
    rsm_free_interconnect_topology(topology);
    if (me == 0)
        victim(strcmp(argv[1], "untold") != 0);
    else
        importer();
    return 0;
}
