// Windows: every way of making them, of synchronising, and every operation (MPI-5.0 sections 12.2, 12.3, 12.3.4, 12.5, 12.7, 7.7.3, 9.3).
#include "check.h"

enum { LONG = 50000 };

static MPI_Comm world = MPI_COMM_WORLD;

static int code_class(int code) {
    int class;
    MPI_Error_class(code, &class);
    return class;
}

#define REFUSED(call, want) CHECK_EQ(code_class(call), want)

static MPI_Win made(void *base, MPI_Aint bytes, int unit) {
    MPI_Win win;
    MPI(MPI_Win_create(base, bytes, unit, MPI_INFO_NULL, world, &win));
    MPI(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    return win;
}

// Everybody writes to and reads from the next one, short and long, between fences.
TEST(fence) {
    int me = check_rank, n = check_size, next = (me + 1) % n, before = (me + n - 1) % n;
    int *mem = calloc(LONG, sizeof(int)), *out = malloc(LONG * sizeof(int)), *in = calloc(LONG, sizeof(int));
    MPI_Win win = made(mem, LONG * sizeof(int), sizeof(int));
    for (int len = 1; len <= LONG; len = len < LONG && len * 7 > LONG ? LONG : len * 7) {
        for (int i = 0; i < len; i++) out[i] = me * 1000000 + len + i;
        MPI(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
        MPI(MPI_Put(out, len, MPI_INT, next, 0, len, MPI_INT, win));
        MPI(MPI_Win_fence(0, win));
        int wrong = 0;
        for (int i = 0; i < len; i++) wrong += mem[i] != before * 1000000 + len + i;
        CHECK_EQ(wrong, 0);
        MPI(MPI_Get(in, len, MPI_INT, next, 0, len, MPI_INT, win));
        MPI(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
        for (int i = 0; i < len; i++) wrong += in[i] != out[i];
        CHECK_EQ(wrong, 0);
        if (len == LONG) break;
    }
    MPI(MPI_Win_free(&win));
    CHECK(win == MPI_WIN_NULL);
    free(mem), free(out), free(in);
}

// Gaps at the origin, others at the target.
TEST(layouts) {
    int me = check_rank, n = check_size, next = (me + 1) % n, before = (me + n - 1) % n;
    enum { ROWS = 300 };
    static double mem[4 * ROWS], out[2 * ROWS], in[2 * ROWS];
    MPI_Datatype column, pairs;
    MPI(MPI_Type_vector(ROWS, 1, 4, MPI_DOUBLE, &column));
    MPI(MPI_Type_vector(ROWS, 1, 2, MPI_DOUBLE, &pairs));
    MPI(MPI_Type_commit(&column));
    MPI(MPI_Type_commit(&pairs));
    memset(mem, 0, sizeof mem);
    for (int i = 0; i < 2 * ROWS; i++) out[i] = me + i, in[i] = -1;
    MPI_Win win = made(mem, sizeof mem, sizeof(double));
    MPI(MPI_Win_fence(0, win));
    MPI(MPI_Put(out, 1, pairs, next, 1, 1, column, win));
    MPI(MPI_Accumulate(out, 1, pairs, next, 2, 1, column, MPI_SUM, win));
    MPI(MPI_Win_fence(0, win));
    MPI(MPI_Get(in, ROWS, MPI_DOUBLE, next, 1, 1, column, win));
    MPI(MPI_Win_fence(0, win));
    for (int i = 0; i < ROWS; i++) {
        CHECK(mem[4 * i] == 0 && mem[4 * i + 1] == before + 2 * i && mem[4 * i + 2] == before + 2 * i && mem[4 * i + 3] == 0);
        CHECK(in[i] == out[2 * i]);
    }
    MPI(MPI_Type_free(&column));
    MPI(MPI_Type_free(&pairs));
    MPI(MPI_Win_free(&win));
}

// All count on rank 0's words, with every operation, and nothing gets lost.
TEST(atomics) {
    int n = check_size, me = check_rank;
    long *mem;
    MPI_Win win;
    MPI(MPI_Win_allocate(8 * sizeof(long), sizeof(long), MPI_INFO_NULL, world, &mem, &win));
    MPI(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 100; i++) {
        long one = 1, old = -1, none = 0;
        MPI(MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 0, MPI_SUM, win));
        MPI(MPI_Win_flush(0, win));
        CHECK(old >= 0 && old < 100 * n);
        MPI(MPI_Accumulate(&one, 1, MPI_LONG, 0, 1, 1, MPI_LONG, MPI_SUM, win));
        MPI(MPI_Get_accumulate(&one, 1, MPI_LONG, &old, 1, MPI_LONG, 0, 2, 1, MPI_LONG, MPI_SUM, win));
        MPI(MPI_Win_flush_local(0, win));
        // Add one by compare and swap.
        long seen = none, want;
        do {
            want = seen;
            one = want + 1;
            MPI(MPI_Compare_and_swap(&one, &want, &seen, MPI_LONG, 0, 3, win));
            MPI(MPI_Win_flush(0, win));
        } while (seen != want);
        MPI(MPI_Fetch_and_op(NULL, &old, MPI_LONG, 0, 3, MPI_NO_OP, win));
        MPI(MPI_Win_flush_all(win));
        CHECK(old > want);
    }
    MPI(MPI_Win_unlock_all(win));
    MPI(MPI_Barrier(world));
    if (me == 0)
        for (int i = 0; i < 4; i++) CHECK_EQ(mem[i], 100 * n);
    struct {
        double value;
        int rank;
    } *pairs = (void *)(mem + 4), mine = {me * 1.5, me};
    if (me == 0) pairs->value = -1, pairs->rank = -1;
    MPI(MPI_Win_fence(0, win));
    MPI(MPI_Accumulate(&mine, 1, MPI_DOUBLE_INT, 0, 4, 1, MPI_DOUBLE_INT, MPI_MAXLOC, win));
    MPI(MPI_Win_fence(0, win));
    if (me == 0) CHECK(pairs->value == (n - 1) * 1.5 && pairs->rank == n - 1);
    MPI(MPI_Win_free(&win));
}

// Long accumulates, and their order from one origin.
TEST(accumulates) {
    int n = check_size, me = check_rank;
    static int mem[20000], one[20000], old[20000];
    for (int i = 0; i < 20000; i++) mem[i] = 0, one[i] = i;
    MPI_Win win = made(mem, sizeof mem, sizeof(int));
    MPI(MPI_Win_fence(0, win));
    MPI(MPI_Accumulate(one, 20000, MPI_INT, n - 1, 0, 20000, MPI_INT, MPI_SUM, win));
    MPI(MPI_Win_fence(0, win));
    if (me == n - 1)
        for (int i = 0; i < 20000; i += 777) CHECK_EQ(mem[i], i * n);
    MPI(MPI_Win_fence(0, win));
    if (me == 0) {
        MPI(MPI_Accumulate(one, 20000, MPI_INT, n - 1, 0, 20000, MPI_INT, MPI_REPLACE, win));
        MPI(MPI_Get_accumulate(one, 20000, MPI_INT, old, 20000, MPI_INT, n - 1, 0, 20000, MPI_INT, MPI_PROD, win));
    }
    MPI(MPI_Win_fence(0, win));
    if (me == 0)
        for (int i = 0; i < 20000; i += 777) CHECK_EQ(old[i], i);
    if (me == n - 1)
        for (int i = 0; i < 20000; i += 777) CHECK_EQ(mem[i], i * i);
    MPI(MPI_Win_free(&win));
}

// A counter under an exclusive lock, read and written.
TEST(locks) {
    int n = check_size, me = check_rank;
    int *mem;
    MPI_Win win;
    MPI(MPI_Win_allocate(sizeof(int), 1, MPI_INFO_NULL, world, &mem, &win));
    for (int i = 0; i < 30; i++) {
        int target = i % n, value;
        MPI(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win));
        MPI(MPI_Get(&value, 1, MPI_INT, target, 0, 1, MPI_INT, win));
        MPI(MPI_Win_flush(target, win));
        value++;
        MPI(MPI_Put(&value, 1, MPI_INT, target, 0, 1, MPI_INT, win));
        MPI(MPI_Win_unlock(target, win));
    }
    MPI(MPI_Barrier(world));
    int mine, sum;
    MPI(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, win));
    mine = *mem;
    MPI(MPI_Win_unlock(me, win));
    MPI(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, world));
    CHECK_EQ(sum, 30 * n);
    MPI(MPI_Win_free(&win));
}

