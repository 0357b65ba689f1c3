// ranks: 1 2 4
// settings: FARPOST_DEVICE=fm | FARPOST_DEVICE=jam | FARPOST_DEVICE=portals
// Partitioned messages in a ring: each rank sends to the next one.
// Requirements of MPI-5.0 sections 4.2.1, 4.2.2, 4.2.3.
#include "check.h"

static int next, prev;

static int ints(int partition, int at, int round) { return (partition * 1000 + at) * 10 + round; }

// Partition 2 is seen while the others are not ready.
TEST(each_partition_by_itself) {
    enum { PARTS = 4 };
    for (int n = 1; n <= 30000; n = n * 10 + 7) {
        int *out = calloc((size_t)n * PARTS, sizeof(int)), *in = calloc((size_t)n * PARTS, sizeof(int)), flag = -1, token = 0;
        MPI_Request s, r;
        MPI(MPI_Psend_init(out, PARTS, n, MPI_INT, next, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &s));
        MPI(MPI_Precv_init(in, PARTS, n, MPI_INT, prev, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &r));
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < n * PARTS; i++) out[i] = ints(i / n, i % n, round), in[i] = -1;
            MPI(MPI_Parrived(r, 1, &flag));
            CHECK_EQ(flag, 1); // inactive
            MPI(MPI_Start(&s));
            MPI(MPI_Start(&r));
            MPI(MPI_Pready(2, s));
            do MPI(MPI_Parrived(r, 2, &flag));
            while (!flag);
            for (int i = 0; i < n; i++)
                if (in[2 * n + i] != ints(2, i, round)) CHECK_EQ(in[2 * n + i], ints(2, i, round));
            MPI(MPI_Parrived(r, 0, &flag));
            CHECK_EQ(flag, 0);
            // The sender goes on when it hears of it, by a message with the same tag.
            MPI(MPI_Sendrecv(&round, 1, MPI_INT, prev, 5, &token, 1, MPI_INT, next, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_EQ(token, round);
            MPI(MPI_Pready_range(0, 1, s));
            MPI(MPI_Pready_list(1, (int[]){3}, s));
            MPI_Status st;
            MPI(MPI_Wait(&s, MPI_STATUS_IGNORE));
            MPI(MPI_Wait(&r, &st));
            int count;
            MPI(MPI_Get_count(&st, MPI_INT, &count));
            CHECK_EQ(count, n * PARTS);
            CHECK_EQ(st.MPI_SOURCE, prev);
            CHECK_EQ(st.MPI_TAG, 5);
            CHECK(s != MPI_REQUEST_NULL && r != MPI_REQUEST_NULL);
            for (int i = 0; i < n * PARTS; i++)
                if (in[i] != ints(i / n, i % n, round)) CHECK_EQ(in[i], ints(i / n, i % n, round));
        }
        MPI(MPI_Request_free(&s));
        MPI(MPI_Request_free(&r));
        CHECK(s == MPI_REQUEST_NULL && r == MPI_REQUEST_NULL);
        MPI(MPI_Parrived(r, 0, &flag));
        CHECK_EQ(flag, 1); // null
        free(out), free(in);
    }
}

TEST(numbers_differ) {
    enum { N = 5040 };
    static int out[N], in[N];
    const int numbers[] = {1, 2, 7, 60, 720, N};
    for (int a = 0; a < COUNT(numbers); a++)
        for (int b = 0; b < COUNT(numbers); b++) {
            const int sends = numbers[a], receives = numbers[b];
            MPI_Request q[2];
            MPI(MPI_Psend_init(out, sends, N / sends, MPI_INT, next, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &q[0]));
            MPI(MPI_Precv_init(in, receives, N / receives * (int)sizeof(int), MPI_BYTE, prev, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &q[1]));
            for (int i = 0; i < N; i++) out[i] = i + a * 7 + b + 1, in[i] = 0;
            MPI(MPI_Startall(2, q));
            for (int p = sends; p-- > 0;) MPI(MPI_Pready(p, q[0]));
            for (int seen = 0, flag = 0; seen < receives; seen += flag) {
                MPI(MPI_Parrived(q[1], seen, &flag));
                const int at = seen * (N / receives);
                if (flag && in[at] != at + a * 7 + b + 1) CHECK_EQ(in[at], at + a * 7 + b + 1);
            }
            MPI(MPI_Waitall(2, q, MPI_STATUSES_IGNORE));
            for (int i = 0; i < N; i++)
                if (in[i] != i + a * 7 + b + 1) CHECK_EQ(in[i], i + a * 7 + b + 1);
            for (int i = 0; i < 2; i++) MPI(MPI_Request_free(&q[i]));
        }
}

