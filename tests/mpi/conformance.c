// ranks: 1 2 3
// Rules of the standard that programs lean on at the edges: attributes under freed keys, transfers with nobody, operations on
// MPI's own integers, handles after an error, buffers that overlap.
// Requirements of MPI-5.0 sections 3.10, 3.11, 5.1.12, 6.1, 6.9.2, 6.9.7, 7.7.2, 7.7.4, 9.3.
#include "check.h"

// ---- 7.7.2: a freed key serves until the last attribute under it has gone.

static int copies, deletes;
static int copy_comm(MPI_Comm c, int key, void *extra, void *in, void *out, int *flag) {
    (void)c, (void)key, (void)extra;
    *(void **)out = in;
    *flag = 1;
    copies++;
    return MPI_SUCCESS;
}
static int delete_comm(MPI_Comm c, int key, void *value, void *extra) {
    (void)c, (void)key, (void)value, (void)extra;
    deletes++;
    return MPI_SUCCESS;
}
static int copy_type(MPI_Datatype t, int key, void *extra, void *in, void *out, int *flag) {
    (void)t;
    return copy_comm(MPI_COMM_NULL, key, extra, in, out, flag);
}
static int delete_type(MPI_Datatype t, int key, void *value, void *extra) {
    (void)t;
    return delete_comm(MPI_COMM_NULL, key, value, extra);
}

TEST(freed_keys_of_communicators) {
    int key, copy, flag, one, two;
    void *value = NULL;
    MPI_Comm dup, again;
    copies = deletes = 0;
    MPI(MPI_Comm_create_keyval(copy_comm, delete_comm, &key, NULL));
    MPI(MPI_Comm_dup(MPI_COMM_SELF, &dup));
    MPI(MPI_Comm_set_attr(dup, key, &one));
    copy = key;
    MPI(MPI_Comm_free_keyval(&key));
    CHECK_EQ(key, MPI_KEYVAL_INVALID);
    MPI(MPI_Comm_get_attr(dup, copy, &value, &flag));
    CHECK(flag && value == &one);
    MPI(MPI_Comm_get_attr(MPI_COMM_SELF, copy, &value, &flag));
    CHECK(!flag);
    MPI(MPI_Comm_set_attr(dup, copy, &two)); // the first value goes
    CHECK_EQ(deletes, 1);
    MPI(MPI_Comm_dup(dup, &again));
    CHECK_EQ(copies, 1);
    MPI(MPI_Comm_delete_attr(dup, copy));
    CHECK_EQ(deletes, 2);
    MPI(MPI_Comm_get_attr(again, copy, &value, &flag)); // the copy still holds the key
    CHECK(flag && value == &two);
    MPI(MPI_Comm_set_attr(dup, copy, &one));
    MPI(MPI_Comm_free(&dup));
    MPI(MPI_Comm_free(&again));
    CHECK_EQ(deletes, 4);
    MPI_FAILS(MPI_Comm_get_attr(MPI_COMM_SELF, copy, &value, &flag), MPI_ERR_KEYVAL);
    MPI_FAILS(MPI_Comm_delete_attr(MPI_COMM_SELF, copy), MPI_ERR_KEYVAL);
}

TEST(freed_keys_of_datatypes) {
    int key, copy, flag, one;
    void *value = NULL;
    MPI_Datatype type, dup;
    copies = deletes = 0;
    MPI(MPI_Type_create_keyval(copy_type, delete_type, &key, NULL));
    MPI(MPI_Type_contiguous(3, MPI_INT, &type));
    MPI(MPI_Type_set_attr(type, key, &one));
    copy = key;
    MPI(MPI_Type_free_keyval(&key));
    MPI(MPI_Type_dup(type, &dup));
    CHECK_EQ(copies, 1);
    MPI(MPI_Type_get_attr(dup, copy, &value, &flag));
    CHECK(flag && value == &one);
    MPI(MPI_Type_set_attr(MPI_INT, copy, &one));
    MPI(MPI_Type_delete_attr(MPI_INT, copy));
    MPI(MPI_Type_delete_attr(type, copy));
    MPI(MPI_Type_free(&type));
    MPI(MPI_Type_free(&dup));
    CHECK_EQ(deletes, 3);
    MPI_FAILS(MPI_Type_get_attr(MPI_INT, copy, &value, &flag), MPI_ERR_KEYVAL);
    MPI_FAILS(MPI_Comm_get_attr(MPI_COMM_SELF, copy, &value, &flag), MPI_ERR_KEYVAL);
}

