// ranks: 1 2 3 5
// MPI_Buffer_iflush and MPI_Comm_iflush_buffer: pending as long as a buffered message is, complete afterwards, in all ways
// of completing a request.
// Requirements of MPI-5.0 section 3.6.
#include "check.h"

enum { LONG = 1 << 20, ROOM = 4 * (LONG + MPI_BSEND_OVERHEAD) };

static unsigned char *out, *in;

static int next_of(void) { return (check_rank + 1) % check_size; }
static int prev_of(void) { return (check_rank + check_size - 1) % check_size; }

// Everybody has come here before the previous rank's message is received.
static void agree(void) {
    MPI(MPI_Sendrecv(NULL, 0, MPI_BYTE, next_of(), 99, NULL, 0, MPI_BYTE, prev_of(), 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void bsend_long(MPI_Comm comm, int tag) {
    check_fill(out, LONG, (unsigned)(check_rank + tag));
    MPI(MPI_Bsend(out, LONG, MPI_BYTE, next_of(), tag, comm));
    memset(out, 0xEE, LONG);
}
static void receive_long(MPI_Comm comm, int tag) {
    memset(in, 0, LONG);
    MPI(MPI_Recv(in, LONG, MPI_BYTE, prev_of(), tag, comm, MPI_STATUS_IGNORE));
    CHECK_EQ(check_wrong(in, LONG, (unsigned)(prev_of() + tag)), -1);
}

// A message too long to be sent ahead waits for its receive here; other libraries may do better.
static void still_pending(MPI_Request *r) {
#ifdef FARPOST
    for (int i = 0; i < 20; i++) {
        int flag = 1;
        MPI(MPI_Test(r, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
        CHECK(*r != MPI_REQUEST_NULL);
        flag = 1;
        MPI(MPI_Request_get_status(*r, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
    }
#else
    (void)r;
#endif
}
static void check_empty(const MPI_Status *st) {
    int n = -1;
    MPI(MPI_Get_count(st, MPI_BYTE, &n));
    CHECK_EQ(n, 0);
    CHECK_EQ(st->MPI_SOURCE, MPI_ANY_SOURCE);
    CHECK_EQ(st->MPI_TAG, MPI_ANY_TAG);
}

static void iflush(MPI_Comm comm, MPI_Request *r) {
    if (comm == MPI_COMM_NULL) MPI(MPI_Buffer_iflush(r));
    else MPI(MPI_Comm_iflush_buffer(comm, r));
    CHECK(*r != MPI_REQUEST_NULL);
}

// The ways to complete a flush, for the process's buffer (own is null) or that of a communicator.
static void all_ways(MPI_Comm own) {
    const MPI_Comm comm = own == MPI_COMM_NULL ? MPI_COMM_WORLD : own;
    MPI_Request r, q[3];
    MPI_Status st, sts[3];
    int flag = 0, index = -1, count = 0, indices[3];

    // Nothing was ever sent.
    iflush(own, &r);
    MPI(MPI_Test(&r, &flag, &st));
    CHECK(flag);
    CHECK(r == MPI_REQUEST_NULL);
    check_empty(&st);

    // Wait.
    bsend_long(comm, 1);
    iflush(own, &r);
    still_pending(&r);
    agree();
    receive_long(comm, 1);
    MPI(MPI_Wait(&r, &st));
    CHECK(r == MPI_REQUEST_NULL);
    check_empty(&st);

    // Test until it is complete. What is buffered later does not count.
    bsend_long(comm, 2);
    iflush(own, &r);
    bsend_long(comm, 3);
    agree();
    receive_long(comm, 2);
    for (flag = 0; !flag;) MPI(MPI_Test(&r, &flag, &st));
    CHECK(r == MPI_REQUEST_NULL);
    check_empty(&st);
    iflush(own, &r);
    still_pending(&r);
    agree();
    receive_long(comm, 3);
    MPI(MPI_Wait(&r, &st));

    // With a receive and a send, in an array.
    bsend_long(comm, 4);
    iflush(own, &q[1]);
    agree();
    MPI(MPI_Irecv(in, LONG, MPI_BYTE, prev_of(), 4, comm, &q[0]));
    MPI(MPI_Isend(&count, 1, MPI_INT, next_of(), 5, comm, &q[2]));
    MPI(MPI_Waitall(3, q, sts));
    CHECK(q[0] == MPI_REQUEST_NULL && q[1] == MPI_REQUEST_NULL && q[2] == MPI_REQUEST_NULL);
    CHECK_EQ(check_wrong(in, LONG, (unsigned)(prev_of() + 4)), -1);
    check_empty(&sts[1]);
    MPI(MPI_Recv(&index, 1, MPI_INT, prev_of(), 5, comm, MPI_STATUS_IGNORE));

    // Waitany, with a receive that is matched only afterwards.
    bsend_long(comm, 6);
    MPI(MPI_Irecv(&count, 1, MPI_INT, prev_of(), 7, comm, &q[0]));
    iflush(own, &q[1]);
    q[2] = MPI_REQUEST_NULL;
    agree();
    receive_long(comm, 6);
    MPI(MPI_Waitany(3, q, &index, &st));
    CHECK_EQ(index, 1);
    check_empty(&st);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    index = 42;
    MPI(MPI_Send(&index, 1, MPI_INT, next_of(), 7, comm));
    MPI(MPI_Wait(&q[0], &st));
    CHECK_EQ(count, 42);

    // Waitsome and Testall with three flushes of the same messages.
    bsend_long(comm, 8);
    iflush(own, &q[0]);
    iflush(own, &q[1]);
    iflush(own, &q[2]);
    still_pending(&q[2]);
#ifdef FARPOST
    flag = 1;
    MPI(MPI_Testall(3, q, &flag, sts));
    CHECK(!flag);
    MPI(MPI_Testsome(3, q, &count, indices, sts));
    CHECK_EQ(count, 0);
    MPI(MPI_Testany(3, q, &index, &flag, &st));
    CHECK(!flag);
#endif
    agree();
    receive_long(comm, 8);
    for (int done = 0; done < 3; done += count) {
        MPI(MPI_Waitsome(3, q, &count, indices, sts));
        CHECK(count > 0 && count <= 3);
        if (count <= 0) break;
        check_empty(&sts[0]);
    }

    // Freed: the messages go on.
    bsend_long(comm, 9);
    iflush(own, &r);
    MPI(MPI_Request_free(&r));
    CHECK(r == MPI_REQUEST_NULL);
    agree();
    receive_long(comm, 9);
}

TEST(process_buffer) {
    void *buffer = malloc(ROOM), *back = NULL;
    int size = 0;
    MPI_Request r;
    // No buffer at all: nothing to wait for.
    MPI(MPI_Buffer_iflush(&r));
    MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
    MPI(MPI_Buffer_attach(buffer, ROOM));
    all_ways(MPI_COMM_NULL);
    MPI(MPI_Buffer_detach(&back, &size));
    CHECK(back == buffer);
    CHECK_EQ(size, ROOM);
    free(buffer);
}

TEST(communicator_buffer) {
    void *buffer = malloc(ROOM), *back = NULL;
    int size = 0;
    MPI_Comm c;
    MPI(MPI_Comm_dup(MPI_COMM_WORLD, &c));
    MPI(MPI_Comm_attach_buffer(c, buffer, ROOM));
    all_ways(c);
    MPI(MPI_Comm_detach_buffer(c, &back, &size));
    CHECK(back == buffer);
    CHECK_EQ(size, ROOM);
    MPI(MPI_Comm_attach_buffer(c, MPI_BUFFER_AUTOMATIC, 0));
    all_ways(c);
    MPI(MPI_Comm_detach_buffer(c, &back, &size));
    CHECK(back == MPI_BUFFER_AUTOMATIC);
    MPI(MPI_Comm_free(&c));
    free(buffer);
}

// The buffer of the process and that of a communicator are flushed apart.
TEST(apart) {
    void *buffer = malloc(ROOM), *back = NULL;
    int size = 0, flag = 0;
    MPI_Request own, process;
    MPI_Comm c;
    MPI(MPI_Comm_dup(MPI_COMM_WORLD, &c));
    MPI(MPI_Buffer_attach(buffer, ROOM));
    MPI(MPI_Comm_attach_buffer(c, MPI_BUFFER_AUTOMATIC, 0));
    bsend_long(c, 1);
    MPI(MPI_Comm_iflush_buffer(c, &own));
    MPI(MPI_Buffer_iflush(&process));
    MPI(MPI_Test(&process, &flag, MPI_STATUS_IGNORE));
    CHECK(flag);
    still_pending(&own);
    bsend_long(MPI_COMM_WORLD, 2);
    MPI(MPI_Buffer_iflush(&process));
    agree();
    receive_long(c, 1);
    MPI(MPI_Wait(&own, MPI_STATUS_IGNORE));
    still_pending(&process);
    agree();
    receive_long(MPI_COMM_WORLD, 2);
    MPI(MPI_Wait(&process, MPI_STATUS_IGNORE));
    MPI(MPI_Comm_detach_buffer(c, &back, &size));
    MPI(MPI_Buffer_detach(&back, &size));
    MPI(MPI_Comm_free(&c));
    free(buffer);
}

// A flush outlives the buffer and the communicator.
TEST(outlived) {
    void *buffer = malloc(ROOM), *back = NULL;
    int size = 0;
    MPI_Request r[2];
    MPI_Comm c;
    MPI(MPI_Comm_dup(MPI_COMM_WORLD, &c));
    MPI(MPI_Comm_attach_buffer(c, MPI_BUFFER_AUTOMATIC, 0));
    MPI(MPI_Buffer_attach(buffer, ROOM));
    bsend_long(c, 1);
    bsend_long(MPI_COMM_WORLD, 2);
    MPI(MPI_Comm_iflush_buffer(c, &r[0]));
    MPI(MPI_Buffer_iflush(&r[1]));
    agree();
    receive_long(c, 1);
    receive_long(MPI_COMM_WORLD, 2);
    MPI(MPI_Buffer_detach(&back, &size));
    CHECK(back == buffer);
    MPI(MPI_Comm_detach_buffer(c, &back, &size));
    MPI(MPI_Comm_free(&c));
    MPI(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    CHECK(r[0] == MPI_REQUEST_NULL && r[1] == MPI_REQUEST_NULL);
    free(buffer);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    out = malloc(LONG);
    in = malloc(LONG);
    RUN(process_buffer);
    RUN(communicator_buffer);
    RUN(apart);
    RUN(outlived);
    free(out);
    free(in);
    return check_done();
}
