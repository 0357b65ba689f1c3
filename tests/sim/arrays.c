// Long variables, of which each rank has its own: 16 MB, of which it writes a few pages, and some of which others send it.
#include <mpi.h>
#include <stdio.h>

enum { LENGTH = 2 << 20 };
static double many[LENGTH], begun[1 << 16] = {[9] = 9.5};

int main(int argc, char **argv) {
    int rank, size, wrong = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    wrong += many[LENGTH / 2] != 0 || begun[9] != 9.5;
    many[LENGTH / 2] = begun[9] = rank;
    for (int i = 0; i < 20000; i++) many[i] = rank + i;
    const int to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Sendrecv(many, 20000, MPI_DOUBLE, to, 0, many + LENGTH - 20000, 20000, MPI_DOUBLE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < 20000; i++) wrong += many[LENGTH - 20000 + i] != from + i;
    double sum = 0;
    for (int i = 0; i < 3; i++) MPI_Allreduce(&many[LENGTH / 2], &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    wrong += many[LENGTH / 2] != rank || begun[9] != rank || sum != size * (size - 1) / 2;
    printf("rank %d: %d wrong\n", rank, wrong);
    MPI_Finalize();
    return 0;
}
