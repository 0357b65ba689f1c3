// ranks: 1 2 3 4 7 16
// C = A * B with all three matrices distributed by columns, stored column-major: the owner of each block of columns of A
// broadcasts it, everyone adds its share (the MITMatlab case of the StarT-X paper). Serial result: the triple loop on
// whole matrices of small integers in doubles, so the comparison is exact.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double a_at(int i, int j) { return (double)((i * 7 + j * 3) % 11 - 5); }
static double b_at(int i, int j) { return (double)((i * 5 + j * 13) % 17 - 8); }
static int first(int n, int size, int rank) { return (int)((long)n * rank / size); }

static int multiply(int n, int rank, int size) {
    const int j0 = first(n, size, rank), cols = first(n, size, rank + 1) - j0;
    const size_t local = (size_t)n * (size_t)(cols ? cols : 1);
    double *a = (double *)malloc(local * sizeof(double)), *b = (double *)malloc(local * sizeof(double));
    double *c = (double *)calloc(local, sizeof(double)), *panel = (double *)malloc((size_t)n * (size_t)(n / size + 1) * sizeof(double));
    for (int j = 0; j < cols; j++)
        for (int i = 0; i < n; i++) {
            a[(size_t)j * n + i] = a_at(i, j0 + j);
            b[(size_t)j * n + i] = b_at(i, j0 + j);
        }
    for (int owner = 0; owner < size; owner++) {
        const int k0 = first(n, size, owner), width = first(n, size, owner + 1) - k0;
        if (owner == rank && width) memcpy(panel, a, (size_t)n * (size_t)width * sizeof(double));
        MPI_Bcast(panel, n * width, MPI_DOUBLE, owner, MPI_COMM_WORLD);
        for (int j = 0; j < cols; j++)
            for (int k = 0; k < width; k++) {
                const double f = b[(size_t)j * n + k0 + k];
                for (int i = 0; i < n; i++) c[(size_t)j * n + i] += panel[(size_t)k * n + i] * f;
            }
    }
    int *counts = (int *)malloc(sizeof(int) * (size_t)size), *displs = (int *)malloc(sizeof(int) * (size_t)size);
    for (int r = 0; r < size; r++) {
        displs[r] = n * first(n, size, r);
        counts[r] = n * first(n, size, r + 1) - displs[r];
    }
    double *whole = rank == 0 ? (double *)malloc((size_t)n * (size_t)n * sizeof(double)) : NULL;
    MPI_Gatherv(c, n * cols, MPI_DOUBLE, whole, counts, displs, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    int bad = 0;
    if (rank == 0)
        for (int j = 0; j < n && !bad; j++)
            for (int i = 0; i < n; i++) {
                double want = 0;
                for (int k = 0; k < n; k++) want += a_at(i, k) * b_at(k, j);
                if (whole[(size_t)j * n + i] != want) {
                    fprintf(stderr, "n=%d: C(%d,%d) is %g, serial result %g\n", n, i, j, whole[(size_t)j * n + i], want);
                    bad = 1;
                    break;
                }
            }
    MPI_Bcast(&bad, 1, MPI_INT, 0, MPI_COMM_WORLD);
    free(a), free(b), free(c), free(panel), free(counts), free(displs), free(whole);
    return bad;
}

int main(int argc, char **argv) {
    int rank, size, bad = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int sizes[] = {1, 5, 64, 257};
    for (unsigned s = 0; s < sizeof sizes / sizeof sizes[0]; s++) bad |= multiply(sizes[s], rank, size);
    if (rank == 0) printf("matrix multiply on %d: %s\n", size, bad ? "WRONG" : "right");
    MPI_Finalize();
    return bad;
}
