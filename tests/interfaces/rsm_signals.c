// interface: rsm
// ranks: 2 3
// Signals of remote shared memory: those that do not accumulate, descriptors that a program polls itself, and threads that put, get, signal
// and wait at once. Rank 0 exports; the others are importers.
#include "check.h"
#include <farpost/rsm.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>

#define OK(call)                                                                                                        \
    do {                                                                                                                \
        int code_ = (call);                                                                                             \
        if (code_ != RSM_SUCCESS) {                                                                                     \
            fprintf(stderr, "FAIL %s:%d: %s: %d, %s\n", __FILE__, __LINE__, #call, code_, rsm_error_message());         \
            exit(1);                                                                                                    \
        }                                                                                                               \
    } while (0)

enum { PAGE = 4096, SIZE = 64 * PAGE, ID = 0x500000, THREADS = 4, ROUNDS = 50, PART = 8 * PAGE, FLAG = SIZE - 64, FOREVER = 60000 };

/* Signals that are there, each taken. */
static int pending(void *segment) {
    int count = 0, code;
    while ((code = rsm_intr_signal_wait(segment, 0)) == RSM_SUCCESS)
        count++;
    CHECK(code == RSMERR_TIMEOUT);
    return count;
}

/* What poll(2) says of a descriptor, which nothing but the library's own thread makes readable meanwhile. */
static int readable(struct pollfd of, int timeout) {
    of.revents = 0;
    const int found = poll(&of, 1, timeout);
    CHECK(found >= 0 && (found == 0 || of.revents & POLLIN));
    return found;
}

typedef struct {
    rsm_memseg_import_handle_t imported;
    int number;
} work_t;

/* Each thread has a part of the segment of its own, and a scope. */
static void *put_and_get(void *argument) {
    const work_t *work = argument;
    unsigned char out[PART], in[PART];
    rsmapi_barrier_t barrier;
    OK(rsm_memseg_import_init_barrier(work->imported, 0, &barrier));
    for (int round = 0; round < ROUNDS; round++) {
        memset(out, 1 + (work->number * 7 + round) % 250, PART);
        int code;
        do {
            OK(rsm_memseg_import_open_barrier(&barrier));
            OK(rsm_memseg_import_put(work->imported, work->number * PART, out, PART));
            code = rsm_memseg_import_close_barrier(&barrier);
        } while (code == RSMERR_BARRIER_FAILURE);
        OK(code);
        OK(rsm_memseg_import_get(work->imported, work->number * PART, in, PART));
        CHECK(memcmp(in, out, PART) == 0);
        OK(rsm_intr_signal_post(work->imported, 0));
    }
    OK(rsm_memseg_import_destroy_barrier(&barrier));
    return NULL;
}

static int taken;
static pthread_mutex_t count = PTHREAD_MUTEX_INITIALIZER;

/* Takes signals until all that come have been taken, by whichever thread. */
static void *take(void *argument) {
    rsm_memseg_export_handle_t exported = *(rsm_memseg_export_handle_t *)argument;
    for (;;) {
        pthread_mutex_lock(&count);
        const int mine = taken < THREADS * ROUNDS;
        taken += mine;
        pthread_mutex_unlock(&count);
        if (!mine)
            return NULL;
        OK(rsm_intr_signal_wait(exported, FOREVER));
    }
}

static void exporter(const char *memory, int others, rsm_memseg_export_handle_t exported) {
    /* Each says that it is there. */
    for (int i = 0; i < others; i++)
        OK(rsm_intr_signal_wait(exported, FOREVER));
    CHECK(pending(exported) == 0);
    /* Of these each importer sees one, of the others four. */
    for (int batch = 1; batch <= 2; batch++) {
        for (int i = 0; i < (batch == 1 ? 1 : 4); i++)
            OK(rsm_intr_signal_post(exported, 0));
        for (int i = 0; i < 20; i++)
            OK(rsm_intr_signal_post(exported, RSM_SIGPOST_NO_ACCUMULATE));
        ((volatile char *)memory)[FLAG] = (char)batch;
        for (int i = 0; i < others; i++)
            OK(rsm_intr_signal_wait(exported, FOREVER));
    }
    /* Descriptors: quiet, then readable while this thread calls poll and nothing else, and quiet again when the signal is taken. */
    struct pollfd of;
    OK(rsm_memseg_get_pollfd(exported, &of));
    CHECK(readable(of, 0) == 0);
    OK(rsm_intr_signal_post(exported, 0));
    for (int i = 0; i < others; i++) {
        CHECK(readable(of, FOREVER) == 1);
        OK(rsm_intr_signal_wait(exported, FOREVER));
    }
    CHECK(readable(of, 0) == 0);
    int ready;
    CHECK(rsm_intr_signal_wait_pollfd(&of, 1, 0, &ready) == RSMERR_TIMEOUT);
    OK(rsm_memseg_release_pollfd(exported));
    OK(rsm_intr_signal_post(exported, 0));
    /* Threads. */
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, take, &exported) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (int number = 0; number < THREADS; number++)
        for (int i = 0; i < PART; i++)
            CHECK((unsigned char)memory[number * PART + i] == 1 + (number * 7 + ROUNDS - 1) % 250);
    CHECK(pending(exported) == 0);
    /* The end of a segment is something to look at, for who polls. */
    OK(rsm_memseg_export_destroy(exported));
}

