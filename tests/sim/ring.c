// Messages of several lengths around a ring, each checked, and the virtual time that they took: all of it in one line a rank.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static const int lengths[] = {0, 1, 12, 13, 64, 1000, 20000, 300000};

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size, most = argc > 1 ? atoi(argv[1]) : 8;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    unsigned char *out = malloc(300000), *in = malloc(300000);
    double begun = MPI_Wtime();
    for (int l = 0; l < most; l++) {
        for (int i = 0; i < lengths[l]; i++) out[i] = (unsigned char)(7 * i + rank + l), in[i] = 0;
        MPI_Sendrecv(out, lengths[l], MPI_BYTE, to, l, in, lengths[l], MPI_BYTE, from, l, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < lengths[l]; i++)
            if (in[i] != (unsigned char)(7 * i + from + l)) printf("rank %d: wrong at byte %d of %d\n", rank, i, lengths[l]), exit(1);
    }
    double sum, mine = rank + 1;
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    char name[MPI_MAX_PROCESSOR_NAME];
    int len;
    MPI_Get_processor_name(name, &len);
    printf("rank %d of %d on %s: sum %g, %.3f us\n", rank, size, name, sum, (MPI_Wtime() - begun) * 1e6);
    MPI_Finalize();
    return 0;
}
