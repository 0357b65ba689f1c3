// ranks: 1 2 4
// Wrong arguments under MPI_ERRORS_RETURN: the standard's class, a message that names the function, the argument and the
// value (Farpost promises that), and a library that works afterwards.
// Requirements of MPI-5.0 sections 3.2.3, 3.9, 5.1.9, 7.3.3, 7.4.3, and chapter 10.
// Requirements of MPI-5.0 section 10.
#include "../mpi/check.h"

static void usable(int line) {
    int x = 3, y = 0;
    const int code = MPI_Sendrecv(&x, 1, MPI_INT, check_rank, 5, &y, 1, MPI_INT, check_rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS || y != 3) check_fail(__FILE__, line, "not usable afterwards");
}

// arg: what the message must contain besides the function's name; value likewise (either may be NULL).
static void refused(int line, const char *call, int code, int want, const char *want_name, const char *arg, const char *value) {
    char text[MPI_MAX_ERROR_STRING] = "", name[100];
    int len = 0, got = -1;
    if (code == MPI_SUCCESS) {
        check_fail(__FILE__, line, "%s succeeded, should be %s", call, want_name);
        return;
    }
    MPI_Error_class(code, &got);
    MPI_Error_string(code, text, &len);
    if (got != want) check_fail(__FILE__, line, "%s gave class %d, not %s (%d): %.200s", call, got, want_name, want, text);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(call, "("), call);
#ifdef FARPOST
    if (!strstr(text, name)) check_fail(__FILE__, line, "the message does not name %s: %s", name, text);
    if (arg && !strstr(text, arg)) check_fail(__FILE__, line, "%s: the message does not name the argument %s: %s", name, arg, text);
    if (value && !strstr(text, value)) check_fail(__FILE__, line, "%s: the message does not show the value %s: %s", name, value, text);
    if (strchr(text, '\n')) check_fail(__FILE__, line, "%s: the message has more than one line: %s", name, text);
#endif
    (void)arg, (void)value;
    if (len != (int)strlen(text)) check_fail(__FILE__, line, "%s: length %d of %zu", name, len, strlen(text));
    usable(line);
}
#define BAD(call, class_, arg, value) refused(__LINE__, #call, call, class_, #class_, arg, value)
#ifdef FARPOST // what other libraries answer differently, or not at all
#define BAD_FARPOST(call, class_, arg, value) BAD(call, class_, arg, value)
#else
#define BAD_FARPOST(call, class_, arg, value) ((void)sizeof(call))
#endif

static int v[16], w[16];
static MPI_Request r = MPI_REQUEST_NULL;
static char beyond[16];

