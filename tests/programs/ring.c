// ranks: 1 2 3 4 7 16
// A token goes round the ring and every rank adds to it; then blocks of growing size go round with sendrecv.
// Serial result: the sum 1 + 2 + ... + n for every lap, and each block back home unchanged.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int rank, size, bad = 0, all = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int next = (rank + 1) % size, prev = (rank + size - 1) % size, laps = 50;

    long token = 0;
    for (int lap = 0; lap < laps; lap++) {
        if (rank == 0) {
            token += 1;
            if (size > 1) {
                MPI_Send(&token, 1, MPI_LONG, next, lap, MPI_COMM_WORLD);
                MPI_Recv(&token, 1, MPI_LONG, prev, lap, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            }
            const long serial = (long)(lap + 1) * size * (size + 1) / 2;
            if (token != serial) {
                fprintf(stderr, "lap %d: token %ld, serial result %ld\n", lap, token, serial);
                bad++;
            }
        } else {
            MPI_Recv(&token, 1, MPI_LONG, prev, lap, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            token += rank + 1;
            MPI_Send(&token, 1, MPI_LONG, next, lap, MPI_COMM_WORLD);
        }
    }

    const int biggest = 300000;
    double *block = (double *)malloc(sizeof(double) * biggest), *incoming = (double *)malloc(sizeof(double) * biggest);
    for (int count = 1; count <= biggest; count *= 17) {
        for (int i = 0; i < count; i++) block[i] = rank * 1e6 + i;
        for (int hop = 0; hop < size; hop++) {
            MPI_Status st;
            int got = -1;
            MPI_Sendrecv(block, count, MPI_DOUBLE, next, hop, incoming, biggest, MPI_DOUBLE, prev, hop, MPI_COMM_WORLD, &st);
            MPI_Get_count(&st, MPI_DOUBLE, &got);
            if (got != count || st.MPI_SOURCE != prev || st.MPI_TAG != hop) {
                fprintf(stderr, "rank %d: got %d of %d from %d tag %d\n", rank, got, count, st.MPI_SOURCE, st.MPI_TAG);
                bad++;
            }
            double *t = block;
            block = incoming;
            incoming = t;
        }
        for (int i = 0; i < count; i++)
            if (block[i] != rank * 1e6 + i) {
                fprintf(stderr, "rank %d: block of %d came home with %g at %d\n", rank, count, block[i], i);
                bad++;
                break;
            }
    }
    free(block);
    free(incoming);
    MPI_Allreduce(&bad, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("ring of %d: %s\n", size, all ? "WRONG" : "right");
    MPI_Finalize();
    return all != 0;
}
