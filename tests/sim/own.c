// What a process has for itself, and each rank is to have: variables of the program, of a thread's and of functions, memory, random numbers, arguments, its
// environment and what it does at its end. The first argument says what rank 1 does besides.
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { MANY = 50000 };
static int number = 7;
static int many[MANY], theirs[MANY];
static __thread int of_thread = 3;
static char *kept;

static int counted(void) {
    static int calls = 100;
    return ++calls;
}

__attribute__((constructor)) static void before(void) {
    number++;
}

static void at_end(void) {
    printf("rank %d ends: %d %d %s\n", number, many[1], of_thread, kept);
    fflush(stdout);
}

static void check(int right, const char *what) {
    if (!right) printf("rank %d: wrong %s\n", number, what), fflush(stdout), MPI_Abort(MPI_COMM_WORLD, 3);
}

static void *thread(void *argument) {
    return argument;
}

int main(int argc, char **argv) {
    char what[20];
    snprintf(what, sizeof what, "%s", argc > 1 ? argv[1] : "");
    int rank, size;
    check(number == 8 && of_thread == 3 && !kept && many[9] == 0, "start");
    atexit(at_end);
    if (!strcmp(what, "stays") && atoi(getenv("FARPOST_RANK")) == 1) return 0;
    MPI_Init(&argc, &argv);
    double begun = MPI_Wtime();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    number = rank;
    of_thread = 10 * rank;
    kept = malloc(32);
    snprintf(kept, 32, "kept by %d", rank);
    setenv("OWN", kept, 1);
    if (argc > 1) argv[1][0] = (char)('a' + rank % 26);
    srand((unsigned)rank);
    long sum = 0;
    for (int i = 0; i < MANY; i++) many[i] = i + 1000 * rank;
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    for (int round = 0; round < 5; round++) {
        sum = sum * 31 + rand() % 1000 + counted();
        // From and to variables, short and long.
        int length = round < 3 ? 1 + round * 20 : MANY;
        memset(theirs, 0, sizeof theirs);
        MPI_Request requests[2];
        MPI_Irecv(theirs, length, MPI_INT, from, round, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(many, length, MPI_INT, to, round, MPI_COMM_WORLD, &requests[1]);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < length; i++) check(theirs[i] == i + 1000 * from, "bytes");
        check(number == rank && of_thread == 10 * rank && many[2] == 2 + 1000 * rank, "variables");
    }
    check(counted() == 106, "static local");
    check(!strcmp(getenv("OWN"), kept), "environment");
    check(argc < 2 || argv[1][0] == (char)('a' + rank % 26), "arguments");
    long all = 0;
    MPI_Allreduce(&sum, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 1 && !strcmp(what, "exits")) exit(5);
    if (rank == 1 && !strcmp(what, "aborts")) MPI_Abort(MPI_COMM_WORLD, 9);
    if (rank == 1 && !strcmp(what, "crashes")) *(volatile int *)8 = 1;
    pthread_t other;
    if (rank == 1 && !strcmp(what, "starts") && !pthread_create(&other, NULL, thread, NULL)) pthread_join(other, NULL);
    if (rank == 1 && !strcmp(what, "forks") && fork() >= 0) check(1, "fork");
    printf("rank %d of %d: %ld %ld, %.3f us\n", rank, size, sum, all, (MPI_Wtime() - begun) * 1e6);
    MPI_Finalize();
    printf("rank %d after the end\n", number);
    if (rank == 1 && !strcmp(what, "fails")) exit(4);
    return 0;
}