// ---- 3.11: a transfer with MPI_PROC_NULL looks at no buffer, count or datatype.

static void is_nobody(int line, const MPI_Status *st) {
    int n = -1;
    MPI_Get_count(st, MPI_BYTE, &n);
    if (st->MPI_SOURCE != MPI_PROC_NULL || st->MPI_TAG != MPI_ANY_TAG || n != 0)
        check_fail(__FILE__, line, "status of %d, tag %d, count %d", st->MPI_SOURCE, st->MPI_TAG, n);
}
#define NOBODY(st) is_nobody(__LINE__, &(st))
enum { NO = MPI_PROC_NULL };
#define NIL NULL, -5, MPI_DATATYPE_NULL
#define W MPI_COMM_WORLD

TEST(nobody) {
    MPI_Request r;
    MPI_Status st;
    MPI_Message m;
    MPI_Datatype raw;
    int flag = 0, x = 7, y = -1;
    MPI(MPI_Type_contiguous(2, MPI_INT, &raw)); // not committed
    MPI(MPI_Send(NIL, NO, 0, W));
    MPI(MPI_Send(&x, 1, raw, NO, 0, W));
    MPI(MPI_Ssend(NIL, NO, 0, W));
    MPI(MPI_Bsend(NIL, NO, 0, W));
    MPI(MPI_Rsend(NIL, NO, 0, W));
    MPI(MPI_Send_c(NIL, NO, 0, W));
    MPI(MPI_Recv(NIL, NO, MPI_ANY_TAG, W, &st));
    NOBODY(st);
    MPI(MPI_Recv(&x, 1, raw, NO, 5, W, &st));
    NOBODY(st);
    MPI_Request all[5];
    MPI(MPI_Isend(NIL, NO, 0, W, &all[0]));
    MPI(MPI_Issend(NIL, NO, 0, W, &all[1]));
    MPI(MPI_Ibsend(NIL, NO, 0, W, &all[2]));
    MPI(MPI_Irsend(NIL, NO, 0, W, &all[3]));
    MPI(MPI_Irecv(NIL, NO, 0, W, &all[4]));
    MPI_Status sts[5];
    MPI(MPI_Waitall(5, all, sts));
    NOBODY(sts[4]);
    MPI(MPI_Send_init(NIL, NO, 0, W, &all[0]));
    MPI(MPI_Ssend_init(NIL, NO, 0, W, &all[1]));
    MPI(MPI_Bsend_init(NIL, NO, 0, W, &all[2]));
    MPI(MPI_Rsend_init(NIL, NO, 0, W, &all[3]));
    MPI(MPI_Recv_init(NIL, NO, 0, W, &all[4]));
    for (int i = 0; i < 3; i++) {
        MPI(MPI_Startall(5, all));
        MPI(MPI_Waitall(5, all, sts));
        NOBODY(sts[4]);
    }
    for (int i = 0; i < 5; i++) MPI(MPI_Request_free(&all[i]));
    // One side with nobody: the other is as ever.
    MPI(MPI_Sendrecv(NIL, NO, 0, NIL, NO, 0, W, &st));
    NOBODY(st);
    MPI(MPI_Isend(&x, 1, MPI_INT, check_rank, 3, W, &r));
    MPI(MPI_Sendrecv(NIL, NO, 0, &y, 1, MPI_INT, check_rank, 3, W, &st));
    CHECK_EQ(y, 7);
    CHECK_EQ(st.MPI_SOURCE, check_rank);
    MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
    y = -1;
    MPI(MPI_Irecv(&y, 1, MPI_INT, check_rank, 4, W, &r));
    MPI(MPI_Sendrecv(&x, 1, MPI_INT, check_rank, 4, NIL, NO, 0, W, &st));
    NOBODY(st);
    MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
    CHECK_EQ(y, 7);
    MPI(MPI_Isendrecv(NIL, NO, 0, NIL, NO, 0, W, &r));
    MPI(MPI_Wait(&r, &st));
    NOBODY(st);
    MPI(MPI_Sendrecv_replace(NIL, NO, 0, NO, 0, W, &st));
    NOBODY(st);
    MPI(MPI_Isendrecv_replace(NIL, NO, 0, NO, 0, W, &r));
    MPI(MPI_Wait(&r, &st));
    NOBODY(st);
    MPI_FAILS(MPI_Sendrecv(NIL, check_rank, 0, NIL, NO, 0, W, &st), MPI_ERR_TYPE);
    MPI(MPI_Probe(NO, 3, W, &st));
    NOBODY(st);
    MPI(MPI_Iprobe(NO, 3, W, &flag, &st));
    CHECK(flag);
    NOBODY(st);
    MPI(MPI_Mprobe(NO, 3, W, &m, &st));
    CHECK(m == MPI_MESSAGE_NO_PROC);
    MPI(MPI_Mrecv(NIL, &m, &st));
    CHECK(m == MPI_MESSAGE_NULL);
    NOBODY(st);
    MPI(MPI_Improbe(NO, 3, W, &flag, &m, &st));
    CHECK(flag && m == MPI_MESSAGE_NO_PROC);
    MPI(MPI_Imrecv(NIL, &m, &r));
    MPI(MPI_Wait(&r, &st));
    NOBODY(st);
    MPI(MPI_Type_free(&raw));
}

