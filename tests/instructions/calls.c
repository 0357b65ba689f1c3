/*
 * Instructions of short messages over postboxes, counted by callgrind: scripts/test-instructions.sh runs this with two ranks and
 * reads the counts. Each call is made 2 and 22 times between two dumps; the difference, less that of a loop around a function that
 * does nothing, is what 20 calls take. Nothing waits while it counts: rank 1 begins a section when rank 0 has ended it, and all that
 * is sent is less than half a queue.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

bool reference_send(const uint64_t *data, uint32_t source, int tag, uint64_t context);
bool reference_receive(uint64_t *data, uint32_t source, int tag, uint64_t context);

static __attribute__((noinline)) int nothing(const void *data, int count, MPI_Datatype type, int rank, int tag, MPI_Comm comm) {
    __asm__ volatile("" ::"r"(data), "r"(count), "r"(type), "r"(rank), "r"(tag), "r"(comm) : "memory");
    return 0;
}

static long value = 1;
static uint64_t word = 1;
static int rank, sections;
static const char *directory;
static MPI_Request request;

/* Wait for each other without any call of MPI's: by files. */
static void meet(void) {
    char name[4096];
    for (int turn = 0; turn < 2; turn++) {
        snprintf(name, sizeof name, "%s/%d.%d", directory, sections, turn);
        if (rank == turn)
            fclose(fopen(name, "w"));
        else
            while (access(name, F_OK) != 0)
                usleep(1000);
    }
    sections++;
}

#define COUNT(name, call)                                                                                                          \
    for (int n = 2; n <= 22; n += 20) {                                                                                           \
        char text[64];                                                                                                             \
        snprintf(text, sizeof text, "%s %d", name, n);                                                                             \
        if (rank == 1)                                                                                                             \
            meet();                                                                                                                \
        CALLGRIND_TOGGLE_COLLECT;                                                                                                  \
        for (int i = 0; i < n; i++)                                                                                                \
            call;                                                                                                                  \
        CALLGRIND_TOGGLE_COLLECT;                                                                                                  \
        CALLGRIND_DUMP_STATS_AT(text);                                                                                             \
        meet();                                                                                                                    \
        if (rank == 0)                                                                                                             \
            meet();                                                                                                                \
    }

#define BOTH(of_0, call_0, of_1, call_1)                                                                                           \
    if (rank == 0) {                                                                                                               \
        COUNT(of_0, call_0)                                                                                                        \
    } else {                                                                                                                       \
        COUNT(of_1, call_1)                                                                                                        \
    }

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    directory = argc > 1 ? argv[1] : ".";
    /* Connections are made by the first messages. */
    for (int i = 0; i < 4; i++) {
        if (rank == 0) {
            MPI_Send(&value, 1, MPI_LONG, 1, 7, MPI_COMM_WORLD);
            MPI_Recv(&value, 1, MPI_LONG, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(&value, 1, MPI_LONG, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&value, 1, MPI_LONG, 0, 7, MPI_COMM_WORLD);
        }
    }
    BOTH("nothing", nothing(&value, 1, MPI_LONG, 1, 7, MPI_COMM_WORLD), "nothing.1", nothing(&value, 1, MPI_LONG, 0, 7, MPI_COMM_WORLD))
    BOTH("reference", (reference_send(&word, 0, 7, 1), reference_receive(&word, 0, 7, 1)), "-", (void)0)
    BOTH("MPI_Send", MPI_Send(&value, 1, MPI_LONG, 1, 7, MPI_COMM_WORLD), "MPI_Recv",
         MPI_Recv(&value, 1, MPI_LONG, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE))
    BOTH("MPI_Isend+MPI_Wait",
         (MPI_Isend(&value, 1, MPI_LONG, 1, 7, MPI_COMM_WORLD, &request), MPI_Wait(&request, MPI_STATUS_IGNORE)), "MPI_Irecv+MPI_Wait",
         (MPI_Irecv(&value, 1, MPI_LONG, 0, 7, MPI_COMM_WORLD, &request), MPI_Wait(&request, MPI_STATUS_IGNORE)))
    return MPI_Finalize();
}
