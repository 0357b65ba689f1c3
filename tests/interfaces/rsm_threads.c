/* Several threads of each rank use the interface at once: each has a connection of its own to the next rank's segment, and puts, gets, begins
 * requests, opens and closes barriers, signals and connects again, while one waits for the signals of the others. */
// interface: rsm
#include "check.h"
#include <farpost/rsm.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = 4096, THREADS = 4, ROUNDS = 40, PART = 16 * PAGE, SIZE = THREADS * PART, ID = 0x500000 };
/* rsm_error_message is of the process's last error: the code alone is sure to be this call's. */
#define OK(call)                                                                                                        \
    do {                                                                                                                \
        const int code_ = (call);                                                                                       \
        if (code_ != RSM_SUCCESS) {                                                                                     \
            fprintf(stderr, "FAIL %s:%d: %s: %d\n", __FILE__, __LINE__, #call, code_);                                  \
            exit(1);                                                                                                    \
        }                                                                                                               \
    } while (0)

static unsigned me, nodes, next;
static rsmapi_controller_handle_t to_next;

static void controller_to(unsigned node, rsmapi_controller_handle_t *ctl) {
    rsm_topology_t *topology;
    OK(rsm_get_interconnect_topology(&topology));
    for (int i = 1; i < topology->topology_hdr.local_cntlr_count; i++) {
        const rsm_connections_t *of = topology->connections[i];
        for (int j = 0; j < of->hdr.remote_cntlr_count; j++) {
            const unsigned remote = of->remote_cntlr[j].remote_nodeid;
            nodes = remote >= nodes ? remote + 1 : nodes;
            if (remote == node)
                OK(rsm_get_controller(of->hdr.cntlr_name, ctl));
        }
    }
    me = topology->topology_hdr.local_nodeid;
    rsm_free_interconnect_topology(topology);
}

static unsigned char pattern(unsigned node, unsigned thread, unsigned round, size_t i) {
    return (unsigned char)(node * 61 + thread * 31 + round * 7 + i + i / 256);
}

static rsm_memseg_import_handle_t connect_to_next(void) {
    rsm_memseg_import_handle_t imported;
    int code;
    while ((code = rsm_memseg_import_connect(to_next, next, ID, RSM_PERM_RDWR, &imported)) == RSMERR_SEG_NOT_PUBLISHED)
        usleep(1000);
    OK(code);
    return imported;
}

static void *work(void *argument) {
    const unsigned thread = (unsigned)(uintptr_t)argument;
    const off_t at = (off_t)(thread * PART);
    unsigned char *from = malloc(PART), *to = malloc(PART);
    CHECK(from != NULL && to != NULL);
    for (unsigned round = 0; round < ROUNDS; round++) {
        rsm_memseg_import_handle_t imported = connect_to_next();
        rsmapi_barrier_t barrier;
        OK(rsm_memseg_import_init_barrier(imported, 0, &barrier));
        for (size_t i = 0; i < PART; i++)
            from[i] = pattern(me, thread, round, i);
        memset(to, 0, PART);
        const size_t length = round % 3 == 0 ? 64 : PART;
        switch (round % 4) {
        case 0: /* implicit */
            OK(rsm_memseg_import_put(imported, at, from, length));
            OK(rsm_memseg_import_get(imported, at, to, length));
            break;
        case 1: /* explicit */
            OK(rsm_memseg_import_set_mode(imported, RSM_BARRIER_MODE_EXPLICIT));
            OK(rsm_memseg_import_open_barrier(&barrier));
            for (size_t i = 0; i < length; i += 64)
                OK(rsm_memseg_import_put(imported, at + (off_t)i, from + i, 64));
            OK(rsm_memseg_import_close_barrier(&barrier));
            OK(rsm_memseg_import_get(imported, at, to, length));
            break;
        default: { /* requests */
            rsm_request_t half[2];
            for (size_t i = 0; i < 2; i++)
                OK(rsm_memseg_import_start_put(imported, at + (off_t)(i * length / 2), from + i * length / 2, length / 2, &half[i]));
            for (size_t i = 0; i < 2; i++)
                OK(rsm_request_wait(&half[i], -1));
            for (size_t i = 0; i < 2; i++)
                OK(rsm_memseg_import_start_get(imported, at + (off_t)(i * length / 2), to + i * length / 2, length / 2, &half[i]));
            for (int done = 0; !done;)
                OK(rsm_request_test(&half[1], &done));
            OK(rsm_request_wait(&half[0], -1));
        }
        }
        CHECK(memcmp(from, to, length) == 0);
        OK(rsm_intr_signal_post(imported, 0));
        OK(rsm_memseg_import_destroy_barrier(&barrier));
        OK(rsm_memseg_import_disconnect(imported));
    }
    free(from);
    free(to);
    return NULL;
}

int main(void) {
    alarm(100);
    rsmapi_controller_handle_t ctl;
    controller_to(UINT32_MAX, &ctl);
    next = (me + 1) % nodes;
    controller_to(next, &to_next);
    controller_to((me + nodes - 1) % nodes, &ctl);
    void *memory;
    CHECK(posix_memalign(&memory, PAGE, SIZE) == 0);
    memset(memory, 0, SIZE);
    rsm_memseg_export_handle_t exported;
    rsm_memseg_id_t id = ID;
    OK(rsm_memseg_export_create(ctl, &exported, memory, SIZE, 0));
    OK(rsm_memseg_export_publish(exported, &id, NULL, 0));
    /* Kept, so that nobody ends before its importer has. */
    rsm_memseg_import_handle_t last = connect_to_next();
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    /* One for each round of each thread of the rank before, while this rank's threads are inside as well. */
    for (unsigned i = 0; i < THREADS * ROUNDS; i++)
        OK(rsm_intr_signal_wait(exported, -1));
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (unsigned thread = 0; thread < THREADS; thread++)
        for (size_t i = 64; i < PART; i++)
            /* The last round of all bytes was the last but one: its number is no multiple of 3. */
            CHECK(((unsigned char *)memory)[thread * PART + i] == pattern((me + nodes - 1) % nodes, thread, ROUNDS - 2, i));
    /* The rank before has done everything; this one tells the next one so, and waits to be told. */
    OK(rsm_intr_signal_post(last, 0));
    OK(rsm_intr_signal_wait(exported, -1));
    OK(rsm_memseg_export_destroy(exported));
    return 0;
}
