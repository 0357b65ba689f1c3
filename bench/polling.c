/* What an ordinary program meets: the first messages after the start, and polls that find nothing. For every MPI library
 * with a compiler; `farpost bench start` and `farpost bench poll` start it, or their own like it, and read what it prints.
 *
 *   start        2 ranks: microseconds of the first 10, 100 and 1000 messages of 8 bytes, and of one message in the median of
 *                hundreds of messages that follow for a tenth of a second
 *   poll NANOS   microseconds of an iteration: that much work and an MPI_Test that finds nothing, of rank 0
 *   ring         microseconds of a hop of a token that is waited for by such tests alone
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int order(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void exchange(int rank, int messages) {
    char data[8] = "message";
    for (int i = 0; i < messages; i += 2) {
        if (rank == 0) {
            MPI_Send(data, 8, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(data, 8, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(data, 8, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(data, 8, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
    }
}

static void start(int rank) {
    enum { MOST = 20000 };
    static double times[MOST + 1];
    double begin = now(), first[3];
    int batches = 0, go = 1;
    exchange(rank, 10);
    first[0] = now() - begin;
    exchange(rank, 90);
    first[1] = now() - begin;
    exchange(rank, 900);
    first[2] = now() - begin;
    begin = now();
    while (go) {
        double before = now();
        exchange(rank, 100);
        times[batches++] = (now() - before) / 100;
        go = now() - begin < 1e5 && batches < MOST;
        /* Rank 0 says whether that was the last. */
        if (rank == 0) MPI_Send(&go, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
        else MPI_Recv(&go, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (batches > MOST) batches = MOST;
    }
    qsort(times, (size_t)batches, sizeof *times, order);
    if (rank == 0) printf("start %.3f %.3f %.3f %.4f\n", first[0], first[1], first[2], times[batches / 2]);
}

static volatile double sink;

static void work(int turns) {
    for (int i = 0; i < turns; i++) sink += i;
}

/* Turns of work that take so long: the quickest of several measurements. */
static int calibrate(double nanos) {
    double best = 1e9;
    for (int i = 0; i < 20; i++) {
        double before = now();
        work(20000);
        double took = now() - before;
        if (took < best) best = took;
    }
    return (int)(nanos * 1e-3 / best * 20000);
}

static void poll(int rank, int size, double nanos) {
    int turns = nanos > 0 ? calibrate(nanos) : 0, flag, got, polls = (int)(4e7 / (nanos + 400));
    MPI_Request request;
    MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = now();
    for (int i = 0; i < polls; i++) {
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        work(turns);
    }
    double took = now() - begin;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Request send;
    MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, 9, MPI_COMM_WORLD, &send);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    if (rank == 0) printf("poll %.4f\n", took / polls);
}

/* Rounds until a tenth of a second has passed, three at least. */
static void ring(int rank, int size) {
    int token = 1, flag, rounds = 0, to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = now();
    while (token) {
        MPI_Request request;
        if (rank == 0) {
            token = rounds < 3 || now() - begin < 1e5;
            MPI_Send(&token, 1, MPI_INT, to, 0, MPI_COMM_WORLD);
        }
        MPI_Irecv(&token, 1, MPI_INT, from, 0, MPI_COMM_WORLD, &request);
        for (flag = 0; !flag;) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        if (rank != 0) MPI_Send(&token, 1, MPI_INT, to, 0, MPI_COMM_WORLD);
        rounds++;
    }
    double took = now() - begin;
    if (rank == 0) printf("ring %.4f\n", took / rounds / size);
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *mode = argc > 1 ? argv[1] : "";
    if (!strcmp(mode, "start") && size == 2) start(rank);
    else if (!strcmp(mode, "poll") && argc > 2) poll(rank, size, atof(argv[2]));
    else if (!strcmp(mode, "ring") && size > 1) ring(rank, size);
    else {
        if (rank == 0) fprintf(stderr, "polling: start (2 ranks), poll NANOS, or ring\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return MPI_Finalize();
}