TEST(requests) {
    int n = check_size, me = check_rank, next = (me + 1) % n;
    static int mem[LONG], out[LONG], in[LONG];
    MPI_Request r[4];
    MPI_Win win = made(mem, sizeof mem, sizeof(int));
    for (int i = 0; i < LONG; i++) mem[i] = 0, out[i] = me + i;
    MPI(MPI_Barrier(world));
    MPI(MPI_Win_lock_all(0, win));
    MPI(MPI_Rput(out, LONG, MPI_INT, next, 0, LONG, MPI_INT, win, &r[0]));
    MPI(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
    MPI(MPI_Win_flush(next, win));
    MPI(MPI_Rget(in, LONG, MPI_INT, next, 0, LONG, MPI_INT, win, &r[0]));
    MPI(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
    CHECK(memcmp(in, out, sizeof in) == 0);
    int one = 1, old = -1;
    MPI(MPI_Raccumulate(&one, 1, MPI_INT, next, 3, 1, MPI_INT, MPI_SUM, win, &r[1]));
    MPI(MPI_Rget_accumulate(&one, 1, MPI_INT, &old, 1, MPI_INT, next, 3, 1, MPI_INT, MPI_SUM, win, &r[2]));
    MPI(MPI_Rput(&one, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win, &r[3]));
    MPI(MPI_Win_unlock_all(win));
    // Also behind the epoch.
    MPI(MPI_Waitall(3, r + 1, MPI_STATUSES_IGNORE));
    CHECK_EQ(old, me + 4);
    MPI(MPI_Win_free(&win));
}

TEST(post_and_start) {
    int n = check_size, me = check_rank, next = (me + 1) % n, before = (me + n - 1) % n;
    int mem = -1;
    MPI_Group all, to, from, none;
    MPI_Win win = made(&mem, sizeof mem, 1);
    MPI(MPI_Win_get_group(win, &all));
    MPI(MPI_Group_incl(all, 1, &next, &to));
    MPI(MPI_Group_incl(all, 1, &before, &from));
    MPI(MPI_Group_incl(all, 0, NULL, &none));
    for (int i = 0; i < 20; i++) {
        int value = me * 100 + i, flag = 0;
        MPI(MPI_Win_post(from, 0, win));
        MPI(MPI_Win_start(to, 0, win));
        MPI(MPI_Put(&value, 1, MPI_INT, next, 0, 1, MPI_INT, win));
        MPI(MPI_Win_complete(win));
        if (i % 2)
            MPI(MPI_Win_wait(win));
        else
            while (!flag) MPI(MPI_Win_test(win, &flag));
        CHECK_EQ(mem, before * 100 + i);
    }
    MPI(MPI_Win_post(none, 0, win));
    MPI(MPI_Win_start(none, 0, win));
    MPI(MPI_Win_complete(win));
    MPI(MPI_Win_wait(win));
    REFUSED(MPI_Win_wait(win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
    MPI(MPI_Group_free(&all));
    MPI(MPI_Group_free(&to));
    MPI(MPI_Group_free(&from));
    MPI(MPI_Win_free(&win));
}

TEST(dynamic) {
    int n = check_size, me = check_rank, next = (me + 1) % n, before = (me + n - 1) % n;
    static int mem[100], far[100];
    MPI_Win win;
    MPI(MPI_Win_create_dynamic(MPI_INFO_NULL, world, &win));
    MPI(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    MPI(MPI_Win_attach(win, mem, sizeof mem));
    REFUSED(MPI_Win_attach(win, mem, sizeof mem), MPI_ERR_RMA_ATTACH);
    REFUSED(MPI_Win_detach(win, mem + 1), MPI_ERR_RMA_ATTACH);
    MPI_Aint at, theirs;
    MPI(MPI_Get_address(mem, &at));
    MPI(MPI_Sendrecv(&at, 1, MPI_AINT, before, 0, &theirs, 1, MPI_AINT, next, 0, world, MPI_STATUS_IGNORE));
    MPI(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, win));
    MPI(MPI_Put(&me, 1, MPI_INT, next, MPI_Aint_add(theirs, 7 * sizeof(int)), 1, MPI_INT, win));
    MPI(MPI_Win_unlock(next, win));
    MPI(MPI_Barrier(world));
    CHECK_EQ(mem[7], before);
    // What is not attached is said at the next synchronisation.
    MPI(MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win));
    MPI(MPI_Put(&me, 1, MPI_INT, next, MPI_Aint_add(theirs, sizeof mem + sizeof far + 4096), 1, MPI_INT, win));
    REFUSED(MPI_Win_unlock(next, win), MPI_ERR_RMA_RANGE);
    MPI(MPI_Barrier(world));
    MPI(MPI_Win_detach(win, mem));
    MPI(MPI_Win_free(&win));
}

TEST(shared) {
    MPI_Comm host;
    int me, n;
    MPI(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
    MPI(MPI_Comm_rank(host, &me));
    MPI(MPI_Comm_size(host, &n));
    int *mine, *first, unit;
    MPI_Aint size;
    MPI_Win win;
    MPI(MPI_Win_allocate_shared(me == 0 ? 0 : 10 * sizeof(int), sizeof(int), MPI_INFO_NULL, host, &mine, &win));
    MPI(MPI_Win_lock_all(MPI_MODE_NOCHECK, win));
    for (int i = 0; me > 0 && i < 10; i++) mine[i] = me * 10 + i;
    MPI(MPI_Win_sync(win));
    MPI(MPI_Barrier(host));
    MPI(MPI_Win_sync(win));
    MPI(MPI_Win_shared_query(win, MPI_PROC_NULL, &size, &unit, &first));
    CHECK_EQ(size, n > 1 ? 10 * sizeof(int) : 0);
    // One rank's part follows the other's.
    for (int i = 0; i < 10 * (n - 1); i++) CHECK_EQ(first[i], 10 + i);
    for (int r = 1; r < n; r++) {
        int *part, value = 0;
        MPI(MPI_Win_shared_query(win, r, &size, &unit, &part));
        CHECK_EQ(unit, sizeof(int));
        CHECK(part == first + 10 * (r - 1));
        MPI(MPI_Get(&value, 1, MPI_INT, r, 3, 1, MPI_INT, win));
        MPI(MPI_Win_flush(r, win));
        CHECK_EQ(value, r * 10 + 3);
    }
    MPI(MPI_Win_unlock_all(win));
    MPI(MPI_Win_free(&win));
    MPI(MPI_Comm_free(&host));
}

static int deleted;
static int delete_fn(MPI_Win win, int key, void *value, void *extra) {
    (void)win, (void)key, (void)extra;
    deleted = deleted * 10 + *(int *)value;
    return MPI_SUCCESS;
}
static int handled;
static void handler(MPI_Win *win, int *code, ...) {
    (void)win;
    handled = code_class(*code);
}

TEST(objects) {
    double mem[4];
    char name[MPI_MAX_OBJECT_NAME];
    int len, flag, key[2], values[2] = {1, 2};
    void *value;
    MPI_Info info;
    MPI_Errhandler eh, got;
    MPI(MPI_Info_create(&info));
    MPI(MPI_Info_set(info, "no_locks", "true"));
    MPI(MPI_Info_set(info, "unknown", "thing"));
    MPI_Win win;
    MPI(MPI_Win_create(mem, sizeof mem, sizeof(double), info, world, &win));
    MPI(MPI_Info_free(&info));
    MPI(MPI_Win_get_name(win, name, &len));
    CHECK_EQ(len, 0);
    MPI(MPI_Win_set_name(win, "here"));
    MPI(MPI_Win_get_name(win, name, &len));
    CHECK_STR(name, "here");
    MPI(MPI_Win_get_info(win, &info));
    MPI(MPI_Info_get(info, "no_locks", 63, name, &flag));
    CHECK(flag && strcmp(name, "true") == 0);
    MPI(MPI_Info_get(info, "unknown", 63, name, &flag));
    CHECK(!flag);
    MPI(MPI_Info_free(&info));
    MPI(MPI_Win_get_attr(win, MPI_WIN_BASE, &value, &flag));
    CHECK(flag && value == mem);
    MPI(MPI_Win_get_attr(win, MPI_WIN_SIZE, &value, &flag));
    CHECK(flag && *(MPI_Aint *)value == sizeof mem);
    MPI(MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &value, &flag));
    CHECK(flag && *(int *)value == sizeof(double));
    MPI(MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &value, &flag));
    CHECK(flag && *(int *)value == MPI_WIN_FLAVOR_CREATE);
    MPI(MPI_Win_get_attr(win, MPI_WIN_MODEL, &value, &flag));
    CHECK(flag && *(int *)value == MPI_WIN_UNIFIED);
    for (int i = 0; i < 2; i++) {
        MPI(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, delete_fn, &key[i], NULL));
        MPI(MPI_Win_set_attr(win, key[i], &values[i]));
    }
    MPI(MPI_Win_get_attr(win, key[1], &value, &flag));
    CHECK(flag && value == &values[1]);
    MPI(MPI_Win_create_errhandler(handler, &eh));
    MPI(MPI_Win_get_errhandler(win, &got));
    CHECK(got == MPI_ERRORS_ARE_FATAL);
    MPI(MPI_Win_set_errhandler(win, eh));
    MPI(MPI_Errhandler_free(&eh));
    REFUSED(MPI_Put(mem, 1, MPI_DOUBLE, 0, 0, 1, MPI_DOUBLE, win), MPI_ERR_RMA_SYNC);
    CHECK_EQ(handled, MPI_ERR_RMA_SYNC);
    MPI(MPI_Win_call_errhandler(win, MPI_ERR_OTHER));
    CHECK_EQ(handled, MPI_ERR_OTHER);
    CHECK(MPI_Win_fromint(MPI_Win_toint(win)) == win);
    MPI(MPI_Win_free(&win));
    CHECK_EQ(deleted, 21);
    for (int i = 0; i < 2; i++) MPI(MPI_Win_free_keyval(&key[i]));
}

// Each rule of epochs and each argument, with its class; the window works afterwards.
TEST(refused) {
    int mem[4] = {0}, n = check_size, me = check_rank;
    MPI_Win win = made(mem, sizeof mem, sizeof(int));
    REFUSED(MPI_Put(mem, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_unlock(0, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_flush(0, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_flush_all(win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_lock(99, 0, 0, win), MPI_ERR_LOCKTYPE);
    REFUSED(MPI_Win_lock(MPI_LOCK_SHARED, n, 0, win), MPI_ERR_RANK);
    REFUSED(MPI_Win_lock(MPI_LOCK_SHARED, 0, 1, win), MPI_ERR_ASSERT);
    REFUSED(MPI_Win_fence(MPI_MODE_NOCHECK, win), MPI_ERR_ASSERT);
    MPI(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, win));
    REFUSED(MPI_Win_lock(MPI_LOCK_SHARED, me, 0, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_start(MPI_GROUP_EMPTY, 0, win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Win_free(&win), MPI_ERR_RMA_SYNC);
    REFUSED(MPI_Put(mem, 1, MPI_INT, me, 4, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
    REFUSED(MPI_Put(mem, 1, MPI_INT, me, -1, 1, MPI_INT, win), MPI_ERR_DISP);
    REFUSED(MPI_Put(mem, -1, MPI_INT, me, 0, 1, MPI_INT, win), MPI_ERR_COUNT);
    REFUSED(MPI_Put(mem, 1, MPI_DATATYPE_NULL, me, 0, 1, MPI_INT, win), MPI_ERR_TYPE);
    REFUSED(MPI_Put(mem, 1, MPI_INT, n, 0, 1, MPI_INT, win), MPI_ERR_RANK);
    REFUSED(MPI_Accumulate(mem, 1, MPI_INT, me, 0, 1, MPI_INT, MPI_NO_OP, win), MPI_ERR_OP);
    REFUSED(MPI_Accumulate(mem, 1, MPI_INT, me, 0, 1, MPI_FLOAT, MPI_SUM, win), MPI_ERR_TYPE);
    REFUSED(MPI_Compare_and_swap(mem, mem + 1, mem + 2, MPI_FLOAT, me, 0, win), MPI_ERR_TYPE);
    MPI(MPI_Put(NULL, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win));
    MPI(MPI_Win_unlock(me, win));
    MPI(MPI_Win_lock(MPI_LOCK_SHARED, MPI_PROC_NULL, 0, win));
    MPI(MPI_Win_flush(MPI_PROC_NULL, win));
    MPI(MPI_Win_unlock(MPI_PROC_NULL, win));
    MPI(MPI_Win_fence(0, win));
    // A fence without operations opens no epoch that would forbid a lock.
    MPI(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    MPI(MPI_Win_unlock(0, win));
    MPI(MPI_Win_fence(0, win));
    MPI(MPI_Put(&me, 1, MPI_INT, me, 1, 1, MPI_INT, win));
    REFUSED(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_ERR_RMA_SYNC);
    MPI(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    CHECK_EQ(mem[1], me);
    REFUSED(MPI_Win_attach(win, mem, 4), MPI_ERR_RMA_FLAVOR);
    MPI(MPI_Win_free(&win));
    REFUSED(MPI_Win_fence(0, MPI_WIN_NULL), MPI_ERR_WIN);
    REFUSED(MPI_Win_create(mem, 4, 0, MPI_INFO_NULL, MPI_COMM_SELF, &win), MPI_ERR_ARG);
    REFUSED(MPI_Win_create(mem, -4, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win), MPI_ERR_SIZE);
    CHECK(win == MPI_WIN_NULL);
}

// More memory than the machine has is refused at all ranks, and not missed when it is used.
TEST(too_large) {
    MPI_Comm host;
    MPI(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
    MPI(MPI_Comm_set_errhandler(host, MPI_ERRORS_RETURN));
    MPI(MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN));
    for (int bits = 45; bits < 63; bits += 5) {
        MPI_Aint bytes = (MPI_Aint)1 << bits;
        void *base;
        MPI_Win win;
        REFUSED(MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, host, &base, &win), MPI_ERR_NO_MEM);
        REFUSED(MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, world, &base, &win), MPI_ERR_NO_MEM);
    }
    MPI(MPI_Comm_free(&host));
    MPI(MPI_Comm_set_errhandler(world, MPI_ERRORS_ARE_FATAL));
}

// Targets that are in another call, of messages or of another window, serve all the same.
TEST(crossing) {
    int n = check_size, me = check_rank, one = 1;
    int *mem[2];
    MPI_Win win[2];
    for (int i = 0; i < 2; i++) MPI(MPI_Win_allocate(sizeof(int), 1, MPI_INFO_NULL, world, &mem[i], &win[i]));
    for (int round = 0; round < 20; round++) {
        MPI_Win mine = win[(me + round) % 2];
        int target = (me + 1 + round) % n;
        MPI(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, mine));
        MPI(MPI_Accumulate(&one, 1, MPI_INT, target, 0, 1, MPI_INT, MPI_SUM, mine));
        MPI(MPI_Win_unlock(target, mine));
    }
    int sum, both;
    MPI(MPI_Barrier(world));
    both = *mem[0] + *mem[1];
    MPI(MPI_Allreduce(&both, &sum, 1, MPI_INT, MPI_SUM, world));
    CHECK_EQ(sum, 20 * n);
    for (int i = 0; i < 2; i++) MPI(MPI_Win_free(&win[i]));
}

// The last rank calls nothing until it sees what the others have done to its memory.
TEST(target_computes) {
    const char *thread = getenv("FARPOST_PROGRESS_THREAD");
    if (thread && strcmp(thread, "0") == 0) return;
    int n = check_size, me = check_rank, target = n - 1, one = 1, old;
    int own = 0, *given;
    MPI_Win win[2];
    MPI(MPI_Win_allocate(sizeof(int), 1, MPI_INFO_NULL, world, &given, &win[0]));
    MPI(MPI_Win_create(&own, sizeof own, 1, MPI_INFO_NULL, world, &win[1]));
    *given = 0;
    for (int i = 0; i < 2; i++) {
        volatile int *word = i == 0 ? given : &own;
        MPI(MPI_Barrier(world));
        if (me == target) {
            while (*word != 2 * (n - 1)) usleep(100);
        } else {
            MPI(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win[i]));
            MPI(MPI_Fetch_and_op(&one, &old, MPI_INT, target, 0, MPI_SUM, win[i]));
            MPI(MPI_Win_flush(target, win[i]));
            old += 2;
            MPI(MPI_Put(&old, 1, MPI_INT, target, 0, 1, MPI_INT, win[i]));
            MPI(MPI_Win_unlock(target, win[i]));
        }
    }
    for (int i = 0; i < 2; i++) MPI(MPI_Win_free(&win[i]));
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    RUN(fence);
    RUN(layouts);
    RUN(atomics);
    RUN(accumulates);
    RUN(locks);
    RUN(requests);
    RUN(post_and_start);
    RUN(dynamic);
    RUN(shared);
    RUN(objects);
    RUN(refused);
    RUN(too_large);
    RUN(crossing);
    RUN(target_computes);
    return check_done();
}