static void importer(rsm_memseg_import_handle_t imported, int me) {
    struct pollfd of;
    OK(rsm_memseg_get_pollfd(imported, &of));
    CHECK(readable(of, 0) == 0);
    OK(rsm_intr_signal_post(imported, 0));
    for (int batch = 1; batch <= 2; batch++) {
        /* Nothing is taken before all have been posted, and what was posted is here after a barrier. */
        char flag = 0;
        while (flag != batch)
            OK(rsm_memseg_import_get(imported, FLAG, &flag, 1));
        OK(rsm_memseg_import_put(imported, FLAG + me, &flag, 1));
        CHECK(readable(of, FOREVER) == 1);
        CHECK(pending(imported) == (batch == 1 ? 1 : 4));
        CHECK(readable(of, 0) == 0);
        OK(rsm_intr_signal_post(imported, 0));
    }
    /* Twice told, once the other way in between. */
    for (int i = 0; i < 2; i++) {
        CHECK(readable(of, FOREVER) == 1);
        OK(rsm_intr_signal_wait(imported, FOREVER));
        if (i == 0)
            OK(rsm_intr_signal_post(imported, 0));
    }
    if (me == 1) {
        pthread_t threads[THREADS];
        work_t work[THREADS];
        for (int i = 0; i < THREADS; i++) {
            work[i] = (work_t){.imported = imported, .number = i};
            CHECK(pthread_create(&threads[i], NULL, put_and_get, &work[i]) == 0);
        }
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
    }
    CHECK(readable(of, FOREVER) == 1);
    CHECK(rsm_intr_signal_wait(imported, 0) == RSMERR_CONN_ABORTED);
    OK(rsm_memseg_release_pollfd(imported));
    OK(rsm_memseg_import_disconnect(imported));
}

int main(void) {
    rsm_topology_t *topology;
    OK(rsm_get_interconnect_topology(&topology));
    const int me = (int)topology->topology_hdr.local_nodeid;
    int nodes = 0;
    char name[64] = "";
    for (int i = 1; i < topology->topology_hdr.local_cntlr_count; i++) {
        rsm_connections_t *connections = topology->connections[i];
        for (int j = 0; j < connections->hdr.remote_cntlr_count; j++) {
            const int node = (int)connections->remote_cntlr[j].remote_nodeid;
            if (node >= nodes)
                nodes = node + 1;
            /* To rank 0, or from it to any other. */
            if (me == 0 ? node != 0 : node == 0)
                strcpy(name, connections->hdr.cntlr_name);
        }
    }
    rsm_free_interconnect_topology(topology);
    CHECK(nodes > 1 && name[0] != 0);
    rsmapi_controller_handle_t controller;
    OK(rsm_get_controller(name, &controller));
    if (me == 0) {
        char *memory;
        CHECK(posix_memalign((void **)&memory, PAGE, SIZE) == 0);
        memset(memory, 0, SIZE);
        rsm_memseg_export_handle_t exported;
        rsm_memseg_id_t id = ID;
        OK(rsm_memseg_export_create(controller, &exported, memory, SIZE, 0));
        OK(rsm_memseg_export_publish(exported, &id, NULL, 0));
        exporter(memory, nodes - 1, exported);
        free(memory);
    } else {
        rsm_memseg_import_handle_t imported;
        int code;
        while ((code = rsm_memseg_import_connect(controller, 0, ID, RSM_PERM_RDWR, &imported)) == RSMERR_SEG_NOT_PUBLISHED)
            ;
        OK(code);
        rsmapi_barrier_t barrier;
        OK(rsm_memseg_import_init_barrier(imported, 0, &barrier));
        importer(imported, me);
    }
    OK(rsm_release_controller(controller));
    return 0;
}
