// ranks: 1 2 3 5 8
// Probe, Iprobe, Mprobe, Improbe; cancel of receives; persistent and buffered details.
// Requirements of MPI-5.0 sections 3.2.5, 3.6, 3.8.1, 3.8.2, 3.8.3, 3.8.4, 3.9.
#include "check.h"

static int next_of(void) { return (check_rank + 1) % check_size; }
static int prev_of(void) { return (check_rank + check_size - 1) % check_size; }

TEST(probe_then_receive) {
    for (int n = 0; n <= 100000; n = n * 7 + 1) {
        char *out = malloc((size_t)n + 1), *in;
        MPI_Request r;
        MPI_Status st, st2;
        int count = -1;
        check_fill(out, (size_t)n, (unsigned)check_rank);
        MPI(MPI_Isend(out, n, MPI_BYTE, next_of(), n % 1000, MPI_COMM_WORLD, &r));
        MPI(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &st));
        CHECK_EQ(st.MPI_SOURCE, prev_of());
        CHECK_EQ(st.MPI_TAG, n % 1000);
        MPI(MPI_Get_count(&st, MPI_BYTE, &count));
        CHECK_EQ(count, n);
        in = malloc((size_t)n + 1);
        MPI(MPI_Recv(in, count, MPI_BYTE, st.MPI_SOURCE, st.MPI_TAG, MPI_COMM_WORLD, &st2));
        CHECK_EQ(check_wrong(in, (size_t)n, (unsigned)prev_of()), -1);
        MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
        free(out), free(in);
    }
}

