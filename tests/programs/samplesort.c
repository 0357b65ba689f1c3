// ranks: 1 2 3 4 7 16
// Sample sort: local sort, samples gathered, splitters broadcast, buckets exchanged with alltoallv, local sort again.
// Serial result: rank 0 sorts everything with qsort and compares.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int order(const void *x, const void *y) {
    const int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return (a > b) - (a < b);
}
static uint64_t state;
static int64_t next_key(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    // Skewed and with many equal keys, so that buckets differ in size and some may be empty.
    return (state & 3) ? (int64_t)(state >> 40) : (int64_t)(state % 5);
}

int main(int argc, char **argv) {
    int rank, size, bad = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int mine = 20000 + 1000 * (rank % 3);
    state = 88172645463325252u + (uint64_t)rank * 7919u;
    int64_t *keys = (int64_t *)malloc(sizeof(int64_t) * (size_t)mine);
    for (int i = 0; i < mine; i++) keys[i] = next_key();

    // All input to rank 0 for the serial result.
    int *counts = (int *)calloc((size_t)size, sizeof(int)), *displs = (int *)calloc((size_t)size + 1, sizeof(int));
    MPI_Gather(&mine, 1, MPI_INT, counts, 1, MPI_INT, 0, MPI_COMM_WORLD);
    int total = 0;
    if (rank == 0)
        for (int r = 0; r < size; r++) displs[r] = total, total += counts[r];
    MPI_Bcast(&total, 1, MPI_INT, 0, MPI_COMM_WORLD);
    int64_t *serial = rank == 0 ? (int64_t *)malloc(sizeof(int64_t) * (size_t)total) : NULL;
    MPI_Gatherv(keys, mine, MPI_INT64_T, serial, counts, displs, MPI_INT64_T, 0, MPI_COMM_WORLD);
    if (rank == 0) qsort(serial, (size_t)total, sizeof(int64_t), order);

    qsort(keys, (size_t)mine, sizeof(int64_t), order);
    int64_t *samples = (int64_t *)malloc(sizeof(int64_t) * (size_t)size * (size_t)size);
    int64_t *splitters = (int64_t *)malloc(sizeof(int64_t) * (size_t)size);
    for (int r = 0; r < size; r++) splitters[r] = keys[(long)mine * r / size];
    MPI_Gather(splitters, size, MPI_INT64_T, samples, size, MPI_INT64_T, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        qsort(samples, (size_t)size * (size_t)size, sizeof(int64_t), order);
        for (int r = 1; r < size; r++) splitters[r - 1] = samples[r * size + size / 2];
    }
    MPI_Bcast(splitters, size, MPI_INT64_T, 0, MPI_COMM_WORLD);

    int *sc = (int *)calloc((size_t)size, sizeof(int)), *sd = (int *)calloc((size_t)size, sizeof(int));
    int *rc = (int *)calloc((size_t)size, sizeof(int)), *rd = (int *)calloc((size_t)size, sizeof(int));
    for (int i = 0, b = 0; i < mine; i++) {
        while (b < size - 1 && keys[i] > splitters[b]) b++;
        sc[b]++;
    }
    MPI_Alltoall(sc, 1, MPI_INT, rc, 1, MPI_INT, MPI_COMM_WORLD);
    int have = rc[0];
    for (int r = 1; r < size; r++) {
        sd[r] = sd[r - 1] + sc[r - 1];
        rd[r] = rd[r - 1] + rc[r - 1];
        have += rc[r];
    }
    int64_t *bucket = (int64_t *)malloc(sizeof(int64_t) * (size_t)(have + 1));
    MPI_Alltoallv(keys, sc, sd, MPI_INT64_T, bucket, rc, rd, MPI_INT64_T, MPI_COMM_WORLD);
    qsort(bucket, (size_t)have, sizeof(int64_t), order);

    MPI_Gather(&have, 1, MPI_INT, counts, 1, MPI_INT, 0, MPI_COMM_WORLD);
    int64_t *result = rank == 0 ? (int64_t *)malloc(sizeof(int64_t) * (size_t)total) : NULL;
    if (rank == 0) {
        int at = 0;
        for (int r = 0; r < size; r++) displs[r] = at, at += counts[r];
        if (at != total) {
            fprintf(stderr, "%d keys came out of %d\n", at, total);
            bad = 1;
        }
    }
    MPI_Bcast(&bad, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (!bad) {
        MPI_Gatherv(bucket, have, MPI_INT64_T, result, counts, displs, MPI_INT64_T, 0, MPI_COMM_WORLD);
        if (rank == 0 && memcmp(result, serial, sizeof(int64_t) * (size_t)total) != 0) {
            fprintf(stderr, "the sorted keys differ from the serial result\n");
            bad = 1;
        }
    }
    MPI_Bcast(&bad, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("sample sort of %d keys on %d: %s\n", total, size, bad ? "WRONG" : "right");
    free(keys), free(counts), free(displs), free(serial), free(samples), free(splitters);
    free(sc), free(sd), free(rc), free(rd), free(bucket), free(result);
    MPI_Finalize();
    return bad;
}