// Columns out, rows in.
TEST(derived_types) {
    enum { N = 64 };
    static double out[N][N], in[N][N];
    MPI_Datatype column, columns;
    MPI_Request q[2];
    MPI(MPI_Type_vector(N, 1, N, MPI_DOUBLE, &column));
    MPI(MPI_Type_create_resized(column, 0, sizeof(double), &columns));
    MPI(MPI_Type_commit(&columns));
    MPI(MPI_Psend_init(out, 8, N / 8, columns, next, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &q[0]));
    MPI(MPI_Precv_init(in, 16, N * N / 16, MPI_DOUBLE, prev, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &q[1]));
    // Both live on in the requests.
    MPI(MPI_Type_free(&columns));
    MPI(MPI_Type_free(&column));
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) out[i][j] = i * N + j + round, in[i][j] = -1;
        MPI(MPI_Startall(2, q));
        MPI(MPI_Pready_list(8, (int[]){7, 0, 3, 2, 1, 4, 6, 5}, q[0]));
        MPI(MPI_Waitall(2, q, MPI_STATUSES_IGNORE));
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                if (in[j][i] != i * N + j + round) CHECK_EQ(in[j][i], i * N + j + round);
    }
    for (int i = 0; i < 2; i++) MPI(MPI_Request_free(&q[i]));
}

// Those with one tag match in the order in which they were made, whatever the order of starting; ordinary messages and other
// communicators are apart.
TEST(in_order) {
    enum { SEVERAL = 5 };
    static int out[SEVERAL][8], in[SEVERAL][8];
    MPI_Comm other;
    MPI_Request s[SEVERAL], r[SEVERAL], plain;
    int word = 77, got = 0;
    MPI(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    MPI(MPI_Irecv(&got, 1, MPI_INT, prev, 9, MPI_COMM_WORLD, &plain));
    for (int i = 0; i < SEVERAL; i++) {
        MPI_Comm comm = i % 2 ? other : MPI_COMM_WORLD;
        MPI(MPI_Psend_init(out[i], 4, 2, MPI_INT, next, 9, comm, MPI_INFO_NULL, &s[i]));
    }
    for (int odd = 1; odd >= 0; odd--)
        for (int i = odd; i < SEVERAL; i += 2)
            MPI(MPI_Precv_init(in[i], 2, 4, MPI_INT, prev, 9, i % 2 ? other : MPI_COMM_WORLD, MPI_INFO_NULL, &r[i]));
    MPI(MPI_Comm_free(&other));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < SEVERAL; i++)
            for (int j = 0; j < 8; j++) out[i][j] = i * 100 + j + round, in[i][j] = -1;
        for (int i = SEVERAL; i-- > 0;) MPI(MPI_Start(&r[(i + check_rank) % SEVERAL]));
        for (int i = 0; i < SEVERAL; i++) MPI(MPI_Start(&s[i]));
        for (int i = SEVERAL; i-- > 0;) MPI(MPI_Pready_range(0, 3, s[i]));
        MPI(MPI_Waitall(SEVERAL, r, MPI_STATUSES_IGNORE));
        MPI(MPI_Waitall(SEVERAL, s, MPI_STATUSES_IGNORE));
        for (int i = 0; i < SEVERAL; i++)
            for (int j = 0; j < 8; j++) CHECK_EQ(in[i][j], i * 100 + j + round);
    }
    int flag;
    MPI(MPI_Test(&plain, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 0);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    MPI(MPI_Send(&word, 1, MPI_INT, next, 9, MPI_COMM_WORLD));
    MPI(MPI_Wait(&plain, MPI_STATUS_IGNORE));
    CHECK_EQ(got, 77);
    for (int i = 0; i < SEVERAL; i++) {
        MPI(MPI_Request_free(&s[i]));
        MPI(MPI_Request_free(&r[i]));
    }
}

