/* Puts between hosts that go on while rails fail: rank 1 fills rank 0's segment again and again, with a barrier after each
 * round and a signal (puts are repeated when it fails); rank 0 checks every byte, and answers. Ends after argv[1] seconds. Says what stream.c says, and the degrees of
 * striping, one after the other, from when both rails work. */
#include <farpost/rsm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAGE = 4096, SIZE = 1 << 20, ID = 0x500000 };
#define OK(call)                                                                                                        \
    do {                                                                                                                \
        int code_ = (call);                                                                                             \
        if (code_ != RSM_SUCCESS) {                                                                                     \
            fprintf(stderr, "FAIL line %d: %s: %s\n", __LINE__, #call, rsm_error_message());                            \
            exit(1);                                                                                                    \
        }                                                                                                               \
    } while (0)

static unsigned char pattern(unsigned round, size_t i) {
    return (unsigned char)(round * 29 + i * 7 + i / 256);
}

/* Rails to node 0 that the topology says are active. */
static unsigned active(void) {
    unsigned found = 0;
    rsm_topology_t *topology;
    OK(rsm_get_interconnect_topology(&topology));
    for (int i = 0; i < topology->topology_hdr.local_cntlr_count; i++) {
        rsm_connections_t *of = topology->connections[i];
        for (int j = 0; j < of->hdr.remote_cntlr_count; j++)
            found += of->remote_cntlr[j].remote_nodeid == 0 && strncmp(of->hdr.cntlr_name, "tcp", 3) == 0 &&
                     of->remote_cntlr[j].connection_state == RSM_CONNECTION_ACTIVE;
    }
    rsm_free_interconnect_topology(topology);
    return found;
}

/* The degree of striping to node 0, by the function and by the topology, which agree unless it changes just then. */
static unsigned degree(void) {
    unsigned works, rails;
    for (int i = 0; i < 1000; i++) {
        OK(rsm_get_striping(0, &works, &rails));
        if (rails != 2) {
            fprintf(stderr, "FAIL: %u rails\n", rails);
            exit(1);
        }
        if (active() == works)
            return works;
    }
    fprintf(stderr, "FAIL: degree %u, %u rails active\n", works, active());
    exit(1);
}

int main(int argc, char **argv) {
    const double seconds = argc > 1 ? atof(argv[1]) : 5;
    rsm_topology_t *topology;
    OK(rsm_get_interconnect_topology(&topology));
    const unsigned me = topology->topology_hdr.local_nodeid;
    int rails = 0;
    for (int i = 0; i < topology->topology_hdr.local_cntlr_count; i++)
        rails += strncmp(topology->connections[i]->hdr.cntlr_name, "tcp", 3) == 0;
    rsm_free_interconnect_topology(topology);
    /* Both rails are controllers before anything was sent over them. */
    if (rails != 2) {
        fprintf(stderr, "FAIL: %d controllers of rails\n", rails);
        exit(1);
    }
    rsmapi_controller_handle_t ctl;
    OK(rsm_get_controller("tcp0", &ctl));
    if (me == 0) {
        unsigned char *memory;
        if (posix_memalign((void **)&memory, PAGE, SIZE) != 0)
            return 1;
        memset(memory, 0, SIZE);
        rsm_memseg_export_handle_t exported;
        rsm_memseg_id_t id = ID;
        OK(rsm_memseg_export_create(ctl, &exported, memory, SIZE, 0));
        OK(rsm_memseg_export_publish(exported, &id, NULL, 0));
        for (unsigned round = 1;; round++) {
            OK(rsm_intr_signal_wait(exported, 60000));
            if (memory[0] == 0xff && memory[1] == 0xff && memory[2] == 0xff && memory[3] == 0xff) {
                OK(rsm_intr_signal_post(exported, 0));
                break;
            }
            for (size_t i = 0; i < SIZE; i++)
                if (memory[i] != pattern(round, i)) {
                    fprintf(stderr, "FAIL round %u: byte %zu\n", round, i);
                    return 1;
                }
            OK(rsm_intr_signal_post(exported, 0));
        }
        OK(rsm_intr_signal_wait(exported, 60000));
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
    unsigned char *data = malloc(SIZE);
    unsigned round = 1, failures = 0, moving = 0;
    unsigned degrees[100], changes = 0;
    double longest = 0;
    struct timespec start, before, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (;; round++) {
        clock_gettime(CLOCK_MONOTONIC, &before);
        const int last = (double)(before.tv_sec - start.tv_sec) > seconds;
        for (size_t i = 0; i < SIZE; i++)
            data[i] = last ? 0xff : pattern(round, i);
        for (;;) {
            OK(rsm_memseg_import_open_barrier(&barrier));
            for (size_t i = 0; i < SIZE; i += 100000)
                OK(rsm_memseg_import_put(imported, (off_t)i, data + i, SIZE - i < 100000 ? SIZE - i : 100000));
            code = rsm_memseg_import_order_barrier(&barrier);
            if (code == RSM_SUCCESS)
                break;
            /* The same again, as the interface has it. */
            if (code != RSMERR_BARRIER_FAILURE)
                OK(code);
            failures++;
        }
        OK(rsm_intr_signal_post(imported, 0));
        OK(rsm_intr_signal_wait(imported, 60000));
        /* The scope lasts as long as anything is on its way, so that no change of route is missed. */
        code = rsm_memseg_import_close_barrier(&barrier);
        if (code != RSMERR_BARRIER_FAILURE)
            OK(code);
        failures += code != RSM_SUCCESS;
        /* Fewer than all only from when there were all. */
        const unsigned now_works = degree();
        if (changes == 0 ? now_works == 2 : changes < 100 && now_works != degrees[changes - 1])
            degrees[changes++] = now_works;
        if (changes == 1 && !moving) {
            moving = 1;
            printf("moving\n");
            fflush(stdout);
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
        const double took = (double)(now.tv_sec - before.tv_sec) + (double)(now.tv_nsec - before.tv_nsec) * 1e-9;
        if (took > longest)
            longest = took;
        if (last)
            break;
    }
    printf("%d rails, %u rounds, %u barriers failed\nlongest exchange %.3f s, 0 wrong\n", rails, round, failures, longest);
    printf("degrees");
    for (unsigned i = 0; i < changes; i++)
        printf(" %u", degrees[i]);
    printf("\n");
    fflush(stdout);
    OK(rsm_intr_signal_post(imported, 0));
    OK(rsm_memseg_import_disconnect(imported));
    free(data);
    return 0;
}
