// simulated: no, it waits in a loop for memory to change, and MPI's own thread is off there
// A process that computes and calls nothing gets on all the same with FARPOST_PROGRESS_THREAD=1: its long message leaves, a message
// arrives in its memory, a collective passes through it.
// ranks: 2 3 5 8
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LONG = 3 << 20, ROUNDS = 3 };

static unsigned char pattern(int round, int i) {
    return (unsigned char)(round * 37 + i * 5 + i / 4096);
}

static void fail(const char *what) {
    fprintf(stderr, "FAIL: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv) {
    // Who is not served computes for ever.
    alarm(100);
    setenv("FARPOST_PROGRESS_THREAD", "1", 0);
    MPI_Init(&argc, &argv);
    int me, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    unsigned char *data = malloc(LONG);
    volatile int *answers = calloc((size_t)size, sizeof *answers);
    MPI_Request *requests = malloc(2 * (size_t)size * sizeof *requests);
    for (int round = 1; round <= ROUNDS; round++) {
        MPI_Request barrier;
        if (me == 0) {
            for (int i = 0; i < LONG; i++)
                data[i] = pattern(round, i);
            int count = 0;
            for (int to = 1; to < size; to++) {
                MPI_Isend(data, LONG, MPI_BYTE, to, round, MPI_COMM_WORLD, &requests[count++]);
                MPI_Irecv((int *)&answers[to], 1, MPI_INT, to, round, MPI_COMM_WORLD, &requests[count++]);
            }
            MPI_Ibarrier(MPI_COMM_WORLD, &barrier);
            // Computes. Each answer says that the whole message has arrived.
            for (int from = 1; from < size; from++)
                while (answers[from] != round)
                    ;
            MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
            MPI_Wait(&barrier, MPI_STATUS_IGNORE);
        } else {
            MPI_Ibarrier(MPI_COMM_WORLD, &barrier);
            MPI_Recv(data, LONG, MPI_BYTE, 0, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int i = 0; i < LONG; i++)
                if (data[i] != pattern(round, i))
                    fail("a byte of the long message");
            // All have come to the barrier, also who computes.
            MPI_Wait(&barrier, MPI_STATUS_IGNORE);
            MPI_Send(&round, 1, MPI_INT, 0, round, MPI_COMM_WORLD);
        }
    }
    free(data);
    free((int *)answers);
    free(requests);
    MPI_Finalize();
    return 0;
}
