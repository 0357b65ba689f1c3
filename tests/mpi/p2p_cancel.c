// ranks: 1 2 3 5 8
// farpost: only
// Cancelled sends: they end whatever receives are posted, and either they or their receives have the message, never both.
// Requirements of MPI-5.0 sections 3.7, 3.8.2, 3.8.4, 3.9.
#include "check.h"

enum { TAG = 31, SAID = 32, BIG = 1 << 20 };

static int next_of(void) { return (check_rank + 1) % check_size; }
static int prev_of(void) { return (check_rank + check_size - 1) % check_size; }

// Whether the send behind the request was cancelled; it is over then.
static int cancel(MPI_Request *request) {
    MPI_Status status;
    int cancelled = -1;
    MPI(MPI_Cancel(request));
    MPI(MPI_Wait(request, &status));
    MPI(MPI_Test_cancelled(&status, &cancelled));
    return cancelled;
}

// Synchronous sends that nobody receives can end in one way only, and what comes after them is received.
TEST(nobody_receives) {
    static const int lengths[] = {0, 4, 32, 40, 41, 1000, 8192, 100000, BIG};
    char *out = calloc(BIG, 1), *in = calloc(BIG, 1);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        MPI_Request r, s;
        MPI_Status status;
        int count = -1, length = lengths[i];
        memset(out, 1, (size_t)length);
        MPI(MPI_Issend(out, length, MPI_BYTE, next_of(), TAG, MPI_COMM_WORLD, &r));
        CHECK_EQ(cancel(&r), 1);
        CHECK(r == MPI_REQUEST_NULL);
        // Nobody's receive is posted before.
        MPI(MPI_Barrier(MPI_COMM_WORLD));
        memset(out, 2, (size_t)length);
        MPI(MPI_Isend(out, length, MPI_BYTE, next_of(), TAG, MPI_COMM_WORLD, &s));
        MPI(MPI_Recv(in, BIG, MPI_BYTE, prev_of(), TAG, MPI_COMM_WORLD, &status));
        MPI(MPI_Get_count(&status, MPI_BYTE, &count));
        CHECK_EQ(count, length);
        for (int at = 0; at < length; at++)
            if (in[at] != 2) {
                CHECK_EQ(in[at], 2);
                break;
            }
        MPI(MPI_Wait(&s, MPI_STATUS_IGNORE));
        MPI(MPI_Barrier(MPI_COMM_WORLD));
    }
    free(out), free(in);
}

