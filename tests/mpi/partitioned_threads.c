// ranks: 1 2
// settings: FARPOST_DEVICE=fm | FARPOST_DEVICE=portals
// Threads make partitions ready and ask for them, all at once, while the main thread waits for the messages.
// Requirements of MPI-5.0 sections 4.2.1, 4.2.2.
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, PER = 32, PARTS = THREADS * PER, EACH = 200, ROUNDS = 40 };
static int out[PARTS * EACH], in[PARTS * EACH], wrong[THREADS], round_;
static MPI_Request s, r;

static void *ready(void *arg) {
    const int me = (int)(long)arg;
    for (int i = 0; i < PER; i++) {
        const int p = i * THREADS + me;
        for (int j = 0; j < EACH; j++) out[p * EACH + j] = p * EACH + j + round_;
        wrong[me] += MPI_Pready(p, s) != MPI_SUCCESS;
    }
    return NULL;
}

static void *arrived(void *arg) {
    const int me = (int)(long)arg;
    for (int i = 0; i < PER; i++) {
        const int p = i * THREADS + me;
        int flag = 0;
        while (!flag)
            if (MPI_Parrived(r, p, &flag) != MPI_SUCCESS) return wrong[me]++, NULL;
        for (int j = 0; j < EACH; j++) wrong[me] += in[p * EACH + j] != p * EACH + j + round_;
    }
    return NULL;
}

TEST(threads) {
    const int next = (check_rank + 1) % check_size, prev = (check_rank + check_size - 1) % check_size;
    MPI(MPI_Psend_init(out, PARTS, EACH, MPI_INT, next, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &s));
    MPI(MPI_Precv_init(in, PARTS, EACH, MPI_INT, prev, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &r));
    for (round_ = 0; round_ < ROUNDS; round_++) {
        pthread_t t[2 * THREADS];
        memset(in, 0xff, sizeof in);
        MPI(MPI_Start(&r));
        MPI(MPI_Start(&s));
        for (long i = 0; i < THREADS; i++) {
            pthread_create(&t[i], NULL, ready, (void *)i);
            pthread_create(&t[THREADS + i], NULL, arrived, (void *)i);
        }
        MPI(MPI_Wait(&s, MPI_STATUS_IGNORE));
        for (int i = 0; i < 2 * THREADS; i++) pthread_join(t[i], NULL);
        MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
        for (int i = 0; i < THREADS; i++) CHECK_EQ(wrong[i], 0);
    }
    MPI(MPI_Request_free(&s));
    MPI(MPI_Request_free(&r));
}

int main(int argc, char **argv) {
    int given;
    check_clock();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    check_started();
    CHECK_EQ(given, MPI_THREAD_MULTIPLE);
    RUN(threads);
    return check_done();
}
