// interface: rsm
// Remote shared memory in C: controllers, segments, puts and gets, lists, barriers, signals, mappings. Every rank exports a
// segment, and works on that of the next one, by the controller that leads there: on one host or between hosts.
#include "check.h"
#include <farpost/rsm.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define OK(call)                                                                                                        \
    do {                                                                                                                \
        int code_ = (call);                                                                                             \
        if (code_ != RSM_SUCCESS) {                                                                                     \
            fprintf(stderr, "FAIL %s:%d: %s: %d, %s\n", __FILE__, __LINE__, #call, code_, rsm_error_message());         \
            exit(1);                                                                                                    \
        }                                                                                                               \
    } while (0)
#define IS(code, call)                                                                                                  \
    do {                                                                                                                \
        int got_ = (call);                                                                                              \
        if (got_ != (code)) {                                                                                           \
            fprintf(stderr, "FAIL %s:%d: %s: %d instead of %s\n", __FILE__, __LINE__, #call, got_, #code);              \
            exit(1);                                                                                                    \
        }                                                                                                               \
    } while (0)

enum { PAGE = 4096, PAGES = 8, SIZE = PAGE * PAGES, ID = 0x500000 };

static unsigned char pattern(int rank, size_t i) {
    return (unsigned char)(rank * 31 + i * 7 + i / 256);
}

int main(void) {
    rsm_topology_t *topology;
    IS(RSMERR_BAD_TOPOLOGY_PTR, rsm_get_interconnect_topology(NULL));
    OK(rsm_get_interconnect_topology(&topology));
    const int me = (int)topology->topology_hdr.local_nodeid;
    int nodes = 0, reached = 0;
    char by[64][64] = {{0}};
    CHECK(topology->topology_hdr.local_cntlr_count >= 2);
    CHECK(strcmp(topology->connections[0]->hdr.cntlr_name, "loopback") == 0);
    CHECK(topology->connections[0]->hdr.remote_cntlr_count == 1);
    for (int i = 1; i < topology->topology_hdr.local_cntlr_count; i++) {
        rsm_connections_t *connections = topology->connections[i];
        for (int j = 0; j < connections->hdr.remote_cntlr_count; j++) {
            CHECK(connections->remote_cntlr[j].connection_state == RSM_CONNECTION_ACTIVE);
            CHECK(strcmp(connections->remote_cntlr[j].remote_cntlrname, connections->hdr.cntlr_name) == 0);
            const int node = (int)connections->remote_cntlr[j].remote_nodeid;
            CHECK(node < 64);
            if (node >= nodes)
                nodes = node + 1;
            reached += by[node][0] == 0;
            strcpy(by[node], connections->hdr.cntlr_name);
        }
    }
    rsm_free_interconnect_topology(topology);
    /* Each is reached, and those of this host by its memory. */
    CHECK(nodes == reached && strcmp(by[me], "shm0") == 0);
    const int next = (me + 1) % nodes, previous = (me + nodes - 1) % nodes;
    /* Whether all others are on this host, or none is. */
    int near = 0;
    for (int i = 0; i < nodes; i++)
        near += strcmp(by[i], "shm0") == 0;
    const int alike = near == nodes || near == 1;

    /* `ctl` leads to the segment that is worked on, `ours` is where this rank's own is. */
    rsmapi_controller_handle_t ctl, ours, again, loop;
    IS(RSMERR_BAD_CTLR_HNDL, rsm_get_controller("shm0", NULL));
    IS(RSMERR_CTLR_NOT_PRESENT, rsm_get_controller("wrsm0", &ctl));
    CHECK(strstr(rsm_error_message(), "wrsm0") != NULL);
    OK(rsm_get_controller(by[next], &ctl));
    OK(rsm_get_controller(by[next], &again));
    CHECK(ctl == again);
    OK(rsm_get_controller(by[previous], &ours));
    unsigned degree, rails;
    IS(RSMERR_BAD_ADDR, rsm_get_striping(0, NULL, &rails));
    IS(RSMERR_REMOTE_NODE_UNREACHABLE, rsm_get_striping((rsm_node_id_t)nodes, &degree, NULL));
    OK(rsm_get_striping((rsm_node_id_t)next, &degree, &rails));
    CHECK(degree >= 1 && degree <= rails);
    OK(rsm_get_controller(NULL, &loop));
    OK(rsm_release_controller(again));
    rsmapi_controller_attr_t attr;
    IS(RSMERR_BAD_ADDR, rsm_get_controller_attr(ctl, NULL));
    OK(rsm_get_controller_attr(loop, &attr));
    CHECK(attr.attr_max_export_segment_size == 0);
    OK(rsm_release_controller(loop));
    IS(RSMERR_BAD_CTLR_HNDL, rsm_release_controller(loop));
    IS(RSMERR_BAD_CTLR_HNDL, rsm_get_controller_attr(loop, &attr));
    OK(rsm_get_controller_attr(ctl, &attr));
    const int maps = strcmp(by[next], "shm0") == 0;
    const unsigned all = RSM_DAS8 | RSM_DAS16 | RSM_DAS32 | RSM_DAS64;
    CHECK(attr.attr_page_size == PAGE && attr.attr_atomic_sizes == all && attr.attr_direct_access_sizes == (maps ? all : 0));

    /* Export: memory of malloc's family, with what is in it. */
    unsigned char *memory;
    CHECK(posix_memalign((void **)&memory, PAGE, SIZE) == 0);
    for (size_t i = 0; i < SIZE; i++)
        memory[i] = pattern(me, i);
    rsm_memseg_export_handle_t exported, second;
    IS(RSMERR_BAD_CTLR_HNDL, rsm_memseg_export_create(NULL, NULL, NULL, 0, 0));
    IS(RSMERR_BAD_SEG_HNDL, rsm_memseg_export_create(ctl, NULL, NULL, 0, 0));
    IS(RSMERR_BAD_ADDR, rsm_memseg_export_create(ctl, &exported, NULL, 0, 0));
    IS(RSMERR_BAD_LENGTH, rsm_memseg_export_create(ctl, &exported, memory + 1, 0, 0));
    IS(RSMERR_BAD_MEM_ALIGNMENT, rsm_memseg_export_create(ctl, &exported, memory + 1, SIZE, 0));
    IS(RSMERR_BAD_MEM_ALIGNMENT, rsm_memseg_export_create(ctl, &exported, memory, SIZE - 1, 0));
    IS(RSMERR_BAD_LENGTH, rsm_memseg_export_create(ctl, &exported, memory, (size_t)1 << 50, 0));
    OK(rsm_memseg_export_create(ours, &exported, memory, SIZE, RSM_ALLOW_REBIND));
    IS(RSMERR_BAD_ADDR, rsm_memseg_export_create(ours, &second, memory, PAGE, 0));
    OK(rsm_memseg_export_create(ours, &second, memory, SIZE, 0));
    for (size_t i = 0; i < SIZE; i++)
        CHECK(memory[i] == pattern(me, i));

    rsm_memseg_id_t id = ID, chosen = 0;
    rsmapi_access_entry_t list[2] = {{(rsm_node_id_t)previous, 0600}, {(rsm_node_id_t)me, 0400}};
    IS(RSMERR_BAD_SEGID, rsm_memseg_export_publish(exported, NULL, NULL, 1));
    IS(RSMERR_BAD_SEG_HNDL, rsm_memseg_export_publish(NULL, &id, NULL, 1));
    IS(RSMERR_BAD_ACL, rsm_memseg_export_publish(exported, &id, NULL, 1));
    id = 0x123456;
    IS(RSMERR_RESERVED_SEGID, rsm_memseg_export_publish(exported, &id, list, 2));
    id = 0x80000000u;
    IS(RSMERR_RESERVED_SEGID, rsm_memseg_export_publish(exported, &id, list, 2));
    id = ID;
    IS(RSMERR_SEG_NOT_PUBLISHED, rsm_memseg_export_unpublish(exported));
    OK(rsm_memseg_export_publish(exported, &id, list, 2));
    IS(RSMERR_SEG_ALREADY_PUBLISHED, rsm_memseg_export_publish(exported, &id, list, 2));
    IS(RSMERR_SEGID_IN_USE, rsm_memseg_export_publish(second, &id, NULL, 0));
    OK(rsm_memseg_export_publish(second, &chosen, NULL, 0));
    CHECK(chosen == 0x80000000u);

    /* Import: from the next rank, when it is there. */
    rsm_memseg_import_handle_t imported, imported2;
    IS(RSMERR_BAD_CTLR_HNDL, rsm_memseg_import_connect(NULL, 0, 0, 0, NULL));
    IS(RSMERR_PERM_DENIED, rsm_memseg_import_connect(ctl, (rsm_node_id_t)next, ID, 01600, &imported));
    IS(RSMERR_REMOTE_NODE_UNREACHABLE, rsm_memseg_import_connect(ctl, 10000, ID, RSM_PERM_READ, &imported));
    int code;
    while ((code = rsm_memseg_import_connect(ctl, (rsm_node_id_t)next, ID, RSM_PERM_RDWR, &imported)) != RSM_SUCCESS)
        IS(RSMERR_SEG_NOT_PUBLISHED, code);
    if (nodes > 2 && alike)
        while ((code = rsm_memseg_import_connect(ctl, (rsm_node_id_t)((me + 2) % nodes), ID, RSM_PERM_READ, &imported2)) !=
               RSMERR_SEG_NOT_PUBLISHED_TO_NODE)
            IS(RSMERR_SEG_NOT_PUBLISHED, code);

    uint64_t words[8] = {0};
    uint32_t halves[4] = {1, 2, 3, 4};
    uint16_t quarters[3] = {7, 8, 9};
    uint8_t bytes[5] = "abcd";
    IS(RSMERR_BAD_SEG_HNDL, rsm_memseg_import_put64(NULL, 1, NULL, 1));
    IS(RSMERR_BAD_ADDR, rsm_memseg_import_put64(imported, 1, NULL, 1));
    IS(RSMERR_BAD_MEM_ALIGNMENT, rsm_memseg_import_put64(imported, 1, words, 1));
    IS(RSMERR_BAD_MEM_ALIGNMENT, rsm_memseg_import_put16(imported, 0, (uint16_t *)(void *)((char *)halves + 1), 1));
    IS(RSMERR_BAD_LENGTH, rsm_memseg_import_put64(imported, SIZE - 8, words, 2));
    IS(RSMERR_BAD_LENGTH, rsm_memseg_import_put64(imported, 0, words, ~0ul));
    IS(RSMERR_BAD_LENGTH, rsm_memseg_import_put(imported, -8, words, 8));
    IS(RSMERR_BARRIER_UNINITIALIZED, rsm_memseg_import_put64(imported, 0, words, 1));
    rsmapi_barrier_t barrier;
    memset(&barrier, 0x5a, sizeof barrier);
    IS(RSMERR_BAD_BARRIER_PTR, rsm_memseg_import_open_barrier(NULL));
    IS(RSMERR_BARRIER_UNINITIALIZED, rsm_memseg_import_open_barrier(&barrier));
    IS(RSMERR_BAD_MODE, rsm_memseg_import_init_barrier(imported, RSM_BARRIER_NODE, &barrier));
    OK(rsm_memseg_import_init_barrier(imported, RSM_BARRIER_SEGMENT, &barrier));
    IS(RSMERR_BARRIER_NOT_OPENED, rsm_memseg_import_close_barrier(&barrier));
    rsm_barrier_mode_t mode;
    OK(rsm_memseg_import_get_mode(imported, &mode));
    CHECK(mode == RSM_BARRIER_MODE_IMPLICIT);
    IS(RSMERR_BAD_MODE, rsm_memseg_import_set_mode(imported, (rsm_barrier_mode_t)7));

    /* Elements of all sizes, bytes and lines. Page 1 of the next rank is ours to write; page 0 stays as it is. */
    OK(rsm_memseg_import_put64(imported, PAGE, (uint64_t[]){11, 12}, 2));
    OK(rsm_memseg_import_put32(imported, PAGE + 64, halves, 4));
    OK(rsm_memseg_import_put16(imported, PAGE + 128, quarters, 3));
    OK(rsm_memseg_import_put8(imported, PAGE + 193, bytes, 5));
    OK(rsm_memseg_import_set_mode(imported, RSM_BARRIER_MODE_EXPLICIT));
    OK(rsm_memseg_import_open_barrier(&barrier));
    unsigned char line[192] __attribute__((aligned(64)));
    memset(line, 77, sizeof line);
    OK(rsm_memseg_import_put(imported, PAGE + 256, line, 64));
    OK(rsm_memseg_import_put(imported, PAGE + 512, line, 192));
    OK(rsm_memseg_import_put(imported, PAGE + 1001, line, 101));
    OK(rsm_memseg_import_order_barrier(&barrier));
    OK(rsm_memseg_import_close_barrier(&barrier));
    IS(RSMERR_BARRIER_NOT_OPENED, rsm_memseg_import_close_barrier(&barrier));
    memset(words, 0, sizeof words);
    OK(rsm_memseg_import_get64(imported, PAGE, words, 2));
    CHECK(words[0] == 11 && words[1] == 12);
    uint32_t halves_back[4];
    uint16_t quarters_back[3];
    uint8_t bytes_back[5];
    OK(rsm_memseg_import_get32(imported, PAGE + 64, halves_back, 4));
    OK(rsm_memseg_import_get16(imported, PAGE + 128, quarters_back, 3));
    OK(rsm_memseg_import_get8(imported, PAGE + 193, bytes_back, 5));
    CHECK(memcmp(halves, halves_back, sizeof halves) == 0 && memcmp(quarters, quarters_back, sizeof quarters) == 0);
    CHECK(memcmp(bytes, bytes_back, sizeof bytes) == 0);
    unsigned char *back = malloc(SIZE);
    OK(rsm_memseg_import_get(imported, 0, back, SIZE));
    for (size_t i = 0; i < PAGE; i++)
        CHECK(back[i] == pattern(next, i));
    CHECK(back[PAGE + 255] == pattern(next, PAGE + 255) && back[PAGE + 256] == 77 && back[PAGE + 319] == 77);
    CHECK(back[PAGE + 320] == pattern(next, PAGE + 320) && back[PAGE + 1101] == 77);
    CHECK(back[PAGE + 1000] == pattern(next, PAGE + 1000) && back[PAGE + 1102] == pattern(next, PAGE + 1102));

    /* Lists, with handles and addresses. */
    unsigned char *page;
    CHECK(posix_memalign((void **)&page, PAGE, PAGE) == 0);
    memset(page, me + 1, PAGE);
    rsm_localmemory_handle_t local;
    IS(RSMERR_BAD_ADDR, rsm_create_localmemory_handle(ctl, &local, (char *)page + 1, PAGE));
    IS(RSMERR_BAD_LENGTH, rsm_create_localmemory_handle(ctl, &local, (char *)page, 0));
    OK(rsm_create_localmemory_handle(ctl, &local, (char *)page, PAGE));
    rsm_iovec_t iovec[3] = {{RSM_HANDLE_TYPE, {.handle = local}, 16, 2 * PAGE, 100},
                            {RSM_VA_TYPE, {.vaddr = (char *)line}, 8, 2 * PAGE + 100, 50},
                            {RSM_VA_TYPE, {.vaddr = (char *)line}, 0, 2 * PAGE + 150, 1}};
    rsm_scat_gath_t sg = {(rsm_node_id_t)me, 3, 0, 0, imported, iovec};
    IS(RSMERR_BAD_SGIO, rsm_memseg_import_putv(NULL));
    sg.io_request_count = 17;
    IS(RSMERR_BAD_SGIO, rsm_memseg_import_putv(&sg));
    sg.io_request_count = 0;
    IS(RSMERR_BAD_SGIO, rsm_memseg_import_putv(&sg));
    sg.io_request_count = 3;
    OK(rsm_memseg_import_putv(&sg));
    CHECK(sg.io_residual_count == 0);
    iovec[1].remote_offset = SIZE;
    sg.flags = RSM_IMPLICIT_SIGPOST;
    IS(RSMERR_BAD_LENGTH, rsm_memseg_import_putv(&sg));
    CHECK(sg.io_residual_count == 2);
    iovec[1].remote_offset = 2 * PAGE + 100;
    iovec[0].local_offset = PAGE - 99;
    IS(RSMERR_BAD_LENGTH, rsm_memseg_import_putv(&sg));
    iovec[0].local_offset = 2000;
    memset(page, 0, PAGE);
    memset(line, 0, sizeof line);
    sg.flags = 0;
    OK(rsm_memseg_import_getv(&sg));
    CHECK(page[1999] == 0 && page[2000] == me + 1 && page[2099] == me + 1 && page[2100] == 0);
    CHECK(line[7] == 0 && line[8] == 77 && line[57] == 77 && line[58] == 0 && line[0] == 77);
    OK(rsm_free_localmemory_handle(ctl, local));
    IS(RSMERR_BAD_LOCALMEM_HNDL, rsm_free_localmemory_handle(ctl, local));
    iovec[0].local.handle = local;
    IS(RSMERR_BAD_LOCALMEM_HNDL, rsm_memseg_import_putv(&sg));

    /* A mapping: what is stored is there. */
    void *at = NULL, *other = NULL;
    IS(RSMERR_BAD_ADDR, rsm_memseg_import_map(imported, NULL, RSM_MAP_NONE, RSM_PERM_READ, 0, PAGE));
    IS(RSMERR_BAD_MEM_ALIGNMENT, rsm_memseg_import_map(imported, &at, RSM_MAP_NONE, RSM_PERM_READ, 64, PAGE));
    IS(RSMERR_BAD_LENGTH, rsm_memseg_import_map(imported, &at, RSM_MAP_NONE, RSM_PERM_READ, 0, SIZE + 1));
    IS(RSMERR_SEG_NOT_MAPPED, rsm_memseg_import_unmap(imported));
    if (!maps) {
        IS(RSMERR_MAP_FAILED, rsm_memseg_import_map(imported, &at, RSM_MAP_NONE, RSM_PERM_RDWR, 3 * PAGE, PAGE));
        IS(RSMERR_BAD_LENGTH, rsm_memseg_import_put64(imported, SIZE, words, 1));
        goto signals;
    }
    OK(rsm_memseg_import_map(imported, &at, RSM_MAP_NONE, RSM_PERM_RDWR, 3 * PAGE, PAGE));
    IS(RSMERR_SEG_ALREADY_MAPPED, rsm_memseg_import_map(imported, &other, RSM_MAP_NONE, RSM_PERM_READ, 0, PAGE));
    IS(RSMERR_SEG_STILL_MAPPED, rsm_memseg_import_disconnect(imported));
    IS(RSMERR_BAD_OFFSET, rsm_memseg_import_put64(imported, SIZE, words, 1));
    ((unsigned char *)at)[5] = 123;
    OK(rsm_memseg_import_get(imported, 3 * PAGE + 5, back, 1));
    CHECK(back[0] == 123);
    OK(rsm_memseg_import_unmap(imported));
    at = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    other = at;
    OK(rsm_memseg_import_map(imported, &at, RSM_MAP_FIXED, RSM_PERM_READ, 3 * PAGE, PAGE));
    CHECK(at == other && ((unsigned char *)at)[5] == 123);
    OK(rsm_memseg_import_unmap(imported));
    at = other;
    OK(rsm_memseg_import_map(imported, &at, RSM_MAP_RESERVED, RSM_PERM_RDWR, 3 * PAGE, PAGE));
    CHECK(at == other && ((unsigned char *)at)[5] == 123);
    OK(rsm_memseg_import_unmap(imported));

signals:
    /* Signals: two to the exporter, and, after it has had both, one to us from the next one's segment. */
    IS(RSMERR_TIMEOUT, rsm_intr_signal_wait(imported, 0));
    OK(rsm_intr_signal_post(imported, 0));
    /* The second one by a list, in explicit mode, when all of it is done: whoever has the signal has the bytes. */
    memset(line, 88, sizeof line);
    rsm_iovec_t last[2] = {{RSM_VA_TYPE, {.vaddr = (char *)line}, 0, 4 * PAGE, 64},
                           {RSM_VA_TYPE, {.vaddr = (char *)line}, 1, 4 * PAGE + 64, 100}};
    sg = (rsm_scat_gath_t){(rsm_node_id_t)me, 2, 99, RSM_IMPLICIT_SIGPOST, imported, last};
    OK(rsm_memseg_import_open_barrier(&barrier));
    OK(rsm_memseg_import_putv(&sg));
    CHECK(sg.io_residual_count == 0);
    OK(rsm_memseg_import_close_barrier(&barrier));
    struct pollfd fds[2];
    OK(rsm_memseg_get_pollfd(exported, &fds[0]));
    OK(rsm_memseg_get_pollfd(imported, &fds[1]));
    /* Not among those that programs with many files of stdio need. */
    CHECK(fds[0].fd != fds[1].fd && fds[0].fd >= 256 && fds[1].fd >= 256);
    int got = 0, ready;
    while (got < 2) {
        OK(rsm_intr_signal_wait_pollfd(fds, 1, 30000, &ready));
        CHECK(ready == 1 && fds[0].revents == POLLRDNORM);
        got++;
    }
    IS(RSMERR_TIMEOUT, rsm_intr_signal_wait(exported, 0));
    CHECK(memory[4 * PAGE] == 88 && memory[4 * PAGE + 163] == 88 && memory[4 * PAGE + 164] == pattern(me, 4 * PAGE + 164));
    OK(rsm_intr_signal_post(exported, RSM_SIGPOST_NO_ACCUMULATE));
    while (fds[1].revents != POLLRDNORM)
        OK(rsm_intr_signal_wait_pollfd(&fds[1], 1, -1, &ready));
    IS(RSMERR_POLLFD_IN_USE, rsm_memseg_import_disconnect(imported));
    OK(rsm_memseg_release_pollfd(imported));
    IS(RSMERR_POLLFD_IN_USE, rsm_memseg_export_destroy(exported));
    OK(rsm_memseg_release_pollfd(exported));

    /* Other memory for the same connection. Who imports it looks when it is told to. */
    unsigned char *moved;
    CHECK(posix_memalign((void **)&moved, PAGE, SIZE) == 0);
    memset(moved, 200 + me, SIZE);
    IS(RSMERR_REBIND_NOT_ALLOWED, rsm_memseg_export_rebind(second, moved, 0, SIZE));
    IS(RSMERR_REBIND_NOT_ALLOWED, rsm_memseg_export_rebind(exported, moved, 0, SIZE));
    OK(rsm_memseg_export_destroy(second));
    IS(RSMERR_BAD_SEG_HNDL, rsm_memseg_export_destroy(second));
    IS(RSMERR_BAD_LENGTH, rsm_memseg_export_rebind(exported, moved, 0, PAGE));
    OK(rsm_memseg_export_rebind(exported, moved, 0, SIZE));
    CHECK(memory[0] == pattern(me, 0) && memory[PAGE + 256] == 77);
    OK(rsm_intr_signal_post(exported, 0));
    OK(rsm_intr_signal_wait(imported, 30000));
    OK(rsm_memseg_import_open_barrier(&barrier));
    OK(rsm_memseg_import_get(imported, 0, back, 1));
    CHECK(back[0] == (unsigned char)(200 + next));
    OK(rsm_memseg_import_put8(imported, 3, (uint8_t[]){99}, 1));
    OK(rsm_memseg_import_close_barrier(&barrier));
    OK(rsm_intr_signal_post(imported, 0));
    OK(rsm_intr_signal_wait(exported, 30000));
    CHECK(moved[3] == 99 && memory[3] == pattern(me, 3));

    /* Another list: nobody new, and the connection that is stays. */
    OK(rsm_memseg_export_republish(exported, &list[1], 1));
    OK(rsm_memseg_import_open_barrier(&barrier));
    OK(rsm_memseg_import_put8(imported, 4, (uint8_t[]){98}, 1));
    OK(rsm_memseg_import_close_barrier(&barrier));
    OK(rsm_intr_signal_post(imported, 0));
    OK(rsm_intr_signal_wait(exported, 30000));
    CHECK(moved[4] == 98);

    OK(rsm_memseg_import_destroy_barrier(&barrier));
    IS(RSMERR_BARRIER_UNINITIALIZED, rsm_memseg_import_destroy_barrier(&barrier));
    rsm_error_status_t status;
    OK(rsm_get_error_status(&status));
    CHECK(status.cause == RSM_CESR_NONE && status.count == 0);
    /* The exporter goes when its importer has said that it is done. */
    OK(rsm_intr_signal_post(imported, 0));
    OK(rsm_memseg_import_disconnect(imported));
    IS(RSMERR_BAD_SEG_HNDL, rsm_memseg_import_disconnect(imported));
    OK(rsm_intr_signal_wait(exported, 30000));
    OK(rsm_memseg_export_unpublish(exported));
    OK(rsm_memseg_export_destroy(exported));
    CHECK(moved[3] == 99 && moved[5] == (unsigned char)(200 + me));
    moved[5] = 1;
    OK(rsm_release_controller(ours));
    OK(rsm_release_controller(ctl));
    free(moved);
    free(memory);
    free(page);
    free(back);
    return 0;
}
