// Programs that hang, or do not, in the way that the first argument names. What is said about them: test_rollcall.py.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int rank, size, x[2];
static const int large = 1 << 20;

static void compute(double seconds) {
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    do clock_gettime(CLOCK_MONOTONIC, &b);
    while (b.tv_sec - a.tv_sec + 1e-9 * (b.tv_nsec - a.tv_nsec) < seconds);
}

// Rank 0 in a receive, 1 in a barrier, the others in a broadcast.
static void mixed(void) {
    if (rank == 0) MPI_Recv(x, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Barrier(MPI_COMM_WORLD);
    if (rank >= 2) MPI_Bcast(x, 1, MPI_INT, 0, MPI_COMM_WORLD);
}

// Everybody sends a long message to the next.
static void ring(void) {
    char *buffer = malloc(large);
    MPI_Send(buffer, large, MPI_CHAR, (rank + 1) % size, 3, MPI_COMM_WORLD);
}

// Messages that nearly fit lie in rank 0's queues.
static void near(void) {
    MPI_Comm halves;
    MPI_Comm_dup(MPI_COMM_WORLD, &halves);
    MPI_Comm_set_name(halves, "the other half");
    if (rank == 1) {
        for (int i = 0; i < 3; i++) MPI_Send(x, 1, MPI_INT, 0, 8, MPI_COMM_WORLD);
        MPI_Send(x, 2, MPI_INT, 0, 7, halves);
    }
    if (rank == 0) MPI_Recv(x, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(halves);
}

// The last rank does not come to a collective on a communicator of its own name.
static void missing(void (*instead)(void)) {
    MPI_Comm team;
    MPI_Comm_dup(MPI_COMM_WORLD, &team);
    MPI_Comm_set_name(team, "team");
    int sum;
    if (rank == size - 1) instead();
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, team);
}
static void computes(void) { compute(6); }
static void ends(void) { _exit(3); }

// Everybody polls for what nobody sends.
static void poll(int nap) {
    MPI_Request request;
    int flag = 0;
    MPI_Irecv(x, 1, MPI_INT, (rank + 1) % size, 5, MPI_COMM_WORLD, &request);
    while (!flag) {
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        if (nap) usleep(nap);
    }
}
static void probe(void) {
    int flag = 0;
    while (!flag) MPI_Iprobe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}
// Rank 0 computes and looks now and then; the others wait for it.
// Rank 0 sends what the last rank has not asked for and may not keep (FARPOST_UNEXPECTED_BYTES), which waits for something else.
static void space(void) {
    static char message[1000];
    if (rank == 0) for (int i = 0; i < 4000; i++) MPI_Send(message, sizeof message, MPI_CHAR, size - 1, 6, MPI_COMM_WORLD);
    if (rank == size - 1) MPI_Recv(x, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void works(int times) {
    int flag = 0;
    if (rank) MPI_Recv(x, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; rank == 0 && i < times; i++) {
        compute(1e-3);
        MPI_Iprobe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
    for (int i = 1; rank == 0 && i < size; i++) MPI_Send(x, 1, MPI_INT, i, 0, MPI_COMM_WORLD);
}

static void many(void) {
    MPI_Request requests[7];
    for (int i = 0; i < 6; i++) MPI_Irecv(x, 1, MPI_INT, (rank + 1) % size, i, MPI_COMM_WORLD, &requests[i]);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[6]);
    if (rank == 0) MPI_Waitall(7, requests, MPI_STATUSES_IGNORE);
    int at;
    MPI_Waitany(6, requests, &at, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "mixed";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(how, "mixed")) mixed();
    else if (!strcmp(how, "ring")) ring();
    else if (!strcmp(how, "near")) near();
    else if (!strcmp(how, "computes")) missing(computes);
    else if (!strcmp(how, "ends")) missing(ends);
    else if (!strcmp(how, "poll")) poll(0);
    else if (!strcmp(how, "nap")) poll(200);
    else if (!strcmp(how, "probe")) probe();
    else if (!strcmp(how, "works")) works(argc > 2 ? atoi(argv[2]) : 6000);
    else if (!strcmp(how, "space")) space();
    else if (!strcmp(how, "many")) many();
    else if (!strcmp(how, "fails")) { if (rank == size - 1) { sleep(1); abort(); } mixed(); }
    else if (!strcmp(how, "at once")) { if (rank == size - 1) abort(); else compute(0.3); }
    else return 2;
    MPI_Finalize();
    return 0;
}
