// ranks: 1 2 3 4
// timeout: 200
// MPI_THREAD_MULTIPLE: many threads of each rank send, receive, probe, wait and do collectives at once, on one
// communicator (tags apart) and on duplicates (one a thread).
// Requirements of MPI-5.0 sections 6.14, 11.6.
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 300 };
static MPI_Comm comms[THREADS];
static int bad[THREADS];

static void each(void *(*body)(void *)) {
    pthread_t t[THREADS];
    for (long i = 0; i < THREADS; i++) {
        bad[i] = 0;
        pthread_create(&t[i], NULL, body, (void *)i);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(t[i], NULL);
        if (bad[i]) check_fail(__FILE__, __LINE__, "thread %d: %d things wrong", i, bad[i]);
    }
}
static int next_of(void) { return (check_rank + 1) % check_size; }
static int prev_of(void) { return (check_rank + check_size - 1) % check_size; }
#define NEED(cond) (bad[id] += !(cond))
#define OK(call) NEED((call) == MPI_SUCCESS)

static int size_of(int round, long id) {
    static const int s[] = {1, 10, 100, 1000, 6000, 30000, 150000};
    return s[(round * 5 + (int)id) % COUNT(s)];
}

static void *ring_with_tags(void *arg) {
    const long id = (long)arg;
    char *out = malloc(150000), *in = malloc(150000);
    for (int i = 0; i < ROUNDS; i++) {
        const int n = size_of(i, id);
        MPI_Status st;
        int got;
        memset(out, i + (int)id * 31 + check_rank, (size_t)n);
        OK(MPI_Sendrecv(out, n, MPI_BYTE, next_of(), (int)id, in, 150000, MPI_BYTE, prev_of(), (int)id, MPI_COMM_WORLD, &st));
        MPI_Get_count(&st, MPI_BYTE, &got);
        NEED(got == n);
        NEED(in[0] == (char)(i + (int)id * 31 + prev_of()) && in[n - 1] == in[0]);
    }
    free(out), free(in);
    return NULL;
}
TEST(one_communicator) { each(ring_with_tags); }

static void *ring_with_comms(void *arg) {
    const long id = (long)arg;
    char *out = malloc(150000), *in = malloc(150000);
    for (int i = 0; i < ROUNDS; i++) {
        const int n = size_of(i, id);
        MPI_Request r[2];
        MPI_Status st[2];
        memset(out, i + (int)id + check_rank, (size_t)n);
        OK(MPI_Irecv(in, n, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comms[id], &r[0]));
        OK(MPI_Isend(out, n, MPI_BYTE, next_of(), i, comms[id], &r[1]));
        if (i % 3 == 0) {
            int flag = 0;
            while (!flag && !bad[id]) OK(MPI_Testall(2, r, &flag, st));
        } else
            OK(MPI_Waitall(2, r, st));
        NEED(st[0].MPI_TAG == i && st[0].MPI_SOURCE == prev_of());
        NEED(in[n - 1] == (char)(i + (int)id + prev_of()));
    }
    free(out), free(in);
    return NULL;
}
TEST(own_communicators) { each(ring_with_comms); }

static void *collectives(void *arg) {
    const long id = (long)arg;
    int *v = malloc(sizeof *v * 5000), *w = malloc(sizeof *w * 5000);
    for (int i = 0; i < ROUNDS / 3; i++) {
        const int n = i % 3 ? 4 : 5000;
        for (int k = 0; k < n; k++) v[k] = check_rank + k + i;
        OK(MPI_Allreduce(v, w, n, MPI_INT, MPI_SUM, comms[id]));
        NEED(w[n - 1] == check_size * (n - 1 + i) + check_size * (check_size - 1) / 2);
        v[0] = check_rank == i % check_size ? i : -1;
        OK(MPI_Bcast(v, 1, MPI_INT, i % check_size, comms[id]));
        NEED(v[0] == i);
        OK(MPI_Barrier(comms[id]));
    }
    free(v), free(w);
    return NULL;
}
TEST(collectives_on_own_communicators) { each(collectives); }