TEST(iprobe) {
    int flag = 1, x = check_rank, y = -1;
    MPI_Status st;
    MPI(MPI_Iprobe(MPI_ANY_SOURCE, 12345, MPI_COMM_WORLD, &flag, &st));
    CHECK(!flag);
    MPI_Request r;
    MPI(MPI_Isend(&x, 1, MPI_INT, next_of(), 8, MPI_COMM_WORLD, &r));
    flag = 0;
    while (!flag) MPI(MPI_Iprobe(prev_of(), 8, MPI_COMM_WORLD, &flag, &st));
    // Probing does not take it away.
    flag = 0;
    MPI(MPI_Iprobe(MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK(flag);
    MPI(MPI_Recv(&y, 1, MPI_INT, prev_of(), 8, MPI_COMM_WORLD, &st));
    CHECK_EQ(y, prev_of());
    MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
    MPI(MPI_Iprobe(MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag);
}

TEST(mprobe) {
    // A matched message is out of reach of other receives and probes.
    int x[2] = {check_rank * 10, check_rank * 10 + 1}, y = -1, n = -1;
    MPI_Request r[2], q;
    MPI_Message m = MPI_MESSAGE_NULL;
    MPI_Status st;
    MPI(MPI_Isend(&x[0], 1, MPI_INT, next_of(), 1, MPI_COMM_WORLD, &r[0]));
    MPI(MPI_Isend(&x[1], 1, MPI_INT, next_of(), 1, MPI_COMM_WORLD, &r[1]));
    MPI(MPI_Mprobe(prev_of(), 1, MPI_COMM_WORLD, &m, &st));
    CHECK(m != MPI_MESSAGE_NULL && m != MPI_MESSAGE_NO_PROC);
    MPI(MPI_Get_count(&st, MPI_INT, &n));
    CHECK_EQ(n, 1);
    MPI(MPI_Recv(&y, 1, MPI_INT, prev_of(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(y, prev_of() * 10 + 1);
    MPI(MPI_Mrecv(&y, 1, MPI_INT, &m, &st));
    CHECK_EQ(y, prev_of() * 10);
    CHECK(m == MPI_MESSAGE_NULL);
    CHECK_EQ(st.MPI_SOURCE, prev_of());
    MPI(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    // Improbe and Imrecv, large.
    enum { N = 300000 };
    char *out = malloc(N), *in = malloc(N);
    int flag = 1;
    MPI(MPI_Improbe(prev_of(), 55, MPI_COMM_WORLD, &flag, &m, &st));
    CHECK(!flag);
    check_fill(out, N, (unsigned)check_rank);
    MPI(MPI_Isend(out, N, MPI_BYTE, next_of(), 2, MPI_COMM_WORLD, &r[0]));
    flag = 0;
    while (!flag) MPI(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &m, &st));
    CHECK_EQ(st.MPI_TAG, 2);
    MPI(MPI_Imrecv(in, N, MPI_BYTE, &m, &q));
    CHECK(m == MPI_MESSAGE_NULL);
    MPI(MPI_Wait(&q, &st));
    MPI(MPI_Get_count(&st, MPI_BYTE, &n));
    CHECK_EQ(n, N);
    CHECK_EQ(check_wrong(in, N, (unsigned)prev_of()), -1);
    MPI(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
    free(out), free(in);
}

TEST(mrecv_truncates) {
    int x[4] = {1, 2, 3, 4}, y[4] = {0};
    MPI_Request r;
    MPI_Message m;
    MPI(MPI_Isend(x, 4, MPI_INT, next_of(), 1, MPI_COMM_WORLD, &r));
    MPI(MPI_Mprobe(prev_of(), 1, MPI_COMM_WORLD, &m, MPI_STATUS_IGNORE));
    MPI_FAILS(MPI_Mrecv(y, 2, MPI_INT, &m, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    CHECK_EQ(y[2], 0);
    MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
}

TEST(cancel_receive) {
    int x = -1, y = -1, v = 3, cancelled = 0;
    MPI_Request r, q, s;
    MPI_Status st;
    MPI(MPI_Irecv(&x, 1, MPI_INT, prev_of(), 777, MPI_COMM_WORLD, &r));
    MPI(MPI_Cancel(&r));
    MPI(MPI_Wait(&r, &st));
    MPI(MPI_Test_cancelled(&st, &cancelled));
    CHECK(cancelled);
    CHECK(r == MPI_REQUEST_NULL);
    // The message goes to the next receive, not to the cancelled one.
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    MPI(MPI_Irecv(&y, 1, MPI_INT, prev_of(), 777, MPI_COMM_WORLD, &q));
    MPI(MPI_Isend(&v, 1, MPI_INT, next_of(), 777, MPI_COMM_WORLD, &s));
    MPI(MPI_Wait(&q, &st));
    MPI(MPI_Wait(&s, MPI_STATUS_IGNORE));
    MPI(MPI_Test_cancelled(&st, &cancelled));
    CHECK(!cancelled);
    CHECK_EQ(x, -1);
    CHECK_EQ(y, 3);
    // Cancel in a test family, and cancel then free.
    MPI(MPI_Irecv(&x, 1, MPI_INT, MPI_ANY_SOURCE, 778, MPI_COMM_WORLD, &r));
    MPI(MPI_Cancel(&r));
    MPI(MPI_Waitall(1, &r, &st));
    MPI(MPI_Test_cancelled(&st, &cancelled));
    CHECK(cancelled);
    MPI(MPI_Irecv(&x, 1, MPI_INT, MPI_ANY_SOURCE, 778, MPI_COMM_WORLD, &r));
    MPI(MPI_Cancel(&r));
    MPI(MPI_Request_free(&r));
    // A persistent one can be started again.
    MPI(MPI_Recv_init(&x, 1, MPI_INT, prev_of(), 779, MPI_COMM_WORLD, &r));
    MPI(MPI_Start(&r));
    MPI(MPI_Cancel(&r));
    MPI(MPI_Wait(&r, &st));
    MPI(MPI_Test_cancelled(&st, &cancelled));
    CHECK(cancelled);
    CHECK(r != MPI_REQUEST_NULL);
    MPI(MPI_Barrier(MPI_COMM_WORLD)); // nobody sends before everyone has cancelled
    MPI(MPI_Start(&r));
    MPI(MPI_Isend(&v, 1, MPI_INT, next_of(), 779, MPI_COMM_WORLD, &s));
    MPI(MPI_Wait(&r, &st));
    MPI(MPI_Wait(&s, MPI_STATUS_IGNORE));
    CHECK_EQ(x, 3);
    MPI(MPI_Request_free(&r));
}

TEST(persistent) {
    static const int sizes[] = {0, 10, 100, 5000, 100000};
    for (int mode = 0; mode < 3; mode++)
        for (int i = 0; i < COUNT(sizes); i++) {
            const int n = sizes[i];
            char *out = malloc((size_t)n + 1), *in = malloc((size_t)n + 1), *attached = NULL;
            MPI_Request r[2];
            MPI_Status st[2];
            MPI(MPI_Recv_init(in, n, MPI_BYTE, prev_of(), 4, MPI_COMM_WORLD, &r[0]));
            if (mode == 0) MPI(MPI_Send_init(out, n, MPI_BYTE, next_of(), 4, MPI_COMM_WORLD, &r[1]));
            if (mode == 1) MPI(MPI_Ssend_init(out, n, MPI_BYTE, next_of(), 4, MPI_COMM_WORLD, &r[1]));
            if (mode == 2) {
                attached = malloc((size_t)n + MPI_BSEND_OVERHEAD + 100);
                MPI(MPI_Buffer_attach(attached, n + MPI_BSEND_OVERHEAD + 100));
                MPI(MPI_Bsend_init(out, n, MPI_BYTE, next_of(), 4, MPI_COMM_WORLD, &r[1]));
            }
            for (int round = 0; round < 4; round++) {
                check_fill(out, (size_t)n, (unsigned)(round * 50 + check_rank));
                MPI(MPI_Startall(2, r));
                MPI(MPI_Waitall(2, r, st));
                CHECK_EQ(st[0].MPI_SOURCE, prev_of());
                CHECK_EQ(check_wrong(in, (size_t)n, (unsigned)(round * 50 + prev_of())), -1);
                CHECK(r[0] != MPI_REQUEST_NULL && r[1] != MPI_REQUEST_NULL);
                // The attached buffer has room for one: the next start needs the last one gone.
                if (mode == 2) MPI(MPI_Buffer_flush());
            }
            MPI(MPI_Request_free(&r[0]));
            MPI(MPI_Request_free(&r[1]));
            if (mode == 2) {
                int size;
                MPI(MPI_Buffer_detach(&attached, &size));
                free(attached);
            }
            free(out), free(in);
        }
    // Ready mode: started only once the receive is.
    int x = -1, v = check_rank;
    MPI_Request r[2];
    MPI(MPI_Recv_init(&x, 1, MPI_INT, prev_of(), 4, MPI_COMM_WORLD, &r[0]));
    MPI(MPI_Rsend_init(&v, 1, MPI_INT, next_of(), 4, MPI_COMM_WORLD, &r[1]));
    for (int round = 0; round < 3; round++) {
        MPI(MPI_Start(&r[0]));
        MPI(MPI_Barrier(MPI_COMM_WORLD));
        MPI(MPI_Start(&r[1]));
        MPI(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
        CHECK_EQ(x, prev_of());
    }
    MPI(MPI_Request_free(&r[0]));
    MPI(MPI_Request_free(&r[1]));
}

TEST(bsend_buffer) {
    // Sends end at once although nobody receives; the data may be changed at once; detach waits for delivery.
    enum { N = 50, EACH = 1000 };
    int size = 0, v[EACH / 4];
    char *buffer = malloc(N * (EACH + MPI_BSEND_OVERHEAD)), *back = NULL;
    MPI(MPI_Buffer_attach(buffer, N * (EACH + MPI_BSEND_OVERHEAD)));
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < EACH / 4; k++) v[k] = i * 1000 + k;
        MPI(MPI_Bsend(v, EACH / 4, MPI_INT, next_of(), i, MPI_COMM_WORLD));
        memset(v, 0, sizeof v);
    }
    for (int i = N - 1; i >= 0; i--) {
        MPI(MPI_Recv(v, EACH / 4, MPI_INT, prev_of(), i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(v[0], i * 1000);
        CHECK_EQ(v[EACH / 4 - 1], i * 1000 + EACH / 4 - 1);
    }
    MPI(MPI_Buffer_detach(&back, &size));
    CHECK(back == buffer);
    CHECK_EQ(size, N * (EACH + MPI_BSEND_OVERHEAD));
    // MPI_Type_size plus the overhead is enough for one message, and the room comes back.
    MPI(MPI_Buffer_attach(buffer, 4 + MPI_BSEND_OVERHEAD));
    for (int i = 0; i < 20; i++) {
        int x = i, y = -1;
        MPI(MPI_Bsend(&x, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD));
        MPI(MPI_Recv(&y, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(y, i);
    }
    MPI(MPI_Buffer_detach(&back, &size));
    free(buffer);
}

TEST(bsend_per_communicator) {
    // MPI 4.1: a buffer of its own for a communicator; automatic buffering; flush and iflush.
    int size = 0, x = 5, y = -1;
    char *buffer = malloc(10000), *back = NULL;
    MPI_Comm c;
    MPI_Request r;
    MPI(MPI_Comm_dup(MPI_COMM_WORLD, &c));
    MPI(MPI_Comm_attach_buffer(c, buffer, 10000));
    MPI(MPI_Bsend(&x, 1, MPI_INT, next_of(), 1, c));
    MPI(MPI_Recv(&y, 1, MPI_INT, prev_of(), 1, c, MPI_STATUS_IGNORE));
    CHECK_EQ(y, 5);
    MPI(MPI_Comm_flush_buffer(c));
    MPI(MPI_Comm_iflush_buffer(c, &r));
    MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
    MPI(MPI_Comm_detach_buffer(c, &back, &size));
    CHECK(back == buffer);
    CHECK_EQ(size, 10000);
    MPI(MPI_Comm_attach_buffer(c, MPI_BUFFER_AUTOMATIC, 0));
    for (int i = 0; i < 10; i++) MPI(MPI_Bsend(&i, 1, MPI_INT, next_of(), i, c));
    for (int i = 9; i >= 0; i--) {
        MPI(MPI_Recv(&y, 1, MPI_INT, prev_of(), i, c, MPI_STATUS_IGNORE));
        CHECK_EQ(y, i);
    }
    MPI(MPI_Comm_detach_buffer(c, &back, &size));
    CHECK(back == MPI_BUFFER_AUTOMATIC);
    MPI(MPI_Comm_free(&c));
    MPI(MPI_Buffer_flush());
    MPI(MPI_Buffer_iflush(&r));
    MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
    free(buffer);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    RUN(probe_then_receive);
    RUN(iprobe);
    RUN(mprobe);
    RUN(mrecv_truncates);
    RUN(cancel_receive);
    RUN(persistent);
    RUN(bsend_buffer);
    RUN(bsend_per_communicator);
    return check_done();
}
