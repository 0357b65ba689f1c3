// ranks: 1 2 3 4 7 16
// Jacobi iteration for the Laplace equation on a square, on a two-dimensional process grid with halo exchange (rows
// contiguous, columns as a vector type), nonblocking and persistent in turn. Serial result: the same sweeps on one array,
// bit for bit, and the same residuals to rounding.
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 90, SWEEPS = 60 };
#define AT(a, w, i, j) ((a)[(size_t)(i) * (size_t)(w) + (size_t)(j)])

static double edge(int i, int j) { return sin(0.1 * i) + 0.01 * j * (i == 0) + cos(0.2 * j) * (j == N + 1); }

static void fill(double *a, int rows, int cols, int i0, int j0) {
    for (int i = 0; i < rows + 2; i++)
        for (int j = 0; j < cols + 2; j++) {
            const int gi = i0 + i, gj = j0 + j;
            AT(a, cols + 2, i, j) = (gi == 0 || gi == N + 1 || gj == 0 || gj == N + 1) ? edge(gi, gj) : 0.0;
        }
}

static double sweep(const double *from, double *to, int rows, int cols) {
    double change = 0;
    for (int i = 1; i <= rows; i++)
        for (int j = 1; j <= cols; j++) {
            const double v = 0.25 * ((AT(from, cols + 2, i - 1, j) + AT(from, cols + 2, i + 1, j)) +
                                     (AT(from, cols + 2, i, j - 1) + AT(from, cols + 2, i, j + 1)));
            const double d = v - AT(from, cols + 2, i, j);
            AT(to, cols + 2, i, j) = v;
            change += d * d;
        }
    return change;
}

int main(int argc, char **argv) {
    int rank, size, dims[2] = {0, 0}, periods[2] = {0, 0}, at[2], bad = 0, all = 0;
    MPI_Comm grid;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &grid);
    MPI_Comm_rank(grid, &rank);
    MPI_Cart_coords(grid, rank, 2, at);

    const int i0 = (int)((long)N * at[0] / dims[0]), i1 = (int)((long)N * (at[0] + 1) / dims[0]);
    const int j0 = (int)((long)N * at[1] / dims[1]), j1 = (int)((long)N * (at[1] + 1) / dims[1]);
    const int rows = i1 - i0, cols = j1 - j0, w = cols + 2;
    double *a[2];
    for (int k = 0; k < 2; k++) {
        a[k] = (double *)malloc(sizeof(double) * (size_t)(rows + 2) * (size_t)w);
        fill(a[k], rows, cols, i0, j0);
    }
    int up, down, left, right;
    MPI_Cart_shift(grid, 0, 1, &up, &down);
    MPI_Cart_shift(grid, 1, 1, &left, &right);
    MPI_Datatype column;
    MPI_Type_vector(rows, 1, w, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);

    // Odd sweeps start persistent requests on buffer 1, even sweeps make new ones on buffer 0.
    MPI_Request persistent[8];
    MPI_Recv_init(&AT(a[1], w, 0, 1), cols, MPI_DOUBLE, up, 1, grid, &persistent[0]);
    MPI_Recv_init(&AT(a[1], w, rows + 1, 1), cols, MPI_DOUBLE, down, 2, grid, &persistent[1]);
    MPI_Recv_init(&AT(a[1], w, 1, 0), 1, column, left, 3, grid, &persistent[2]);
    MPI_Recv_init(&AT(a[1], w, 1, cols + 1), 1, column, right, 4, grid, &persistent[3]);
    MPI_Send_init(&AT(a[1], w, rows, 1), cols, MPI_DOUBLE, down, 1, grid, &persistent[4]);
    MPI_Send_init(&AT(a[1], w, 1, 1), cols, MPI_DOUBLE, up, 2, grid, &persistent[5]);
    MPI_Send_init(&AT(a[1], w, 1, cols), 1, column, right, 3, grid, &persistent[6]);
    MPI_Send_init(&AT(a[1], w, 1, 1), 1, column, left, 4, grid, &persistent[7]);

    double residual[SWEEPS];
    for (int s = 0; s < SWEEPS; s++) {
        double *now = a[s % 2];
        if (s % 2) {
            MPI_Startall(8, persistent);
            MPI_Waitall(8, persistent, MPI_STATUSES_IGNORE);
        } else {
            MPI_Request r[8];
            MPI_Irecv(&AT(now, w, 0, 1), cols, MPI_DOUBLE, up, 1, grid, &r[0]);
            MPI_Irecv(&AT(now, w, rows + 1, 1), cols, MPI_DOUBLE, down, 2, grid, &r[1]);
            MPI_Irecv(&AT(now, w, 1, 0), 1, column, left, 3, grid, &r[2]);
            MPI_Irecv(&AT(now, w, 1, cols + 1), 1, column, right, 4, grid, &r[3]);
            MPI_Isend(&AT(now, w, rows, 1), cols, MPI_DOUBLE, down, 1, grid, &r[4]);
            MPI_Isend(&AT(now, w, 1, 1), cols, MPI_DOUBLE, up, 2, grid, &r[5]);
            MPI_Isend(&AT(now, w, 1, cols), 1, column, right, 3, grid, &r[6]);
            MPI_Isend(&AT(now, w, 1, 1), 1, column, left, 4, grid, &r[7]);
            MPI_Waitall(8, r, MPI_STATUSES_IGNORE);
        }
        const double mine = sweep(now, a[(s + 1) % 2], rows, cols);
        MPI_Allreduce(&mine, &residual[s], 1, MPI_DOUBLE, MPI_SUM, grid);
    }

    double *serial[2];
    for (int k = 0; k < 2; k++) {
        serial[k] = (double *)malloc(sizeof(double) * (N + 2) * (N + 2));
        fill(serial[k], N, N, 0, 0);
    }
    for (int s = 0; s < SWEEPS; s++) {
        const double want = sweep(serial[s % 2], serial[(s + 1) % 2], N, N);
        if (fabs(residual[s] - want) > 1e-12 * fabs(want)) {
            fprintf(stderr, "rank %d sweep %d: residual %.17g, serial result %.17g\n", rank, s, residual[s], want);
            bad++;
        }
    }
    for (int i = 1; i <= rows; i++)
        for (int j = 1; j <= cols; j++)
            if (AT(a[SWEEPS % 2], w, i, j) != AT(serial[SWEEPS % 2], N + 2, i0 + i, j0 + j)) {
                if (!bad++) fprintf(stderr, "rank %d: differs from the serial result at (%d, %d)\n", rank, i0 + i, j0 + j);
            }
    for (int k = 0; k < 8; k++) MPI_Request_free(&persistent[k]);
    MPI_Type_free(&column);
    for (int k = 0; k < 2; k++) {
        free(a[k]);
        free(serial[k]);
    }
    MPI_Allreduce(&bad, &all, 1, MPI_INT, MPI_SUM, grid);
    if (rank == 0) printf("Jacobi on %d x %d: %s\n", dims[0], dims[1], all ? "WRONG" : "right");
    MPI_Comm_free(&grid);
    MPI_Finalize();
    return all != 0;
}
