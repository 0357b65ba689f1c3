// Where ranks are put without options: with a core for each, on cores that no other has; and a rank that starts more
// threads than it has cores is given back all that the job may use.
// ranks: 2 3 8
// farpost: only
#include "check.h"
#include <pthread.h>
#include <sched.h>

static cpu_set_t allowed(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CHECK_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    return set;
}

// How many ranks may run on each processor.
static void count(int *ranks) {
    cpu_set_t mine = allowed();
    int may[CPU_SETSIZE];
    for (int i = 0; i < CPU_SETSIZE; i++) may[i] = CPU_ISSET(i, &mine) != 0;
    MPI(MPI_Allreduce(may, ranks, CPU_SETSIZE, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
}

static int everywhere(const int *ranks) {
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (ranks[i] != 0 && ranks[i] != check_size) return 0;
    return 1;
}

static int apart(const int *ranks) {
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (ranks[i] > 1) return 0;
    return 1;
}

static int bound;

// All may run everywhere, or none where another may.
TEST(domains) {
    static int ranks[CPU_SETSIZE];
    count(ranks);
    bound = apart(ranks);
    CHECK(bound || everywhere(ranks));
}

static void *sit(void *barrier) {
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    return NULL;
}

TEST(threads) {
    if (!bound) return;
    cpu_set_t mine = allowed();
    int count = CPU_COUNT(&mine), widened = 0;
    pthread_t *threads = malloc((size_t)count * sizeof *threads);
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, (unsigned)count + 1);
    for (int i = 0; i < count; i++) CHECK_EQ(pthread_create(&threads[i], NULL, sit, &barrier), 0);
    pthread_barrier_wait(&barrier);
    while (!widened) {
        cpu_set_t now = allowed();
        widened = CPU_COUNT(&now) > count;
        usleep(1000);
    }
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
    free(threads);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    // Other launchers have rules of their own.
    if (!getenv("FARPOST_JOB_FD")) return check_done();
    RUN(domains);
    RUN(threads);
    return check_done();
}