// A sender that is a round ahead overwrites nothing.
TEST(a_round_ahead) {
    static int out[300], in[300];
    MPI_Request s, r;
    MPI(MPI_Psend_init(out, 3, 100, MPI_INT, next, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &s));
    MPI(MPI_Precv_init(in, 3, 100, MPI_INT, prev, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &r));
    for (int round = 0; round < 5; round++) {
        if (round == 0) {
            MPI(MPI_Start(&s));
            for (int i = 0; i < 300; i++) out[i] = i;
            MPI(MPI_Pready_range(0, 2, s));
            MPI(MPI_Start(&r));
            MPI(MPI_Wait(&s, MPI_STATUS_IGNORE));
            MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
            continue;
        }
        MPI(MPI_Start(&s));
        for (int i = 0; i < 300; i++) out[i] = i + 1000 * round;
        MPI(MPI_Pready_range(0, 2, s));
        MPI(MPI_Barrier(MPI_COMM_WORLD));
        for (int i = 0; i < 300; i++)
            if (in[i] != i + 1000 * (round - 1)) CHECK_EQ(in[i], i + 1000 * (round - 1));
        MPI(MPI_Start(&r));
        MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
        MPI(MPI_Wait(&s, MPI_STATUS_IGNORE));
        for (int i = 0; i < 300; i++)
            if (in[i] != i + 1000 * round) CHECK_EQ(in[i], i + 1000 * round);
    }
    MPI(MPI_Request_free(&s));
    MPI(MPI_Request_free(&r));
}

TEST(nobody_and_nothing) {
    int word = 3, flag;
    MPI_Request s, r;
    MPI_Status st;
    MPI(MPI_Psend_init(&word, 1, 1, MPI_INT, MPI_PROC_NULL, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &s));
    MPI(MPI_Precv_init(&word, 1, 1, MPI_INT, MPI_PROC_NULL, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &r));
    for (int round = 0; round < 2; round++) {
        MPI(MPI_Start(&s));
        MPI(MPI_Start(&r));
        MPI(MPI_Pready(0, s));
        MPI(MPI_Parrived(r, 0, &flag));
        CHECK_EQ(flag, 1);
        MPI(MPI_Wait(&s, MPI_STATUS_IGNORE));
        MPI(MPI_Wait(&r, &st));
        CHECK_EQ(st.MPI_SOURCE, MPI_PROC_NULL);
        CHECK_EQ(st.MPI_TAG, MPI_ANY_TAG);
    }
    MPI(MPI_Request_free(&s));
    MPI(MPI_Request_free(&r));
    // Partitions without elements, and no partitions.
    for (int none = 0; none < 2; none++) {
        MPI(MPI_Psend_init(NULL, none ? 0 : 3, none ? 4 : 0, MPI_INT, next, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &s));
        MPI(MPI_Precv_init(NULL, 2, 0, MPI_INT, prev, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &r));
        for (int round = 0; round < 2; round++) {
            MPI(MPI_Start(&r));
            MPI(MPI_Start(&s));
            if (!none) {
                MPI(MPI_Parrived(r, 0, &flag));
                CHECK_EQ(flag, 0);
                MPI(MPI_Barrier(MPI_COMM_WORLD));
                MPI(MPI_Pready_range(0, 2, s));
            }
            MPI(MPI_Wait(&r, &st));
            MPI(MPI_Wait(&s, MPI_STATUS_IGNORE));
            int count;
            MPI(MPI_Get_count(&st, MPI_INT, &count));
            CHECK_EQ(count, 0);
        }
        MPI(MPI_Request_free(&s));
        MPI(MPI_Request_free(&r));
    }
}

