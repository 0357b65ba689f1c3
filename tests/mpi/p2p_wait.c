// ranks: 1 2 3 5 8
// The wait and test families: null, inactive and active requests, empty statuses, index order, freeing while active.
// Requirements of MPI-5.0 sections 3.2.5, 3.2.6, 3.7.1, 3.7.3, 3.7.6, 3.9.
#include "check.h"

static int next_of(void) { return (check_rank + 1) % check_size; }
static int prev_of(void) { return (check_rank + check_size - 1) % check_size; }

static void empty_status(const MPI_Status *st, int line) {
    int n = -1, cancelled = 1;
    MPI_Get_count(st, MPI_INT, &n);
    MPI_Test_cancelled(st, &cancelled);
    if (st->MPI_SOURCE != MPI_ANY_SOURCE || st->MPI_TAG != MPI_ANY_TAG || n != 0 || cancelled)
        check_fail(__FILE__, line, "not an empty status: source %d tag %d count %d cancelled %d", st->MPI_SOURCE, st->MPI_TAG, n, cancelled);
}

TEST(null_requests) {
    MPI_Request r[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status st[3];
    int flag = 0, index = 7, n = 7, which[3];
    MPI(MPI_Wait(&r[0], &st[0]));
    empty_status(&st[0], __LINE__);
    MPI(MPI_Test(&r[0], &flag, &st[0]));
    CHECK(flag);
    empty_status(&st[0], __LINE__);
    MPI(MPI_Waitany(3, r, &index, &st[0]));
    CHECK_EQ(index, MPI_UNDEFINED);
    empty_status(&st[0], __LINE__);
    index = 7, flag = 0;
    MPI(MPI_Testany(3, r, &index, &flag, &st[0]));
    CHECK_EQ(index, MPI_UNDEFINED);
    CHECK(flag);
    empty_status(&st[0], __LINE__);
    MPI(MPI_Waitsome(3, r, &n, which, st));
    CHECK_EQ(n, MPI_UNDEFINED);
    n = 7;
    MPI(MPI_Testsome(3, r, &n, which, st));
    CHECK_EQ(n, MPI_UNDEFINED);
    MPI(MPI_Waitall(3, r, st));
    for (int i = 0; i < 3; i++) empty_status(&st[i], __LINE__);
    flag = 0;
    MPI(MPI_Testall(3, r, &flag, st));
    CHECK(flag);
    flag = 0;
    MPI(MPI_Request_get_status(MPI_REQUEST_NULL, &flag, &st[0]));
    CHECK(flag);
    empty_status(&st[0], __LINE__);
    MPI(MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE));
    MPI(MPI_Waitany(0, NULL, &index, MPI_STATUS_IGNORE));
    CHECK_EQ(index, MPI_UNDEFINED);
}

