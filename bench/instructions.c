/*
 * Instructions of the fast path: N messages of 8 bytes from rank 0 to rank 1, which lie in its queue when it receives them.
 * Collected are the two loops alone. scripts/count-instructions.sh runs this under callgrind with two values of N; the
 * difference is what one message takes.
 */
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 10, rank;
    long value = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
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
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        CALLGRIND_TOGGLE_COLLECT;
        for (int i = 0; i < n; i++)
            MPI_Send(&value, 1, MPI_LONG, 1, 7, MPI_COMM_WORLD);
        CALLGRIND_TOGGLE_COLLECT;
    } else {
        sleep(3);
        CALLGRIND_TOGGLE_COLLECT;
        for (int i = 0; i < n; i++)
            MPI_Recv(&value, 1, MPI_LONG, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CALLGRIND_TOGGLE_COLLECT;
    }
    return MPI_Finalize();
}
