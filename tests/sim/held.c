// Messages around a ring; then rank 0 waits, outside of the library, until somebody writes into the file of the first argument (a FIFO).
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size, x = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 20; i++)
        MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &x, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("held\n");
        fflush(stdout);
        char word;
        int fifo = open(argv[1], O_RDONLY);
        if (fifo < 0 || read(fifo, &word, 1) != 1) return 1;
        close(fifo);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("over\n");
    MPI_Finalize();
    return 0;
}