TEST(inactive_requests) {
    int x = 0, flag = 0, index = 7, n = 7, which[2];
    MPI_Request r[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status st[2];
    MPI(MPI_Recv_init(&x, 1, MPI_INT, prev_of(), 1, MPI_COMM_WORLD, &r[0]));
    MPI(MPI_Wait(&r[0], &st[0]));
    empty_status(&st[0], __LINE__);
    CHECK(r[0] != MPI_REQUEST_NULL);
    MPI(MPI_Test(&r[0], &flag, &st[0]));
    CHECK(flag);
    MPI(MPI_Waitany(2, r, &index, &st[0]));
    CHECK_EQ(index, MPI_UNDEFINED);
    MPI(MPI_Waitsome(2, r, &n, which, st));
    CHECK_EQ(n, MPI_UNDEFINED);
    MPI(MPI_Waitall(2, r, st));
    empty_status(&st[0], __LINE__);
    flag = 0;
    MPI(MPI_Testall(2, r, &flag, st));
    CHECK(flag);
    flag = 0;
    MPI(MPI_Request_get_status(r[0], &flag, &st[0]));
    CHECK(flag);
    MPI(MPI_Request_free(&r[0]));
    CHECK(r[0] == MPI_REQUEST_NULL);
}

TEST(waitany_takes_each_once) {
    enum { N = 20 };
    int v[N], w[N], seen[N] = {0};
    MPI_Request r[N], s[N];
    for (int i = 0; i < N; i++) v[i] = -1, w[i] = i * i + check_rank;
    for (int i = 0; i < N; i++) MPI(MPI_Irecv(&v[i], 1, MPI_INT, prev_of(), i, MPI_COMM_WORLD, &r[i]));
    for (int i = N - 1; i >= 0; i--) MPI(MPI_Isend(&w[i], 1, MPI_INT, next_of(), i, MPI_COMM_WORLD, &s[i]));
    for (int k = 0; k < N; k++) {
        int index = -1;
        MPI_Status st;
        MPI(MPI_Waitany(N, r, &index, &st));
        if (index < 0 || index >= N || seen[index]) {
            check_fail(__FILE__, __LINE__, "index %d", index);
            break;
        }
        seen[index] = 1;
        CHECK_EQ(st.MPI_TAG, index);
        CHECK_EQ(st.MPI_SOURCE, prev_of());
        CHECK_EQ(v[index], index * index + prev_of());
        CHECK(r[index] == MPI_REQUEST_NULL);
    }
    MPI(MPI_Waitall(N, s, MPI_STATUSES_IGNORE));
}

TEST(some_and_test) {
    enum { N = 30 };
    int v[N], w[N], which[N], n, left = N;
    MPI_Request r[N], s[N];
    MPI_Status st[N];
    for (int i = 0; i < N; i++) {
        w[i] = 1000 * check_rank + i;
        MPI(MPI_Irecv(&v[i], 1, MPI_INT, prev_of(), i, MPI_COMM_WORLD, &r[i]));
    }
    for (int i = 0; i < N; i++) MPI(MPI_Isend(&w[i], 1, MPI_INT, next_of(), i, MPI_COMM_WORLD, &s[i]));
    for (int round = 0; left > 0; round++) {
        if (round % 2)
            MPI(MPI_Waitsome(N, r, &n, which, st));
        else
            MPI(MPI_Testsome(N, r, &n, which, st));
        if (n == MPI_UNDEFINED) {
            check_fail(__FILE__, __LINE__, "MPI_UNDEFINED with %d left", left);
            break;
        }
        if (round % 2) CHECK(n > 0);
        for (int k = 0; k < n; k++) {
            CHECK_EQ(st[k].MPI_TAG, which[k]);
            CHECK_EQ(v[which[k]], 1000 * prev_of() + which[k]);
            CHECK(r[which[k]] == MPI_REQUEST_NULL);
        }
        left -= n;
    }
    CHECK_EQ(left, 0);
    int flag = 0;
    while (!flag) MPI(MPI_Testall(N, s, &flag, MPI_STATUSES_IGNORE));
    for (int i = 0; i < N; i++) CHECK(s[i] == MPI_REQUEST_NULL);
}

TEST(testall_is_all_or_nothing) {
    int x = -1, y = -1, flag = 1, one = 1;
    MPI_Request r[2];
    MPI_Status st[2];
    MPI(MPI_Irecv(&x, 1, MPI_INT, prev_of(), 1, MPI_COMM_WORLD, &r[0]));
    MPI(MPI_Irecv(&y, 1, MPI_INT, prev_of(), 2, MPI_COMM_WORLD, &r[1]));
    MPI(MPI_Send(&one, 1, MPI_INT, next_of(), 1, MPI_COMM_WORLD));
    while (x != 1) { // The first one is there for sure; the second cannot be.
        MPI(MPI_Testall(2, r, &flag, st));
        CHECK(!flag);
        CHECK(r[0] != MPI_REQUEST_NULL && r[1] != MPI_REQUEST_NULL);
        if (flag) break;
    }
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    MPI(MPI_Send(&one, 1, MPI_INT, next_of(), 2, MPI_COMM_WORLD));
    MPI(MPI_Waitall(2, r, st));
    CHECK_EQ(y, 1);
    CHECK_EQ(st[0].MPI_TAG, 1);
    CHECK_EQ(st[1].MPI_TAG, 2);
}

TEST(request_get_status_keeps_the_request) {
    int x = -1, v = check_rank, flag = 0;
    MPI_Request r, s;
    MPI_Status st;
    MPI(MPI_Irecv(&x, 1, MPI_INT, prev_of(), 3, MPI_COMM_WORLD, &r));
    MPI(MPI_Isend(&v, 1, MPI_INT, next_of(), 3, MPI_COMM_WORLD, &s));
    while (!flag) MPI(MPI_Request_get_status(r, &flag, &st));
    CHECK_EQ(st.MPI_SOURCE, prev_of());
    CHECK(r != MPI_REQUEST_NULL);
    flag = 0;
    MPI(MPI_Request_get_status(r, &flag, &st));
    CHECK(flag);
    MPI(MPI_Wait(&r, &st));
    CHECK_EQ(st.MPI_TAG, 3);
    CHECK(r == MPI_REQUEST_NULL);
    MPI(MPI_Wait(&s, MPI_STATUS_IGNORE));
}

TEST(request_get_status_any_some_all) {
    int x[3] = {-1, -1, -1}, v = 4, flag = 0, index = -5, n = -5, which[3];
    MPI_Request r[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL}, s[2];
    MPI_Status st[3];
    MPI(MPI_Request_get_status_any(3, r, &index, &flag, st));
    CHECK(flag);
    CHECK_EQ(index, MPI_UNDEFINED);
    MPI(MPI_Request_get_status_some(3, r, &n, which, st));
    CHECK_EQ(n, MPI_UNDEFINED);
    flag = 0;
    MPI(MPI_Request_get_status_all(3, r, &flag, st));
    CHECK(flag);
    for (int i = 0; i < 2; i++) MPI(MPI_Irecv(&x[i], 1, MPI_INT, prev_of(), i, MPI_COMM_WORLD, &r[i]));
    for (int i = 0; i < 2; i++) MPI(MPI_Isend(&v, 1, MPI_INT, next_of(), i, MPI_COMM_WORLD, &s[i]));
    flag = 0;
    while (!flag) MPI(MPI_Request_get_status_all(3, r, &flag, st));
    CHECK_EQ(st[1].MPI_TAG, 1);
    flag = 0;
    MPI(MPI_Request_get_status_any(3, r, &index, &flag, st));
    CHECK(flag && (index == 0 || index == 1));
    MPI(MPI_Request_get_status_some(3, r, &n, which, st));
    CHECK_EQ(n, 2);
    CHECK(r[0] != MPI_REQUEST_NULL && r[1] != MPI_REQUEST_NULL);
    MPI(MPI_Waitall(3, r, st));
    MPI(MPI_Waitall(2, s, MPI_STATUSES_IGNORE));
}

TEST(free_active_requests) {
    // A freed send still delivers; a freed receive still receives.
    int v = 77, x = -1, done = 0;
    MPI_Request r;
    MPI(MPI_Irecv(&x, 1, MPI_INT, prev_of(), 1, MPI_COMM_WORLD, &r));
    MPI(MPI_Request_free(&r));
    CHECK(r == MPI_REQUEST_NULL);
    MPI(MPI_Isend(&v, 1, MPI_INT, next_of(), 1, MPI_COMM_WORLD, &r));
    MPI(MPI_Request_free(&r));
    for (long k = 0; !done && k < 100000000; k++) {
        int flag;
        MPI(MPI_Iprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        MPI(MPI_Iprobe(prev_of(), 999, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        done = *(volatile int *)&x == 77;
    }
    CHECK_EQ(x, 77);
}

TEST(status_error_untouched_by_single) {
    // Wait on one request must not set MPI_ERROR (section 3.2.5).
    int v = 1, x;
    MPI_Request r, s;
    MPI_Status st;
    st.MPI_ERROR = 12345;
    MPI(MPI_Irecv(&x, 1, MPI_INT, prev_of(), 1, MPI_COMM_WORLD, &r));
    MPI(MPI_Isend(&v, 1, MPI_INT, next_of(), 1, MPI_COMM_WORLD, &s));
    MPI(MPI_Wait(&r, &st));
    CHECK_EQ(st.MPI_ERROR, 12345);
    MPI(MPI_Wait(&s, MPI_STATUS_IGNORE));
}

TEST(many_requests) {
    enum { N = 5000 };
    int *v = malloc(sizeof *v * N), *w = malloc(sizeof *w * N);
    MPI_Request *r = malloc(sizeof *r * N * 2);
    for (int i = 0; i < N; i++) {
        w[i] = i ^ check_rank;
        MPI(MPI_Irecv(&v[i], 1, MPI_INT, prev_of(), i % 7, MPI_COMM_WORLD, &r[i]));
    }
    for (int i = 0; i < N; i++) MPI(MPI_Isend(&w[i], 1, MPI_INT, next_of(), i % 7, MPI_COMM_WORLD, &r[N + i]));
    MPI(MPI_Waitall(2 * N, r, MPI_STATUSES_IGNORE));
    for (int i = 0; i < N; i++)
        if (v[i] != (i ^ prev_of())) {
            check_fail(__FILE__, __LINE__, "message %d brought %d", i, v[i]);
            break;
        }
    free(v), free(w), free(r);
}

// MPI-5.0 section 3.7.5: of three messages the middle one is too long for its receive. `by` completes some of the requests and says
// in st what each brought, of those that which names; it gives the number of them.
static void one_of_three_fails(const char *by, int (*complete)(MPI_Request *r, int *which, MPI_Status *st)) {
    char room[3][16], out[3][16];
    MPI_Request r[3], s[3];
    int brought[3] = {0, 0, 0}, left = 3;
    for (int i = 0; i < 3; i++) {
        check_fill(out[i], 16, (unsigned)(check_rank * 3 + i));
        memset(room[i], 1, 16);
        MPI(MPI_Irecv(room[i], i == 1 ? 7 : 16, MPI_CHAR, prev_of(), i, MPI_COMM_WORLD, &r[i]));
    }
    for (int i = 0; i < 3; i++) MPI(MPI_Isend(out[i], 16, MPI_CHAR, next_of(), i, MPI_COMM_WORLD, &s[i]));
    while (left > 0) {
        int which[3];
        MPI_Status st[3];
        memset(st, 0x77, sizeof st);
        int n = complete(r, which, st);
        if (n < 0) return;
        for (int k = 0; k < n; k++) {
            int i = which[k], class = -1, count = -1;
            if (i < 0 || i > 2 || brought[i]++) {
                check_fail(__FILE__, __LINE__, "%s: request %d again", by, i);
                return;
            }
            left--;
            MPI(MPI_Error_class(st[k].MPI_ERROR, &class));
            if (class != (i == 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS))
                check_fail(__FILE__, __LINE__, "%s: the status of request %d tells class %d", by, i, class);
            CHECK(r[i] == MPI_REQUEST_NULL);
            CHECK(st[k].MPI_SOURCE == prev_of() && st[k].MPI_TAG == i);
            if (i != 1) {
                MPI(MPI_Get_count(&st[k], MPI_CHAR, &count));
                CHECK_EQ(count, 16);
                CHECK_EQ(check_wrong(room[i], 16, (unsigned)(prev_of() * 3 + i)), -1);
            }
        }
    }
    CHECK_EQ(room[1][7], 1);
    MPI(MPI_Waitall(3, s, MPI_STATUSES_IGNORE));
}

// What a call about a list that gave `error` completed of it.
static int all_of_list(int error, int flag, int *which, MPI_Status *st) {
    int class = -1, n = 0;
    MPI_Error_class(error, &class);
    if (class == MPI_SUCCESS && !flag) return 0;
    if (class != MPI_ERR_IN_STATUS) {
        check_fail(__FILE__, __LINE__, "class %d, expected MPI_ERR_IN_STATUS", class);
        return -1;
    }
    for (int i = 0; i < 3; i++) {
        int own = -1;
        MPI_Error_class(st[i].MPI_ERROR, &own);
        // Not complete, because of the one that failed: the next call takes it.
        if (own == MPI_ERR_PENDING) {
            check_fail(__FILE__, __LINE__, "request %d is pending, but its message has come", i);
            return -1;
        }
        which[n++] = i;
    }
    return n;
}

static int by_waitall(MPI_Request *r, int *which, MPI_Status *st) { return all_of_list(MPI_Waitall(3, r, st), 1, which, st); }

static int by_testall(MPI_Request *r, int *which, MPI_Status *st) {
    int flag = 0, error = MPI_Testall(3, r, &flag, st);
    return all_of_list(error, flag, which, st);
}

// Some of a list: an error among those that are complete is MPI_ERR_IN_STATUS, none is success, and then MPI_ERROR may be anything.
static int some_of_list(int error, int n, const int *which, MPI_Status *st) {
    int class = -1, failed = 0;
    if (n == MPI_UNDEFINED) n = 0;
    MPI_Error_class(error, &class);
    for (int k = 0; k < n; k++) failed |= which[k] == 1;
    if (class != (failed ? MPI_ERR_IN_STATUS : MPI_SUCCESS)) {
        check_fail(__FILE__, __LINE__, "class %d with %d complete, the wrong one %s", class, n, failed ? "among them" : "not");
        return -1;
    }
    for (int k = 0; !failed && k < n; k++) st[k].MPI_ERROR = MPI_SUCCESS;
    return n;
}

static int by_waitsome(MPI_Request *r, int *which, MPI_Status *st) {
    int n = 0, error = MPI_Waitsome(3, r, &n, which, st);
    return some_of_list(error, n, which, st);
}

static int by_testsome(MPI_Request *r, int *which, MPI_Status *st) {
    int n = 0, error = MPI_Testsome(3, r, &n, which, st);
    return some_of_list(error, n, which, st);
}

// One alone gives the error itself.
static int by_waitany(MPI_Request *r, int *which, MPI_Status *st) {
    int class = -1, error = MPI_Waitany(3, r, &which[0], st);
    MPI_Error_class(error, &class);
    CHECK_EQ(class, which[0] == 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
    st->MPI_ERROR = error;
    return 1;
}

static int by_wait(MPI_Request *r, int *which, MPI_Status *st) {
    which[0] = r[0] != MPI_REQUEST_NULL ? 0 : r[1] != MPI_REQUEST_NULL ? 1 : 2;
    int class = -1, error = MPI_Wait(&r[which[0]], st);
    MPI_Error_class(error, &class);
    CHECK_EQ(class, which[0] == 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
    st->MPI_ERROR = error;
    return 1;
}

TEST(error_in_status) {
    one_of_three_fails("MPI_Waitall", by_waitall);
    one_of_three_fails("MPI_Testall", by_testall);
    one_of_three_fails("MPI_Waitsome", by_waitsome);
    one_of_three_fails("MPI_Testsome", by_testsome);
    one_of_three_fails("MPI_Waitany", by_waitany);
    one_of_three_fails("MPI_Wait", by_wait);
    // Without statuses the class is the same.
    char room[2][8], out[8] = "seven..";
    MPI_Request r[3];
    MPI(MPI_Irecv(room[0], 8, MPI_CHAR, prev_of(), 1, MPI_COMM_WORLD, &r[0]));
    MPI(MPI_Irecv(room[1], 3, MPI_CHAR, prev_of(), 2, MPI_COMM_WORLD, &r[1]));
    MPI(MPI_Isend(out, 8, MPI_CHAR, next_of(), 1, MPI_COMM_WORLD, &r[2]));
    MPI(MPI_Send(out, 8, MPI_CHAR, next_of(), 2, MPI_COMM_WORLD));
    MPI_FAILS(MPI_Waitall(3, r, MPI_STATUSES_IGNORE), MPI_ERR_IN_STATUS);
    CHECK_STR(room[0], out);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    RUN(null_requests);
    RUN(inactive_requests);
    RUN(waitany_takes_each_once);
    RUN(some_and_test);
    RUN(testall_is_all_or_nothing);
    RUN(request_get_status_keeps_the_request);
    RUN(request_get_status_any_some_all);
    RUN(free_active_requests);
    RUN(status_error_untouched_by_single);
    RUN(many_requests);
    RUN(error_in_status);
    return check_done();
}
