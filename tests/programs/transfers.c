// ranks: 1 2 4
// Messages of every protocol (in one line, in blocks, by both sides' copies), reductions and broadcasts of both sizes, of which
// every byte is looked at: run by itself, and under tools that follow each byte (tools.sh).
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    enum { LONG = 1 << 17 };
    int rank, size, bad = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    for (int n = 1; n <= 4 << 20; n *= 4) {
        char *out = (char *)malloc((size_t)n), *in = (char *)malloc((size_t)n);
        MPI_Request request;
        MPI_Status status;
        memset(out, rank + 1, (size_t)n);
        MPI_Sendrecv(out, n, MPI_CHAR, right, 0, in, n, MPI_CHAR, left, 0, MPI_COMM_WORLD, &status);
        for (int i = 0; i < n; i++) bad += in[i] != left + 1;
        free(in);
        // Unexpected, found by a probe; every second byte of a longer buffer.
        in = (char *)malloc(2 * (size_t)n);
        memset(in, 0, 2 * (size_t)n);
        MPI_Datatype half;
        MPI_Type_vector(n, 1, 2, MPI_CHAR, &half);
        MPI_Type_commit(&half);
        MPI_Isend(out, n, MPI_CHAR, right, 1, MPI_COMM_WORLD, &request);
        MPI_Probe(left, 1, MPI_COMM_WORLD, &status);
        MPI_Recv(in, 1, half, left, 1, MPI_COMM_WORLD, &status);
        for (int i = 0; i < n; i++) bad += in[2 * i] != left + 1 || in[2 * i + 1] != 0;
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Type_free(&half);
        free(out), free(in);
    }
    double *x = (double *)malloc(LONG * sizeof *x), *y = (double *)malloc(LONG * sizeof *y);
    for (int pass = 0; pass < 2; pass++) {
        const int n = pass ? LONG : 1;
        for (int i = 0; i < n; i++) x[i] = rank + i;
        MPI_Allreduce(x, y, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < n; i++) bad += y[i] != size * (size - 1) / 2.0 + (double)size * i;
        MPI_Bcast(x, n, MPI_DOUBLE, size - 1, MPI_COMM_WORLD);
        for (int i = 0; i < n; i++) bad += x[i] != size - 1 + i;
        MPI_Reduce(x, y, n, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        for (int i = 0; i < n && rank == 0; i++) bad += y[i] != size - 1 + i;
    }
    free(x), free(y);
    MPI_Barrier(MPI_COMM_WORLD);
    if (bad) fprintf(stderr, "FAIL rank %d: %d elements differ\n", rank, bad);
    MPI_Finalize();
    return bad != 0;
}
