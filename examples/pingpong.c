// ranks: 2
// How long a message takes: two ranks send one back and forth, size by size.
// mpicc -O2 -o pingpong pingpong.c && mpiexec -n 2 ./pingpong
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size < 2) {
        fprintf(stderr, "pingpong needs two ranks: mpiexec -n 2 %s\n", argv[0]);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    const int largest = 1 << 20;
    char *buf = calloc(1, largest);
    for (int n = 1; n <= largest && rank < 2; n *= 4) {
        const int rounds = n < 65536 ? 1000 : 100;
        double start = 0;
        for (int i = -rounds / 10; i < rounds; i++) { // the first tenth warms up
            if (i == 0) start = MPI_Wtime();
            if (rank == 0) {
                MPI_Send(buf, n, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
                MPI_Recv(buf, n, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else {
                MPI_Recv(buf, n, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Send(buf, n, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
            }
        }
        const double one_way = (MPI_Wtime() - start) / rounds / 2;
        if (rank == 0) printf("%8d bytes  %9.2f us  %9.1f MB/s\n", n, one_way * 1e6, n / one_way / 1e6);
    }
    free(buf);
    MPI_Finalize();
    return 0;
}