// ---- 6.9.2: operations on MPI's own integers.

#define ON_OWN(type, ctype)                                                                                                      \
    do {                                                                                                                         \
        ctype a = check_rank == 0 ? 6 : 3, v = -1;                                                                               \
        const int more = check_size > 1;                                                                                         \
        MPI(MPI_Allreduce(&a, &v, 1, type, MPI_BAND, W));                                                                        \
        CHECK_EQ(v, more ? 2 : 6);                                                                                               \
        MPI(MPI_Allreduce(&a, &v, 1, type, MPI_BOR, W));                                                                         \
        CHECK_EQ(v, more ? 7 : 6);                                                                                               \
        MPI(MPI_Allreduce(&a, &v, 1, type, MPI_LAND, W));                                                                        \
        CHECK_EQ(v, more ? 1 : 6);                                                                                               \
        a = check_rank == 0;                                                                                                     \
        MPI(MPI_Allreduce(&a, &v, 1, type, MPI_LOR, W));                                                                         \
        CHECK_EQ(v, 1);                                                                                                          \
        MPI(MPI_Allreduce(&a, &v, 1, type, MPI_LXOR, W));                                                                        \
        CHECK_EQ(v, 1);                                                                                                          \
        MPI(MPI_Allreduce(&a, &v, 1, type, MPI_LAND, W));                                                                        \
        CHECK_EQ(v, !more);                                                                                                      \
        MPI(MPI_Allreduce(&a, &v, 1, type, MPI_BXOR, W));                                                                        \
        CHECK_EQ(v, 1);                                                                                                          \
    } while (0)

TEST(operations_on_own_integers) {
    ON_OWN(MPI_AINT, MPI_Aint);
    ON_OWN(MPI_OFFSET, MPI_Offset);
    ON_OWN(MPI_COUNT, MPI_Count);
    // Not asked for by the standard, but used.
    ON_OWN(MPI_CHAR, char);
    char low = (char)check_rank, high = -1;
    MPI(MPI_Allreduce(&low, &high, 1, MPI_CHAR, MPI_MAX, W));
    CHECK_EQ(high, check_size - 1);
}

// ---- Handles that a failed call was to give are null (Farpost; the standard leaves them open).

