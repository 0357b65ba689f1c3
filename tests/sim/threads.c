// Several threads: the first argument says how they depend on each other.
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { THREADS = 4, ROUNDS = 20 };

static int rank, size;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int token = -1;

/* Each with the same one of the next process. */
static void *exchange(void *number) {
    int tag = (int)(long)number, sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int mine = rank * 1000 + round, theirs = -1;
        MPI_Sendrecv(&mine, 1, MPI_INT, (rank + 1) % size, tag, &theirs, 1, MPI_INT, (rank + size - 1) % size, tag,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum += theirs == (rank + size - 1) % size * 1000 + round;
    }
    return (void *)(long)sum;
}

/* One waits for messages, the other for what the first hands it. */
static void *receiver(void *nothing) {
    int came;
    MPI_Recv(&came, 1, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    pthread_mutex_lock(&lock);
    token = came;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    return nothing;
}

static void hand_round(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, receiver, NULL);
    int out = 1;
    if (rank == 0) MPI_Send(&out, 1, MPI_INT, 1 % size, 7, MPI_COMM_WORLD);
    pthread_mutex_lock(&lock);
    while (token < 0) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    out = token + 1;
    if (rank != 0) MPI_Send(&out, 1, MPI_INT, (rank + 1) % size, 7, MPI_COMM_WORLD);
    pthread_join(thread, NULL);
}

/* One waits for a message of the other, which computes and sleeps first. */
static void *late(void *how) {
    volatile int x = 0;
    clock_t seconds = !strcmp(how, "later") ? 6 : 1;
    for (clock_t end = clock() + seconds * CLOCKS_PER_SEC; clock() < end;) x++;
    nanosleep(&(struct timespec){0, 300000000}, NULL);
    int word = 5;
    MPI_Send(&word, 1, MPI_INT, rank, 9, MPI_COMM_WORLD);
    return NULL;
}

/* Ends after a while, or never, without the message that the other waits for. */
static void *silent(void *how) {
    nanosleep(&(struct timespec){0, 100000000}, NULL);
    pthread_mutex_lock(&lock);
    while (!strcmp(how, "asleep")) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    int provided, good = 1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(what, "exchange")) {
        pthread_t threads[THREADS];
        for (long n = 0; n < THREADS; n++) pthread_create(&threads[n], NULL, exchange, (void *)n);
        for (int n = 0; n < THREADS; n++) {
            void *sum;
            pthread_join(threads[n], &sum);
            good &= (long)sum == ROUNDS;
        }
    }
    if (!strcmp(what, "hand")) {
        hand_round();
        good = token == (rank == 0 ? size : rank);
    }
    if (rank == 0 && (!strncmp(what, "late", 4) || !strcmp(what, "asleep") || !strcmp(what, "ends"))) {
        pthread_t thread;
        pthread_create(&thread, NULL, !strncmp(what, "late", 4) ? late : silent, (void *)what);
        int word = 0;
        MPI_Recv(&word, 1, MPI_INT, rank, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        pthread_join(thread, NULL);
        good = word == 5;
    }
    int all;
    MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    if (rank == 0) printf("%s\n", all ? "over" : "wrong");
    MPI_Finalize();
    return 0;
}
