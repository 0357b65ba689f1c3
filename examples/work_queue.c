// ranks: 2 5
// A work queue: rank 0 hands out pieces of work to whoever asks, so that fast ranks do more. Shows MPI_ANY_SOURCE, tags
// as kinds of message, and statuses. mpicc -o work_queue work_queue.c && mpiexec -n 4 ./work_queue
#include <mpi.h>
#include <stdio.h>

enum { ASK, WORK, STOP };
enum { JOBS = 200 };

static long collatz(long n) {
    long steps = 0;
    for (; n != 1; steps++) n = n % 2 ? 3 * n + 1 : n / 2;
    return steps;
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0) {
        long best[2] = {0, 0};
        for (int next = 1, busy = size - 1; busy > 0;) {
            long result[2]; // steps, starting number; zero steps: the first question
            MPI_Status st;
            MPI_Recv(result, 2, MPI_LONG, MPI_ANY_SOURCE, ASK, MPI_COMM_WORLD, &st);
            if (result[0] > best[0]) best[0] = result[0], best[1] = result[1];
            const long job = next;
            MPI_Send(&job, 1, MPI_LONG, st.MPI_SOURCE, next <= JOBS ? WORK : STOP, MPI_COMM_WORLD);
            if (next <= JOBS)
                next++;
            else
                busy--;
        }
        if (size > 1) printf("longest: %ld with %ld steps\n", best[1], best[0]);
    } else
        for (long result[2] = {0, 0};;) {
            long job;
            MPI_Status st;
            MPI_Send(result, 2, MPI_LONG, 0, ASK, MPI_COMM_WORLD);
            MPI_Recv(&job, 1, MPI_LONG, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &st);
            if (st.MPI_TAG == STOP) break;
            result[1] = job * 1000 + 7;
            result[0] = collatz(result[1]);
        }
    MPI_Finalize();
    return 0;
}