#ifdef FARPOST
#define JUNK(type) ((type)0x7eadbee0)
#define NULLED(type, null, call_of_h)                                                                                            \
    do {                                                                                                                         \
        type h = JUNK(type);                                                                                                     \
        const int code_ = (call_of_h);                                                                                           \
        if (code_ == MPI_SUCCESS) check_fail(__FILE__, __LINE__, "%s succeeded", #call_of_h);                                    \
        if (h != null) check_fail(__FILE__, __LINE__, "%s: the handle is not " #null, #call_of_h);                               \
    } while (0)
#define NR(call) NULLED(MPI_Request, MPI_REQUEST_NULL, call)
#define NC(call) NULLED(MPI_Comm, MPI_COMM_NULL, call)
#define NT(call) NULLED(MPI_Datatype, MPI_DATATYPE_NULL, call)
#define NG(call) NULLED(MPI_Group, MPI_GROUP_NULL, call)

TEST(handles_after_errors) {
    int x = 0, y = 0, one[1] = {1}, minus[1] = {-1};
    MPI_Aint at[1] = {0};
    MPI_Datatype types[3] = {MPI_INT, MPI_DATATYPE_NULL, MPI_INT};
    NR(MPI_Isend(&x, 1, MPI_INT, check_size, 0, W, &h));
    NR(MPI_Irecv(&x, 1, MPI_DATATYPE_NULL, 0, 0, W, &h));
    NR(MPI_Issend(&x, -1, MPI_INT, 0, 0, W, &h));
    NR(MPI_Send_init(&x, 1, MPI_INT, 0, -1, W, &h));
    NR(MPI_Recv_init(&x, 1, MPI_INT, -20, 0, W, &h));
    NR(MPI_Ibarrier(MPI_COMM_NULL, &h));
    NR(MPI_Ibcast(&x, 1, MPI_INT, check_size, W, &h));
    NR(MPI_Iallreduce(&x, &y, 1, MPI_INT, MPI_OP_NULL, W, &h));
    NR(MPI_Allreduce_init(&x, &y, 1, MPI_INT, MPI_OP_NULL, W, MPI_INFO_NULL, &h));
    NR(MPI_Ineighbor_allgather(&x, 1, MPI_INT, &y, 1, MPI_INT, W, &h));
    NR(MPI_Grequest_start(NULL, NULL, NULL, NULL, &h));
    NULLED(MPI_Message, MPI_MESSAGE_NULL, MPI_Mprobe(check_size, 0, W, &h, MPI_STATUS_IGNORE));
    NC(MPI_Comm_dup(MPI_COMM_NULL, &h));
    NC(MPI_Comm_split(W, -7, 0, &h));
    NC(MPI_Comm_create(W, MPI_GROUP_NULL, &h));
    NC(MPI_Comm_create_group(W, MPI_GROUP_NULL, 0, &h));
    NC(MPI_Comm_split_type(W, 12345, 0, MPI_INFO_NULL, &h));
    NC(MPI_Intercomm_merge(W, 0, &h));
    NC(MPI_Cart_create(W, 1, minus, one, 0, &h));
    NC(MPI_Cart_sub(W, one, &h));
    NC(MPI_Comm_connect("nowhere", MPI_INFO_NULL, 0, W, &h));
    NT(MPI_Type_contiguous(-1, MPI_INT, &h));
    NT(MPI_Type_vector(1, 1, 1, MPI_DATATYPE_NULL, &h));
    NT(MPI_Type_create_struct(1, minus, at, types, &h));
    NT(MPI_Type_create_subarray(1, one, one, one, 12345, MPI_INT, &h));
    NT(MPI_Type_dup(MPI_DATATYPE_NULL, &h));
    NT(MPI_Type_match_size(MPI_TYPECLASS_REAL, 3, &h));
    // The new handle may stand where an argument stood.
    MPI_FAILS(MPI_Type_create_struct(1, one, at, &types[1], &types[1]), MPI_ERR_TYPE);
    NG(MPI_Comm_group(MPI_COMM_NULL, &h));
    NG(MPI_Group_union(MPI_GROUP_EMPTY, MPI_GROUP_NULL, &h));
    NG(MPI_Group_incl(MPI_GROUP_EMPTY, 1, one, &h));
    NULLED(MPI_Info, MPI_INFO_NULL, MPI_Info_dup(MPI_INFO_NULL, &h));
    NULLED(MPI_Errhandler, MPI_ERRHANDLER_NULL, MPI_Comm_create_errhandler(NULL, &h));
    NULLED(MPI_Errhandler, MPI_ERRHANDLER_NULL, MPI_Comm_get_errhandler(MPI_COMM_NULL, &h));
    NULLED(MPI_Op, MPI_OP_NULL, MPI_Op_create(NULL, 1, &h));
    NULLED(MPI_Win, MPI_WIN_NULL, MPI_Win_create(&x, -1, 0, MPI_INFO_NULL, W, &h));
    int i[1];
    MPI_Aint a[1];
    MPI_Datatype out[2] = {JUNK(MPI_Datatype), JUNK(MPI_Datatype)};
    CHECK(MPI_Type_get_contents(MPI_INT, 1, 1, 2, i, a, out) != MPI_SUCCESS);
    CHECK(out[0] == MPI_DATATYPE_NULL && out[1] == MPI_DATATYPE_NULL);
}

static int seen_null;
static MPI_Request watched;
static void look(MPI_Comm *c, int *code, ...) {
    (void)c, (void)code;
    seen_null = watched == MPI_REQUEST_NULL;
}
TEST(null_before_the_handler_is_told) {
    MPI_Errhandler h;
    MPI_Comm dup;
    int x = 0;
    MPI(MPI_Comm_dup(MPI_COMM_SELF, &dup));
    MPI(MPI_Comm_create_errhandler(look, &h));
    MPI(MPI_Comm_set_errhandler(dup, h));
    watched = JUNK(MPI_Request);
    CHECK(MPI_Isend(&x, 1, MPI_INT, 5, 0, dup, &watched) != MPI_SUCCESS);
    CHECK(seen_null);
    MPI(MPI_Errhandler_free(&h));
    MPI(MPI_Comm_free(&dup));
}
#endif

// ---- 6.1, 3.10: buffers that may not overlap.

TEST(overlaps) {
    enum { N = 64 };
    int v[N] = {0}, w[N] = {0}, ones[N], at[N], back[N];
    MPI_Request r;
    MPI_Datatype low, high;
    for (int i = 0; i < check_size; i++) ones[i] = 1, at[i] = i, back[i] = check_size + i;
    MPI_FAILS(MPI_Allreduce(v, v, 1, MPI_INT, MPI_SUM, W), MPI_ERR_BUFFER);
    MPI_FAILS(MPI_Allreduce(v, v, N, MPI_INT, MPI_SUM, W), MPI_ERR_BUFFER);
    MPI_FAILS(MPI_Iallreduce(v, v, 1, MPI_INT, MPI_SUM, W, &r), MPI_ERR_BUFFER);
    MPI_FAILS(MPI_Allreduce_init(v, v, 1, MPI_INT, MPI_SUM, W, MPI_INFO_NULL, &r), MPI_ERR_BUFFER);
    MPI_FAILS(MPI_Scan(v, v, 1, MPI_INT, MPI_SUM, W), MPI_ERR_BUFFER);
    MPI_FAILS(MPI_Allgather(v, 1, MPI_INT, v, 1, MPI_INT, W), MPI_ERR_BUFFER);
    MPI_FAILS(MPI_Allgather(v + check_rank, 1, MPI_INT, v, 1, MPI_INT, W), MPI_ERR_BUFFER);
    MPI_FAILS(MPI_Allgatherv(v + check_rank, 1, MPI_INT, v, ones, at, MPI_INT, W), MPI_ERR_BUFFER);
    MPI_FAILS(MPI_Alltoall(v, 1, MPI_INT, v, 1, MPI_INT, W), MPI_ERR_BUFFER);
    MPI_FAILS(MPI_Alltoallv(v, ones, at, MPI_INT, v, ones, at, MPI_INT, W), MPI_ERR_BUFFER);
    MPI_FAILS(MPI_Reduce_scatter_block(v, v, 1, MPI_INT, MPI_SUM, W), MPI_ERR_BUFFER);
    MPI_FAILS(MPI_Reduce_scatter(v, v, ones, MPI_INT, MPI_SUM, W), MPI_ERR_BUFFER);
    MPI_FAILS(MPI_Reduce_local(v, v, 1, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
    MPI_FAILS(MPI_Gather(v, 1, MPI_INT, v, 1, MPI_INT, 0, MPI_COMM_SELF), MPI_ERR_BUFFER);
    MPI_FAILS(MPI_Scatter(v, 1, MPI_INT, v, 1, MPI_INT, 0, MPI_COMM_SELF), MPI_ERR_BUFFER);
    MPI_FAILS(MPI_Reduce(v, v, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_SELF), MPI_ERR_BUFFER);
    MPI_FAILS(MPI_Sendrecv(v, 1, MPI_INT, check_rank, 0, v, 1, MPI_INT, check_rank, 0, W, MPI_STATUS_IGNORE), MPI_ERR_BUFFER);
    MPI_FAILS(MPI_Isendrecv(v, 1, MPI_INT, check_rank, 0, v, 1, MPI_INT, check_rank, 0, W, &r), MPI_ERR_BUFFER);
    // What only looks like it.
    for (int i = 0; i < check_size; i++) v[i] = 10 * check_rank + i;
    MPI(MPI_Alltoallv(v, ones, at, MPI_INT, v, ones, back, MPI_INT, W));
    for (int i = 0; i < check_size; i++) CHECK_EQ(v[check_size + i], 10 * i + check_rank);
    MPI(MPI_Allreduce(v, v, 0, MPI_INT, MPI_SUM, W));
    MPI(MPI_Allreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, W));
    MPI(MPI_Allreduce(MPI_IN_PLACE, v, 1, MPI_INT, MPI_SUM, W));
    int same = check_rank, got = 0;
    MPI(MPI_Reduce(&same, check_rank == 0 ? &got : &same, 1, MPI_INT, MPI_SUM, 0, W)); // not significant but at the root
    if (check_rank == 0) CHECK_EQ(got, check_size * (check_size - 1) / 2);
    // One address, two halves of a structure.
    int pair[2] = {check_rank + 5, -1};
    int one = 1, second = 1, first = 0;
    MPI(MPI_Type_indexed(1, &one, &first, MPI_INT, &low));
    MPI(MPI_Type_indexed(1, &one, &second, MPI_INT, &high));
    MPI(MPI_Type_commit(&low));
    MPI(MPI_Type_commit(&high));
    MPI(MPI_Sendrecv(pair, 1, low, check_rank, 1, pair, 1, high, check_rank, 1, W, MPI_STATUS_IGNORE));
    CHECK_EQ(pair[1], check_rank + 5);
    pair[1] = -1;
    MPI(MPI_Alltoall(pair, 1, low, pair, 1, high, MPI_COMM_SELF));
    CHECK_EQ(pair[1], check_rank + 5);
    // The same at MPI_BOTTOM.
    MPI_Aint where[2];
    MPI(MPI_Get_address(&v[0], &where[0]));
    MPI(MPI_Get_address(&w[0], &where[1]));
    MPI_Datatype from, to;
    MPI(MPI_Type_create_hindexed(1, &one, &where[0], MPI_INT, &from));
    MPI(MPI_Type_create_hindexed(1, &one, &where[1], MPI_INT, &to));
    MPI(MPI_Type_commit(&from));
    MPI(MPI_Type_commit(&to));
    v[0] = 99, w[0] = 0;
    MPI(MPI_Sendrecv(MPI_BOTTOM, 1, from, check_rank, 2, MPI_BOTTOM, 1, to, check_rank, 2, W, MPI_STATUS_IGNORE));
    CHECK_EQ(w[0], 99);
    w[0] = 0;
    MPI(MPI_Allgather(MPI_BOTTOM, 1, from, MPI_BOTTOM, 1, to, MPI_COMM_SELF));
    CHECK_EQ(w[0], 99);
    MPI(MPI_Type_free(&from));
    MPI(MPI_Type_free(&to));
    MPI(MPI_Type_free(&low));
    MPI(MPI_Type_free(&high));
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    RUN(freed_keys_of_communicators);
    RUN(freed_keys_of_datatypes);
    RUN(nobody);
    RUN(operations_on_own_integers);
#ifdef FARPOST
    RUN(handles_after_errors);
    RUN(null_before_the_handler_is_told);
#endif
    RUN(overlaps);
    return check_done();
}