// Every call that completes, and those that look.
TEST(completion) {
    static int out[40], in[40];
    MPI_Request q[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int flag, at, many, list[3];
    MPI_Status st;
    MPI(MPI_Psend_init(out, 4, 10, MPI_INT, next, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &q[0]));
    MPI(MPI_Precv_init(in, 4, 10, MPI_INT, prev, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &q[2]));
    // Inactive ones are complete and empty.
    MPI(MPI_Wait(&q[0], &st));
    CHECK_EQ(st.MPI_SOURCE, MPI_ANY_SOURCE);
    MPI(MPI_Waitany(3, q, &at, &st));
    CHECK_EQ(at, MPI_UNDEFINED);
    for (int how = 0; how < 4; how++) {
        for (int i = 0; i < 40; i++) out[i] = i + how, in[i] = -1;
        MPI(MPI_Start(&q[0]));
        MPI(MPI_Start(&q[2]));
        MPI(MPI_Test(&q[0], &flag, &st));
        CHECK_EQ(flag, 0);
        MPI(MPI_Pready_range(0, 3, q[0]));
        do MPI(MPI_Request_get_status(q[2], &flag, &st));
        while (!flag);
        MPI(MPI_Get_count(&st, MPI_INT, &many));
        CHECK_EQ(many, 40);
        switch (how) {
        case 0:
            do MPI(MPI_Testall(3, q, &flag, MPI_STATUSES_IGNORE));
            while (!flag);
            break;
        case 1:
            for (int i = 0; i < 2; i++) {
                MPI(MPI_Waitany(3, q, &at, &st));
                CHECK(at == 0 || at == 2);
            }
            break;
        case 2:
            for (int i = 0; i < 2; i += many) MPI(MPI_Waitsome(3, q, &many, list, MPI_STATUSES_IGNORE));
            break;
        default:
            for (int i = 0; i < 2; i += flag && at != MPI_UNDEFINED) MPI(MPI_Testany(3, q, &at, &flag, &st));
        }
        CHECK(q[0] != MPI_REQUEST_NULL && q[2] != MPI_REQUEST_NULL);
        for (int i = 0; i < 40; i++)
            if (in[i] != i + how) CHECK_EQ(in[i], i + how);
    }
    // Freed while active: it goes on.
    for (int i = 0; i < 40; i++) out[i] = 2 * i;
    MPI(MPI_Start(&q[0]));
    MPI(MPI_Start(&q[2]));
    MPI(MPI_Pready_range(0, 3, q[0]));
    MPI(MPI_Request_free(&q[0]));
    MPI(MPI_Wait(&q[2], MPI_STATUS_IGNORE));
    for (int i = 0; i < 40; i++)
        if (in[i] != 2 * i) CHECK_EQ(in[i], 2 * i);
    MPI(MPI_Request_free(&q[2]));
    MPI(MPI_Barrier(MPI_COMM_WORLD));
}

// Many megabytes, more than is sent unasked.
TEST(large) {
    enum { PARTS = 16, EACH = 100000 };
    double *out = calloc(PARTS * EACH, sizeof(double)), *in = calloc(PARTS * EACH, sizeof(double));
    MPI_Request q[2];
    MPI(MPI_Psend_init(out, PARTS, EACH, MPI_DOUBLE, next, 8, MPI_COMM_WORLD, MPI_INFO_NULL, &q[0]));
    MPI(MPI_Precv_init(in, PARTS / 2, EACH * 2, MPI_DOUBLE, prev, 8, MPI_COMM_WORLD, MPI_INFO_NULL, &q[1]));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < PARTS * EACH; i++) out[i] = i + round, in[i] = -1;
        MPI(MPI_Startall(2, q));
        for (int p = 0; p < PARTS; p++) MPI(MPI_Pready((p * 5 + 3) % PARTS, q[0]));
        MPI(MPI_Waitall(2, q, MPI_STATUSES_IGNORE));
        for (int i = 0; i < PARTS * EACH; i++)
            if (in[i] != i + round) {
                CHECK_EQ(in[i], i + round);
                break;
            }
    }
    for (int i = 0; i < 2; i++) MPI(MPI_Request_free(&q[i]));
    free(out), free(in);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    next = (check_rank + 1) % check_size, prev = (check_rank + check_size - 1) % check_size;
    RUN(each_partition_by_itself);
    RUN(numbers_differ);
    RUN(derived_types);
    RUN(in_order);
    RUN(a_round_ahead);
    RUN(nobody_and_nothing);
    RUN(completion);
    RUN(large);
    return check_done();
}