// One blocked thread must not keep the others from working: thread 0 waits for what thread 1 of the same rank sends last.
static void *blocked(void *arg) {
    const long id = (long)arg;
    int x = -1, v = 17;
    if (id == 0) {
        OK(MPI_Recv(&x, 1, MPI_INT, check_rank, 1000, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        NEED(x == 17);
    } else if (id == 1) {
        for (int i = 0; i < 100; i++) OK(MPI_Sendrecv(&v, 1, MPI_INT, next_of(), 1001, &x, 1, MPI_INT, prev_of(), 1001, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        usleep(20000);
        OK(MPI_Send(&v, 1, MPI_INT, check_rank, 1000, MPI_COMM_WORLD));
    } else {
        MPI_Message m;
        MPI_Request r;
        OK(MPI_Isend(&v, 1, MPI_INT, next_of(), 1000 + (int)id, MPI_COMM_WORLD, &r));
        OK(MPI_Mprobe(prev_of(), 1000 + (int)id, MPI_COMM_WORLD, &m, MPI_STATUS_IGNORE));
        OK(MPI_Mrecv(&x, 1, MPI_INT, &m, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        NEED(x == 17);
    }
    return NULL;
}
TEST(one_blocked_thread) { each(blocked); }

// A request made by one thread is completed by another.
static MPI_Request shared[THREADS];
static int landed[THREADS];
static void *complete_others(void *arg) {
    const long id = (long)arg;
    OK(MPI_Wait(&shared[(id + 1) % THREADS], MPI_STATUS_IGNORE));
    return NULL;
}
TEST(others_requests) {
    int v[THREADS];
    MPI_Request s[THREADS];
    for (int i = 0; i < THREADS; i++) {
        v[i] = i + 100;
        MPI(MPI_Irecv(&landed[i], 1, MPI_INT, prev_of(), i, MPI_COMM_WORLD, &shared[i]));
    }
    for (int i = 0; i < THREADS; i++) MPI(MPI_Isend(&v[i], 1, MPI_INT, next_of(), i, MPI_COMM_WORLD, &s[i]));
    each(complete_others);
    for (int i = 0; i < THREADS; i++) CHECK_EQ(landed[i], i + 100);
    MPI(MPI_Waitall(THREADS, s, MPI_STATUSES_IGNORE));
}

// Objects made and freed at the same time.
static void *objects(void *arg) {
    const long id = (long)arg;
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Datatype t;
        MPI_Group g, h;
        MPI_Info info;
        int n = 0, flag = 0;
        char text[32];
        OK(MPI_Type_vector(3, 2, 4 + (int)id, MPI_INT, &t));
        OK(MPI_Type_commit(&t));
        OK(MPI_Type_size(t, &n));
        NEED(n == 24);
        OK(MPI_Comm_group(comms[id], &g));
        OK(MPI_Group_incl(g, 1, &check_rank, &h));
        OK(MPI_Group_size(h, &n));
        NEED(n == 1);
        OK(MPI_Info_create(&info));
        OK(MPI_Info_set(info, "key", "value"));
        n = sizeof text;
        OK(MPI_Info_get_string(info, "key", &n, text, &flag));
        NEED(flag && strcmp(text, "value") == 0);
        OK(MPI_Info_free(&info));
        OK(MPI_Group_free(&g));
        OK(MPI_Group_free(&h));
        OK(MPI_Type_free(&t));
        if (i % 30 == 0) {
            MPI_Comm c;
            OK(MPI_Comm_dup(comms[id], &c));
            OK(MPI_Barrier(c));
            OK(MPI_Comm_free(&c));
        }
    }
    return NULL;
}
TEST(objects_at_once) { each(objects); }

int main(int argc, char **argv) {
    int provided = -1;
    check_clock();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_started();
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    for (int i = 0; i < THREADS; i++) MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    RUN(one_communicator);
    RUN(own_communicators);
    RUN(collectives_on_own_communicators);
    RUN(one_blocked_thread);
    RUN(others_requests);
    RUN(objects_at_once);
    for (int i = 0; i < THREADS; i++) MPI(MPI_Comm_free(&comms[i]));
    return check_done();
}