// Sends in every mode, some of which are received and some are not: those that were cancelled never are.
TEST(one_or_the_other) {
    enum { MANY = 60 };
    static const int lengths[] = {1, 30, 3000};
    static int out[MANY][3000], in[3000], cancelled[MANY], theirs[MANY];
    MPI_Request r[MANY];
    for (int i = 0; i < MANY; i++) {
        int count = lengths[i % 3];
        for (int k = 0; k < count; k++) out[i][k] = i;
        if (i % 2)
            MPI(MPI_Isend(out[i], count, MPI_INT, next_of(), 1000 + i, MPI_COMM_WORLD, &r[i]));
        else
            MPI(MPI_Issend(out[i], count, MPI_INT, next_of(), 1000 + i, MPI_COMM_WORLD, &r[i]));
    }
    // Half of the receives are posted before, half after.
    MPI_Request q[MANY];
    static int early[MANY][3000];
    for (int i = 0; i < MANY; i += 4) MPI(MPI_Irecv(early[i], 3000, MPI_INT, prev_of(), 1000 + i, MPI_COMM_WORLD, &q[i]));
    for (int i = 0; i < MANY; i++) cancelled[(i * 7) % MANY] = cancel(&r[(i * 7) % MANY]);
    MPI(MPI_Sendrecv(cancelled, MANY, MPI_INT, next_of(), SAID, theirs, MANY, MPI_INT, prev_of(), SAID, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < MANY; i++) {
        MPI_Status status;
        int flag = -1, *got = in;
        if (i % 4 == 0) {
            got = early[i];
            if (theirs[i]) MPI(MPI_Cancel(&q[i]));
            MPI(MPI_Wait(&q[i], &status));
            MPI(MPI_Test_cancelled(&status, &flag));
            CHECK_EQ(flag, theirs[i]);
        } else if (!theirs[i]) {
            MPI(MPI_Recv(in, 3000, MPI_INT, prev_of(), 1000 + i, MPI_COMM_WORLD, &status));
        }
        if (theirs[i]) continue;
        CHECK_EQ(got[0], i);
        CHECK_EQ(got[lengths[i % 3] - 1], i);
    }
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < MANY; i++) {
        int flag = -1;
        MPI(MPI_Iprobe(MPI_ANY_SOURCE, 1000 + i, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        CHECK_EQ(flag, 0);
    }
}

// What a matched probe has taken is matched.
TEST(taken_by_a_probe) {
    static int out[30000], in[30000];
    for (int count = 1; count <= 30000; count *= 30) {
        MPI_Request r, said;
        MPI_Message message;
        int token = 0, heard = 0, flag = 0;
        out[count - 1] = 5, in[count - 1] = 0;
        MPI(MPI_Issend(out, count, MPI_INT, next_of(), TAG, MPI_COMM_WORLD, &r));
        MPI(MPI_Mprobe(prev_of(), TAG, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
        MPI(MPI_Isend(&token, 1, MPI_INT, prev_of(), SAID, MPI_COMM_WORLD, &said));
        MPI(MPI_Recv(&heard, 1, MPI_INT, next_of(), SAID, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MPI(MPI_Cancel(&r));
        // The question, if there is one, meets a message that has been taken.
        MPI(MPI_Wait(&said, MPI_STATUS_IGNORE));
        MPI(MPI_Barrier(MPI_COMM_WORLD));
        MPI(MPI_Mrecv(in, count, MPI_INT, &message, MPI_STATUS_IGNORE));
        CHECK_EQ(in[count - 1], 5);
        MPI_Status status;
        MPI(MPI_Wait(&r, &status));
        MPI(MPI_Test_cancelled(&status, &flag));
        CHECK_EQ(flag, 0);
    }
}

TEST(persistent_ones) {
    int x = 1, y = 0;
    MPI_Request r;
    MPI(MPI_Ssend_init(&x, 1, MPI_INT, next_of(), TAG, MPI_COMM_WORLD, &r));
    for (int i = 0; i < 3; i++) {
        x = -1;
        MPI(MPI_Start(&r));
        CHECK_EQ(cancel(&r), 1);
        CHECK(r != MPI_REQUEST_NULL);
        MPI(MPI_Barrier(MPI_COMM_WORLD));
        x = i;
        MPI(MPI_Start(&r));
        MPI(MPI_Recv(&y, 1, MPI_INT, prev_of(), TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(y, i);
        MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
        MPI(MPI_Barrier(MPI_COMM_WORLD));
    }
    MPI(MPI_Request_free(&r));
}

// Cancelled and freed: nothing is left, and the queue between the two goes on.
TEST(freed) {
    static char out[200][70000];
    int x = 4, y = 0;
    for (int i = 0; i < 200; i++) {
        MPI_Request r;
        MPI(MPI_Issend(out[i], i % 2 ? 8 : (int)sizeof out[i], MPI_BYTE, next_of(), TAG, MPI_COMM_WORLD, &r));
        MPI(MPI_Cancel(&r));
        MPI(MPI_Request_free(&r));
    }
    MPI(MPI_Sendrecv(&x, 1, MPI_INT, next_of(), SAID, &y, 1, MPI_INT, prev_of(), SAID, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(y, 4);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    // Messages that nobody wants go, if not at once: a probe that finds nothing looks what else there is.
    for (int flag = 1, none; flag;) {
        MPI(MPI_Iprobe(prev_of(), SAID, MPI_COMM_WORLD, &none, MPI_STATUS_IGNORE));
        MPI(MPI_Iprobe(prev_of(), TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    }
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    RUN(nobody_receives);
    RUN(one_or_the_other);
    RUN(taken_by_a_probe);
    RUN(persistent_ones);
    RUN(freed);
    return check_done();
}