TEST(ranks) {
    BAD(MPI_Send(v, 1, MPI_INT, check_size, 0, MPI_COMM_WORLD), MPI_ERR_RANK, "dest", beyond);
    BAD(MPI_Send(v, 1, MPI_INT, -7, 0, MPI_COMM_WORLD), MPI_ERR_RANK, "dest", "-7");
    BAD(MPI_Send(v, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD), MPI_ERR_RANK, "dest", NULL);
    BAD(MPI_Isend(v, 1, MPI_INT, check_size, 0, MPI_COMM_WORLD, &r), MPI_ERR_RANK, "dest", beyond);
    BAD(MPI_Ssend(v, 1, MPI_INT, 1000000, 0, MPI_COMM_WORLD), MPI_ERR_RANK, "dest", "1000000");
    BAD(MPI_Send_init(v, 1, MPI_INT, check_size, 0, MPI_COMM_WORLD, &r), MPI_ERR_RANK, "dest", beyond);
    BAD(MPI_Recv(v, 1, MPI_INT, check_size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_RANK, "source", beyond);
    BAD(MPI_Irecv(v, 1, MPI_INT, -20, 0, MPI_COMM_WORLD, &r), MPI_ERR_RANK, "source", "-20");
    BAD(MPI_Probe(check_size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_RANK, "source", beyond);
    BAD(MPI_Sendrecv(v, 1, MPI_INT, check_size, 0, w, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_RANK, "dest", beyond);
    BAD(MPI_Sendrecv(v, 1, MPI_INT, check_rank, 0, w, 1, MPI_INT, -9, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_RANK, "source", "-9");
}

TEST(tags) {
    int *ub = NULL, flag = 0;
    MPI(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &ub, &flag));
    BAD(MPI_Send(v, 1, MPI_INT, 0, -5, MPI_COMM_WORLD), MPI_ERR_TAG, "tag", "-5");
    BAD(MPI_Send(v, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD), MPI_ERR_TAG, "tag", NULL);
    BAD(MPI_Recv(v, 1, MPI_INT, 0, -5, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_TAG, "tag", "-5");
    if (flag && *ub < INT32_MAX) BAD(MPI_Isend(v, 1, MPI_INT, 0, INT32_MAX, MPI_COMM_WORLD, &r), MPI_ERR_TAG, "tag", "2147483647");
}

TEST(counts) {
    BAD(MPI_Send(v, -1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_COUNT, "count", "-1");
    BAD(MPI_Recv(v, -3, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_COUNT, "count", "-3");
    BAD(MPI_Send_c(v, -4, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_COUNT, "count", "-4");
    BAD(MPI_Bcast(v, -1, MPI_INT, 0, MPI_COMM_WORLD), MPI_ERR_COUNT, "count", "-1");
    BAD_FARPOST(MPI_Allreduce(v, w, -1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_COUNT, "count", "-1");
    BAD(MPI_Type_contiguous(-2, MPI_INT, &(MPI_Datatype){0}), MPI_ERR_COUNT, "count", "-2");
    BAD_FARPOST(MPI_Waitall(-1, &r, MPI_STATUSES_IGNORE), MPI_ERR_COUNT, "count", "-1");
}

TEST(buffers) {
    BAD(MPI_Send(NULL, 1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER, "buf", NULL);
    BAD(MPI_Recv(NULL, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_BUFFER, "buf", NULL);
    BAD(MPI_Irecv(NULL, 5, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, &r), MPI_ERR_BUFFER, "buf", NULL);
    BAD(MPI_Bcast(NULL, 1, MPI_INT, 0, MPI_COMM_SELF), MPI_ERR_BUFFER, "buffer", NULL);
    BAD(MPI_Allreduce(NULL, w, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF), MPI_ERR_BUFFER, "sendbuf", NULL);
    BAD_FARPOST(MPI_Send(MPI_IN_PLACE, 1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER, "buf", "MPI_IN_PLACE");
}

TEST(output_arguments) {
    int n;
    BAD(MPI_Comm_rank(MPI_COMM_WORLD, NULL), MPI_ERR_ARG, "rank", NULL);
    BAD(MPI_Comm_size(MPI_COMM_WORLD, NULL), MPI_ERR_ARG, "size", NULL);
    BAD(MPI_Isend(v, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, NULL), MPI_ERR_ARG, "request", NULL);
    BAD(MPI_Comm_dup(MPI_COMM_SELF, NULL), MPI_ERR_ARG, "newcomm", NULL);
    BAD(MPI_Type_size(MPI_INT, NULL), MPI_ERR_ARG, "size", NULL);
    BAD(MPI_Comm_get_name(MPI_COMM_WORLD, NULL, &n), MPI_ERR_ARG, "comm_name", NULL);
    BAD(MPI_Initialized(NULL), MPI_ERR_ARG, "flag", NULL);
    BAD(MPI_Get_version(NULL, &n), MPI_ERR_ARG, "version", NULL);
}

TEST(null_handles) {
    int n;
    MPI_Group g = MPI_GROUP_NULL;
    MPI_Comm c = MPI_COMM_NULL;
    MPI_Datatype t = MPI_DATATYPE_NULL;
    MPI_Op o = MPI_OP_NULL;
    MPI_Info i = MPI_INFO_NULL;
    MPI_Errhandler e = MPI_ERRHANDLER_NULL;
    MPI_Message m = MPI_MESSAGE_NULL;
    MPI_Request q = MPI_REQUEST_NULL;
    BAD(MPI_Comm_rank(MPI_COMM_NULL, &n), MPI_ERR_COMM, "comm", "MPI_COMM_NULL");
    BAD(MPI_Send(v, 1, MPI_INT, 0, 0, MPI_COMM_NULL), MPI_ERR_COMM, "comm", "MPI_COMM_NULL");
    BAD(MPI_Barrier(MPI_COMM_NULL), MPI_ERR_COMM, "comm", "MPI_COMM_NULL");
    BAD(MPI_Comm_free(&c), MPI_ERR_COMM, "comm", "MPI_COMM_NULL");
    BAD(MPI_Send(v, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "datatype", "MPI_DATATYPE_NULL");
    BAD(MPI_Type_size(MPI_DATATYPE_NULL, &n), MPI_ERR_TYPE, "datatype", "MPI_DATATYPE_NULL");
    BAD(MPI_Type_commit(&t), MPI_ERR_TYPE, "datatype", "MPI_DATATYPE_NULL");
    BAD(MPI_Type_free(&t), MPI_ERR_TYPE, "datatype", "MPI_DATATYPE_NULL");
    BAD(MPI_Allreduce(v, w, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD), MPI_ERR_OP, "op", "MPI_OP_NULL");
    BAD(MPI_Op_free(&o), MPI_ERR_OP, "op", "MPI_OP_NULL");
    BAD(MPI_Group_size(MPI_GROUP_NULL, &n), MPI_ERR_GROUP, "group", "MPI_GROUP_NULL");
    BAD(MPI_Group_free(&g), MPI_ERR_GROUP, "group", "MPI_GROUP_NULL");
    BAD(MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_NULL, &c), MPI_ERR_GROUP, "group", "MPI_GROUP_NULL");
    BAD_FARPOST(MPI_Info_set(MPI_INFO_NULL, "a", "b"), MPI_ERR_INFO, "info", "MPI_INFO_NULL");
    BAD_FARPOST(MPI_Info_free(&i), MPI_ERR_INFO, "info", "MPI_INFO_NULL");
    BAD_FARPOST(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER, "errhandler", "MPI_ERRHANDLER_NULL");
    BAD_FARPOST(MPI_Errhandler_free(&e), MPI_ERR_ERRHANDLER, "errhandler", "MPI_ERRHANDLER_NULL");
    BAD(MPI_Request_free(&q), MPI_ERR_REQUEST, "request", "MPI_REQUEST_NULL");
    BAD(MPI_Start(&q), MPI_ERR_REQUEST, "request", "MPI_REQUEST_NULL");
    BAD(MPI_Cancel(&q), MPI_ERR_REQUEST, "request", "MPI_REQUEST_NULL");
    BAD(MPI_Mrecv(v, 1, MPI_INT, &m, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "message", "MPI_MESSAGE_NULL");
}

TEST(predefined_may_not_be_freed) {
    MPI_Comm c = MPI_COMM_WORLD;
    MPI_Datatype t = MPI_INT;
    MPI_Op o = MPI_SUM;
    BAD(MPI_Comm_free(&c), MPI_ERR_COMM, "comm", "MPI_COMM_WORLD");
    BAD(MPI_Type_free(&t), MPI_ERR_TYPE, "datatype", "MPI_INT");
    BAD(MPI_Op_free(&o), MPI_ERR_OP, "op", "MPI_SUM");
    CHECK(c == MPI_COMM_WORLD && t == MPI_INT && o == MPI_SUM);
}

#ifdef FARPOST // other libraries may crash on these
static void some_op(void *a, void *b, int *n, MPI_Datatype *t) { (void)a, (void)b, (void)n, (void)t; }
static void some_handler(MPI_Comm *c, int *code, ...) { (void)c, (void)code; }
TEST(freed_handles) {
    MPI_Comm c, c2;
    MPI_Datatype t, t2;
    MPI_Group g, g2;
    MPI_Info i, i2;
    MPI_Op o, o2;
    MPI_Errhandler e, e2;
    MPI_Request q, q2;
    int n, key, key2, x;
    MPI(MPI_Comm_dup(MPI_COMM_WORLD, &c));
    c2 = c;
    MPI(MPI_Comm_free(&c));
    BAD(MPI_Comm_free(&c2), MPI_ERR_COMM, "comm", NULL);
    BAD(MPI_Barrier(c2), MPI_ERR_COMM, "comm", NULL);
    BAD(MPI_Send(v, 1, MPI_INT, 0, 0, c2), MPI_ERR_COMM, "comm", NULL);
    // Also when the place has a new tenant.
    MPI(MPI_Comm_dup(MPI_COMM_WORLD, &c));
    BAD(MPI_Comm_rank(c2, &n), MPI_ERR_COMM, "comm", NULL);
    MPI(MPI_Comm_free(&c));
    MPI(MPI_Type_contiguous(3, MPI_INT, &t));
    t2 = t;
    MPI(MPI_Type_free(&t));
    BAD(MPI_Type_free(&t2), MPI_ERR_TYPE, "datatype", NULL);
    BAD(MPI_Send(v, 1, t2, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "datatype", NULL);
    MPI(MPI_Comm_group(MPI_COMM_WORLD, &g));
    g2 = g;
    MPI(MPI_Group_free(&g));
    BAD(MPI_Group_free(&g2), MPI_ERR_GROUP, "group", NULL);
    BAD(MPI_Group_size(g2, &n), MPI_ERR_GROUP, "group", NULL);
    MPI(MPI_Info_create(&i));
    i2 = i;
    MPI(MPI_Info_free(&i));
    BAD(MPI_Info_free(&i2), MPI_ERR_INFO, "info", NULL);
    MPI(MPI_Op_create(some_op, 1, &o));
    o2 = o;
    MPI(MPI_Op_free(&o));
    BAD(MPI_Op_free(&o2), MPI_ERR_OP, "op", NULL);
    BAD(MPI_Allreduce(v, w, 1, MPI_INT, o2, MPI_COMM_SELF), MPI_ERR_OP, "op", NULL);
    MPI(MPI_Comm_create_errhandler(some_handler, &e));
    e2 = e;
    MPI(MPI_Errhandler_free(&e));
    BAD(MPI_Comm_set_errhandler(MPI_COMM_SELF, e2), MPI_ERR_ERRHANDLER, "errhandler", NULL);
    MPI(MPI_Recv_init(&x, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &q));
    q2 = q;
    MPI(MPI_Request_free(&q));
    BAD(MPI_Start(&q2), MPI_ERR_REQUEST, "request", NULL);
    BAD(MPI_Wait(&q2, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "request", NULL);
    BAD(MPI_Request_free(&q2), MPI_ERR_REQUEST, "request", NULL);
    MPI(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    key2 = key;
    MPI(MPI_Comm_free_keyval(&key));
    BAD(MPI_Comm_free_keyval(&key2), MPI_ERR_KEYVAL, "keyval", NULL);
}

TEST(garbage_handles) {
    static const uintptr_t garbage[] = {1, 0x100, 0x180, 0x2ff, 0x400, 0x12345, 0xffff, 0xdeadbeef, 0x7fffffff, 0x8000000000000000u, UINTPTR_MAX, (uintptr_t)&check_rank};
    int n;
    char hex[40];
    for (int i = 0; i < COUNT(garbage); i++) {
        const uintptr_t h = garbage[i];
        snprintf(hex, sizeof hex, "%llx", (unsigned long long)h);
        const char *shown = h > 0x400 ? hex : NULL; // the low ones are other constants and may be shown by name
        BAD(MPI_Comm_size((MPI_Comm)h, &n), MPI_ERR_COMM, "comm", shown);
        BAD(MPI_Send(v, 1, MPI_INT, 0, 0, (MPI_Comm)h), MPI_ERR_COMM, "comm", shown);
        BAD(MPI_Send(v, 1, (MPI_Datatype)h, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "datatype", shown);
        BAD(MPI_Allreduce(v, w, 1, MPI_INT, (MPI_Op)h, MPI_COMM_WORLD), MPI_ERR_OP, "op", shown);
        BAD(MPI_Group_size((MPI_Group)h, &n), MPI_ERR_GROUP, "group", shown);
        BAD(MPI_Info_get_nkeys((MPI_Info)h, &n), MPI_ERR_INFO, "info", shown);
        BAD(MPI_Comm_set_errhandler(MPI_COMM_SELF, (MPI_Errhandler)h), MPI_ERR_ERRHANDLER, "errhandler", shown);
        if (h != 0x180) {
            MPI_Request q = (MPI_Request)h;
            BAD(MPI_Wait(&q, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "request", shown);
        }
        MPI_Message m = (MPI_Message)h;
        BAD(MPI_Mrecv(v, 1, MPI_INT, &m, MPI_STATUS_IGNORE), MPI_ERR_REQUEST, "message", shown);
    }
}

// A handle of another kind is garbage too.
TEST(handles_of_another_kind) {
    MPI_Datatype t;
    int n;
    MPI(MPI_Type_contiguous(3, MPI_INT, &t));
    BAD(MPI_Comm_size((MPI_Comm)t, &n), MPI_ERR_COMM, "comm", NULL);
    BAD(MPI_Send(v, 1, (MPI_Datatype)MPI_COMM_WORLD, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "datatype", NULL);
    BAD(MPI_Comm_size((MPI_Comm)MPI_INT, &n), MPI_ERR_COMM, "comm", NULL);
    MPI(MPI_Type_free(&t));
}
#endif

TEST(roots) {
    BAD(MPI_Bcast(v, 1, MPI_INT, check_size, MPI_COMM_WORLD), MPI_ERR_ROOT, "root", beyond);
    BAD(MPI_Bcast(v, 1, MPI_INT, -1, MPI_COMM_WORLD), MPI_ERR_ROOT, "root", "-1");
    BAD(MPI_Reduce(v, w, 1, MPI_INT, MPI_SUM, check_size, MPI_COMM_WORLD), MPI_ERR_ROOT, "root", beyond);
    BAD(MPI_Gather(v, 1, MPI_INT, w, 1, MPI_INT, -2, MPI_COMM_WORLD), MPI_ERR_ROOT, "root", "-2");
    BAD(MPI_Iscatter(v, 1, MPI_INT, w, 1, MPI_INT, check_size, MPI_COMM_WORLD, &r), MPI_ERR_ROOT, "root", beyond);
}

TEST(types_and_operations) {
    MPI_Datatype t, u;
    const int bl[2] = {1, -1}, at[2] = {0, 4};
    MPI(MPI_Type_contiguous(3, MPI_INT, &t));
    BAD(MPI_Send(v, 1, t, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "datatype", NULL); // not committed
    BAD(MPI_Allreduce(v, w, 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_WORLD), MPI_ERR_OP, "op", NULL);
    BAD(MPI_Allreduce(v, w, 1, MPI_INT, MPI_MINLOC, MPI_COMM_WORLD), MPI_ERR_OP, "op", NULL);
    BAD_FARPOST(MPI_Allreduce(v, w, 1, MPI_INT, MPI_REPLACE, MPI_COMM_WORLD), MPI_ERR_OP, "op", "MPI_REPLACE");
    MPI(MPI_Type_commit(&t));
    BAD(MPI_Allreduce(v, w, 1, t, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_OP, "op", NULL);
    BAD_FARPOST(MPI_Type_indexed(2, bl, at, MPI_INT, &u), MPI_ERR_ARG, "blocklength", "-1");
    BAD(MPI_Type_vector(2, -1, 3, MPI_INT, &u), MPI_ERR_COUNT, "blocklength", "-1");
    const int sizes[2] = {4, 4}, sub[2] = {2, 3}, start[2] = {1, 2};
    BAD_FARPOST(MPI_Type_create_subarray(2, sizes, sub, start, MPI_ORDER_C, MPI_INT, &u), MPI_ERR_ARG, NULL, NULL);
    BAD(MPI_Type_create_subarray(2, sizes, sub, at, 77, MPI_INT, &u), MPI_ERR_ARG, "order", "77");
    MPI(MPI_Type_free(&t));
    // A pack buffer too small.
    int pos = 0;
    char room[6];
    BAD_FARPOST(MPI_Pack(v, 2, MPI_INT, room, 6, &pos, MPI_COMM_WORLD), MPI_ERR_TRUNCATE, NULL, "6");
    pos = 4;
    BAD_FARPOST(MPI_Unpack(room, 6, &pos, w, 1, MPI_INT, MPI_COMM_WORLD), MPI_ERR_TRUNCATE, NULL, "6");
}

TEST(groups_and_communicators) {
    MPI_Group g, h;
    MPI_Comm c;
    const int beyond_list[1] = {check_size}, twice[2] = {0, 0};
    int range[1][3] = {{0, 3, 0}}, out;
    MPI(MPI_Comm_group(MPI_COMM_WORLD, &g));
    BAD(MPI_Group_incl(g, 1, beyond_list, &h), MPI_ERR_RANK, "ranks", beyond);
    BAD_FARPOST(MPI_Group_incl(g, 2, twice, &h), MPI_ERR_RANK, "ranks", "0");
    BAD(MPI_Group_excl(g, 1, beyond_list, &h), MPI_ERR_RANK, "ranks", beyond);
    BAD(MPI_Group_range_incl(g, 1, range, &h), MPI_ERR_ARG, "range", NULL);
    BAD(MPI_Group_translate_ranks(g, 1, beyond_list, g, &out), MPI_ERR_RANK, "ranks1", beyond);
    MPI(MPI_Group_free(&g));
    BAD_FARPOST(MPI_Comm_split(MPI_COMM_SELF, -3, 0, &c), MPI_ERR_ARG, "color", "-3");
    BAD(MPI_Comm_split_type(MPI_COMM_SELF, 99, 0, MPI_INFO_NULL, &c), MPI_ERR_ARG, "split_type", "99");
    BAD(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_KEYVAL_INVALID, &v, &out), MPI_ERR_KEYVAL, "keyval", NULL);
    BAD(MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_TAG_UB, v), MPI_ERR_KEYVAL, "keyval", "MPI_TAG_UB");
    BAD_FARPOST(MPI_Comm_remote_size(MPI_COMM_WORLD, &out), MPI_ERR_COMM, "comm", "MPI_COMM_WORLD");
}

TEST(info) {
    MPI_Info i;
    char key[400], big[2000];
    memset(key, 'k', sizeof key), key[sizeof key - 1] = 0;
    memset(big, 'v', sizeof big), big[sizeof big - 1] = 0;
    MPI(MPI_Info_create(&i));
    BAD(MPI_Info_set(i, key, "x"), MPI_ERR_INFO_KEY, "key", NULL);
    BAD(MPI_Info_set(i, "", "x"), MPI_ERR_INFO_KEY, "key", NULL);
    BAD_FARPOST(MPI_Info_set(i, NULL, "x"), MPI_ERR_ARG, "key", NULL);
    BAD(MPI_Info_set(i, "x", big), MPI_ERR_INFO_VALUE, "value", NULL);
    BAD_FARPOST(MPI_Info_set(i, "x", NULL), MPI_ERR_ARG, "value", NULL);
    BAD(MPI_Info_delete(i, "nothing"), MPI_ERR_INFO_NOKEY, "key", "nothing");
    BAD(MPI_Info_get_nthkey(i, 3, key), MPI_ERR_ARG, "n", "3");
    MPI(MPI_Info_free(&i));
}

TEST(topologies) {
    MPI_Comm c;
    const int dims[1] = {-2}, periods[1] = {0}, index[1] = {1}, edges[1] = {5};
    int d[2] = {-1, 0};
    BAD_FARPOST(MPI_Cart_create(MPI_COMM_SELF, -1, dims, periods, 0, &c), MPI_ERR_DIMS, "ndims", "-1");
    BAD_FARPOST(MPI_Cart_create(MPI_COMM_SELF, 1, dims, periods, 0, &c), MPI_ERR_DIMS, "dims", "-2");
    BAD(MPI_Dims_create(4, 2, d), MPI_ERR_DIMS, "dims", "-1");
    BAD_FARPOST(MPI_Graph_create(MPI_COMM_SELF, 1, index, edges, 0, &c), MPI_ERR_ARG, "edges", "5");
}

TEST(errors_and_requests) {
    int x;
    MPI_Request q, p;
    BAD_FARPOST(MPI_Error_class(-1, &x), MPI_ERR_ARG, "errorcode", "-1");
    BAD_FARPOST(MPI_Error_class(123456789, &x), MPI_ERR_ARG, "errorcode", NULL);
    BAD(MPI_Add_error_string(MPI_ERR_TYPE, "no"), MPI_ERR_ARG, "errorcode", NULL);
    // Start of an active one, of one that is not persistent; free of an active persistent one is allowed.
    MPI(MPI_Recv_init(&x, 1, MPI_INT, check_rank, 77, MPI_COMM_WORLD, &p));
    MPI(MPI_Start(&p));
    BAD_FARPOST(MPI_Start(&p), MPI_ERR_REQUEST, "request", NULL);
    MPI(MPI_Cancel(&p));
    MPI(MPI_Wait(&p, MPI_STATUS_IGNORE));
    MPI(MPI_Request_free(&p));
    MPI(MPI_Irecv(&x, 1, MPI_INT, check_rank, 78, MPI_COMM_WORLD, &q));
    BAD(MPI_Start(&q), MPI_ERR_REQUEST, "request", NULL);
    MPI(MPI_Cancel(&q));
    MPI(MPI_Wait(&q, MPI_STATUS_IGNORE));
    // Buffered mode without room.
    static char room[16 + MPI_BSEND_OVERHEAD], much[4096];
    void *back;
    BAD(MPI_Bsend(v, 4, MPI_INT, check_rank, 79, MPI_COMM_WORLD), MPI_ERR_BUFFER, NULL, NULL);
    MPI(MPI_Buffer_attach(room, sizeof room));
    BAD_FARPOST(MPI_Buffer_attach(room, sizeof room), MPI_ERR_BUFFER, "buffer", NULL);
    BAD(MPI_Bsend(much, 4096, MPI_CHAR, check_rank, 79, MPI_COMM_WORLD), MPI_ERR_BUFFER, NULL, NULL);
    MPI(MPI_Buffer_detach(&back, &x));
}

TEST(sessions) {
    MPI_Session s = MPI_SESSION_NULL, freed, out;
    MPI_Group g = MPI_GROUP_NULL;
    MPI_Comm c = MPI_COMM_NULL;
    MPI_Info info = MPI_INFO_NULL;
    MPI_Errhandler h;
    int n = 0, len = 0;
    char name[64];
    MPI(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &s));
    MPI(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &out));
    freed = out;
    MPI(MPI_Session_finalize(&out));
    MPI_Session none[] = {MPI_SESSION_NULL, freed, (MPI_Session)(intptr_t)MPI_COMM_WORLD, (MPI_Session)(intptr_t)0x7eadbeef};
    for (int i = 0; i < COUNT(none); i++) {
        MPI_Session bad = none[i];
        BAD_FARPOST(MPI_Session_finalize(&bad), MPI_ERR_SESSION, "session", NULL);
        CHECK(bad == none[i]);
        BAD_FARPOST(MPI_Session_get_info(bad, &info), MPI_ERR_SESSION, "session", NULL);
        BAD_FARPOST(MPI_Session_get_num_psets(bad, MPI_INFO_NULL, &n), MPI_ERR_SESSION, "session", NULL);
        BAD_FARPOST(MPI_Session_get_nth_pset(bad, MPI_INFO_NULL, 0, &len, NULL), MPI_ERR_SESSION, "session", NULL);
        BAD_FARPOST(MPI_Session_get_pset_info(bad, "mpi://WORLD", &info), MPI_ERR_SESSION, "session", NULL);
        BAD_FARPOST(MPI_Group_from_session_pset(bad, "mpi://WORLD", &g), MPI_ERR_SESSION, "session", NULL);
        BAD_FARPOST(MPI_Session_set_errhandler(bad, MPI_ERRORS_RETURN), MPI_ERR_SESSION, "session", NULL);
        BAD_FARPOST(MPI_Session_get_errhandler(bad, &h), MPI_ERR_SESSION, "session", NULL);
        BAD_FARPOST(MPI_Session_call_errhandler(bad, MPI_ERR_ARG), MPI_ERR_SESSION, "session", NULL);
        BAD_FARPOST(MPI_Session_attach_buffer(bad, v, sizeof v), MPI_ERR_SESSION, "session", NULL);
        BAD_FARPOST(MPI_Session_detach_buffer(bad, name, &n), MPI_ERR_SESSION, "session", NULL);
        BAD_FARPOST(MPI_Session_flush_buffer(bad), MPI_ERR_SESSION, "session", NULL);
        BAD_FARPOST(MPI_Session_iflush_buffer(bad, &r), MPI_ERR_SESSION, "session", NULL);
    }
    BAD_FARPOST(MPI_Session_init(MPI_INFO_NULL, MPI_ERRHANDLER_NULL, &out), MPI_ERR_ERRHANDLER, "errhandler", "MPI_ERRHANDLER_NULL");
    BAD_FARPOST(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, NULL), MPI_ERR_ARG, "session", "NULL");
    BAD_FARPOST(MPI_Session_init((MPI_Info)(intptr_t)0x7eadbeef, MPI_ERRORS_RETURN, &out), MPI_ERR_INFO, "info", "0x7eadbeef");
    CHECK(out == MPI_SESSION_NULL);
    MPI(MPI_Session_get_num_psets(s, MPI_INFO_NULL, &n));
    BAD_FARPOST(MPI_Session_get_num_psets(s, MPI_INFO_NULL, NULL), MPI_ERR_ARG, "npset_names", "NULL");
    BAD_FARPOST(MPI_Session_get_nth_pset(s, MPI_INFO_NULL, -1, &len, NULL), MPI_ERR_ARG, "n", "-1");
    BAD_FARPOST(MPI_Session_get_nth_pset(s, MPI_INFO_NULL, n, &len, NULL), MPI_ERR_ARG, "n", NULL);
    BAD_FARPOST(MPI_Session_get_nth_pset(s, MPI_INFO_NULL, 0, NULL, name), MPI_ERR_ARG, "pset_len", "NULL");
    len = 5;
    BAD_FARPOST(MPI_Session_get_nth_pset(s, MPI_INFO_NULL, 0, &len, NULL), MPI_ERR_ARG, "pset_name", "NULL");
    BAD_FARPOST(MPI_Session_get_pset_info(s, "mpi://NOWHERE", &info), MPI_ERR_ARG, "pset_name", "mpi://NOWHERE");
    BAD_FARPOST(MPI_Group_from_session_pset(s, "", &g), MPI_ERR_ARG, "pset_name", NULL);
    BAD_FARPOST(MPI_Group_from_session_pset(s, NULL, &g), MPI_ERR_ARG, "pset_name", "NULL");
    BAD_FARPOST(MPI_Group_from_session_pset(s, "mpi://WORLD", NULL), MPI_ERR_ARG, "newgroup", "NULL");
    BAD_FARPOST(MPI_Session_set_errhandler(s, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER, "errhandler", "MPI_ERRHANDLER_NULL");
    BAD_FARPOST(MPI_Session_attach_buffer(s, NULL, 100), MPI_ERR_BUFFER, "buffer", "NULL");
    BAD_FARPOST(MPI_Session_attach_buffer(s, v, -1), MPI_ERR_SIZE, "size", "-1");
    MPI(MPI_Group_from_session_pset(s, "mpi://SELF", &g));
    BAD_FARPOST(MPI_Comm_create_from_group(g, NULL, MPI_INFO_NULL, MPI_ERRORS_RETURN, &c), MPI_ERR_ARG, "stringtag", "NULL");
    BAD_FARPOST(MPI_Comm_create_from_group(MPI_GROUP_NULL, "x", MPI_INFO_NULL, MPI_ERRORS_RETURN, &c), MPI_ERR_GROUP, "group", "MPI_GROUP_NULL");
    BAD_FARPOST(MPI_Comm_create_from_group(g, "x", MPI_INFO_NULL, MPI_ERRHANDLER_NULL, &c), MPI_ERR_ERRHANDLER, "errhandler", NULL);
    BAD_FARPOST(MPI_Intercomm_create_from_groups(g, 0, g, 0, "x", MPI_INFO_NULL, MPI_ERRORS_RETURN, &c), MPI_ERR_GROUP, "remote_group", NULL);
    MPI(MPI_Group_free(&g));
    MPI(MPI_Session_finalize(&s));
}

#ifdef FARPOST
// Partitioned messages (MPI-5.0 sections 4.2.1, 4.2.2): arguments of making them, and of each partition.
TEST(partitioned) {
    MPI_Request s, r, q, null = MPI_REQUEST_NULL;
    int flag, some[2] = {1, -4};
    BAD(MPI_Psend_init(v, -2, 1, MPI_INT, check_rank, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &q), MPI_ERR_ARG, "partitions", "-2");
    BAD(MPI_Psend_init(v, 2, -3, MPI_INT, check_rank, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &q), MPI_ERR_COUNT, "count", "-3");
    BAD(MPI_Psend_init(NULL, 2, 1, MPI_INT, check_rank, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &q), MPI_ERR_BUFFER, "buf", NULL);
    BAD(MPI_Psend_init(v, 2, 1, MPI_DATATYPE_NULL, check_rank, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &q), MPI_ERR_TYPE, "datatype", NULL);
    BAD(MPI_Psend_init(v, 2, 1, MPI_INT, check_size, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &q), MPI_ERR_RANK, "dest", beyond);
    BAD(MPI_Psend_init(v, 2, 1, MPI_INT, check_rank, -7, MPI_COMM_WORLD, MPI_INFO_NULL, &q), MPI_ERR_TAG, "tag", "-7");
    BAD(MPI_Psend_init(v, 2, 1, MPI_INT, check_rank, 5, MPI_COMM_NULL, MPI_INFO_NULL, &q), MPI_ERR_COMM, "comm", NULL);
    BAD(MPI_Precv_init(v, -2, 1, MPI_INT, check_rank, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &q), MPI_ERR_ARG, "partitions", "-2");
    BAD(MPI_Precv_init(v, 2, -3, MPI_INT, check_rank, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &q), MPI_ERR_COUNT, "count", "-3");
    BAD(MPI_Precv_init(v, 2, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &q), MPI_ERR_RANK, NULL, "-1");
    BAD(MPI_Precv_init(v, 2, 1, MPI_INT, check_rank, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &q), MPI_ERR_TAG, "tag", NULL);
    MPI(MPI_Psend_init(v, 4, 2, MPI_INT, check_rank, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &s));
    MPI(MPI_Precv_init(w, 4, 2, MPI_INT, check_rank, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &r));
    BAD(MPI_Pready(0, s), MPI_ERR_REQUEST, "request", NULL); // not started
    BAD(MPI_Pready(0, null), MPI_ERR_REQUEST, "request", "MPI_REQUEST_NULL");
    MPI(MPI_Start(&s));
    MPI(MPI_Start(&r));
    BAD(MPI_Start(&s), MPI_ERR_REQUEST, "request", NULL);
    BAD(MPI_Pready(4, s), MPI_ERR_ARG, "partition", "4");
    BAD(MPI_Pready(-1, s), MPI_ERR_ARG, "partition", "-1");
    BAD(MPI_Pready(0, r), MPI_ERR_REQUEST, "request", NULL);
    BAD(MPI_Pready_range(0, 4, s), MPI_ERR_ARG, "partition", "4");
    BAD(MPI_Pready_range(2, 1, s), MPI_ERR_ARG, "partition_low", "2");
    BAD(MPI_Pready_list(2, some, s), MPI_ERR_ARG, "array_of_partitions[1]", "-4");
    BAD(MPI_Pready_list(-1, some, s), MPI_ERR_ARG, "length", "-1");
    BAD(MPI_Pready_list(2, NULL, s), MPI_ERR_ARG, "array_of_partitions", "NULL");
    MPI(MPI_Pready(1, s));
    BAD(MPI_Pready_range(0, 3, s), MPI_ERR_ARG, "partition", "1"); // twice
    BAD(MPI_Parrived(s, 0, &flag), MPI_ERR_REQUEST, "request", NULL);
    BAD(MPI_Parrived(r, 4, &flag), MPI_ERR_ARG, "partition", "4");
    BAD(MPI_Parrived(r, 0, NULL), MPI_ERR_ARG, "flag", "NULL");
    BAD(MPI_Cancel(&s), MPI_ERR_REQUEST, "request", NULL);
    MPI(MPI_Pready(0, s));
    MPI(MPI_Pready_range(2, 3, s));
    MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
    MPI(MPI_Wait(&s, MPI_STATUS_IGNORE));
    q = s;
    MPI(MPI_Request_free(&s));
    MPI(MPI_Request_free(&r));
    BAD(MPI_Pready(0, q), MPI_ERR_REQUEST, "request", NULL); // freed
    // Ordinary requests have no partitions.
    MPI(MPI_Irecv(w, 1, MPI_INT, check_rank, 78, MPI_COMM_WORLD, &q));
    BAD(MPI_Pready(0, q), MPI_ERR_REQUEST, "request", NULL);
    BAD(MPI_Parrived(q, 0, &flag), MPI_ERR_REQUEST, "request", NULL);
    MPI(MPI_Cancel(&q));
    MPI(MPI_Wait(&q, MPI_STATUS_IGNORE));
}
#endif

TEST(not_there_yet) {
#ifdef FARPOST
    MPI_Win win;
    const int code = MPI_Win_create(v, sizeof v, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    if (code == MPI_SUCCESS)
        MPI(MPI_Win_free(&win));
    else
        refused(__LINE__, "MPI_Win_create()", code, MPI_ERR_UNSUPPORTED_OPERATION, "MPI_ERR_UNSUPPORTED_OPERATION", NULL, NULL);
#endif
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    snprintf(beyond, sizeof beyond, "%d", check_size);
    RUN(ranks);
    RUN(tags);
    RUN(counts);
    RUN(buffers);
    RUN(output_arguments);
    RUN(null_handles);
    RUN(predefined_may_not_be_freed);
#ifdef FARPOST
    RUN(freed_handles);
    RUN(garbage_handles);
    RUN(handles_of_another_kind);
#endif
    RUN(roots);
    RUN(types_and_operations);
    RUN(groups_and_communicators);
    RUN(info);
    RUN(topologies);
    RUN(errors_and_requests);
    RUN(sessions);
#ifdef FARPOST
    RUN(partitioned);
#endif
    RUN(not_there_yet);
    return check_done();
}
