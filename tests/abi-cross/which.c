// Says which library it runs on, after a round of communication: the same executable on several libraries.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int rank, size, n, sum = 0, x = 1, y = -1, major, minor;
    MPI_Status st;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&x, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 7, &y, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &st);
    if (sum != size || y != (rank + size - 1) % size || st.MPI_SOURCE != y || st.MPI_TAG != 7) {
        fprintf(stderr, "rank %d of %d: wrong: sum %d, neighbour %d, status %d %d\n", rank, size, sum, y, st.MPI_SOURCE, st.MPI_TAG);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    MPI_Abi_get_version(&major, &minor);
    MPI_Get_library_version(text, &n);
    for (int i = 0; text[i]; i++)
        if (text[i] == '\n') text[i] = 0;
    if (rank == 0) printf("%d ranks, ABI %d.%d, %.60s\n", size, major, minor, text);
    MPI_Finalize();
    return 0;
}
