// ranks: 2
// Threads fill parts of one message, and the receiver works on each part as soon as it has come (MPI-5.0 section 4.2).
//
//   mpicc -pthread examples/partitioned.c -o partitioned && mpiexec -n 2 ./partitioned
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, EACH = 1000, ROUNDS = 10 };
static double data[THREADS * EACH];
static MPI_Request request;

static void *produce(void *arg) {
    const int part = (int)(long)arg;
    for (int i = 0; i < EACH; i++) data[part * EACH + i] = part + i;
    MPI_Pready(part, request); // from now on the library may send it
    return NULL;
}

int main(int argc, char **argv) {
    int given, rank;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (given < MPI_THREAD_MULTIPLE) MPI_Abort(MPI_COMM_WORLD, 1);
    if (rank == 0) MPI_Psend_init(data, THREADS, EACH, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    // The receiver cuts the same data into half as many parts.
    if (rank == 1) MPI_Precv_init(data, THREADS / 2, 2 * EACH, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    double sum = 0;
    for (int round = 0; round < ROUNDS && rank < 2; round++) {
        MPI_Start(&request);
        if (rank == 0) {
            pthread_t threads[THREADS];
            for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, produce, (void *)i);
            for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
        } else {
            int left = THREADS / 2, seen[THREADS / 2] = {0};
            while (left > 0)
                for (int part = 0; part < THREADS / 2; part++) {
                    int here = 0;
                    if (!seen[part]) MPI_Parrived(request, part, &here);
                    if (!here) continue;
                    for (int i = 0; i < 2 * EACH; i++) sum += data[part * 2 * EACH + i];
                    seen[part] = 1, left--;
                }
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (rank < 2) MPI_Request_free(&request);
    if (rank == 1) {
        const double want = ROUNDS * (THREADS * (EACH * (EACH - 1.0) / 2) + EACH * (THREADS * (THREADS - 1.0) / 2));
        printf("sum %.0f, should be %.0f\n", sum, want);
        if (sum != want) MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
