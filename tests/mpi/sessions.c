// ranks: 1 2 4
// Sessions beside the world model (MPI-5.0 section 11.3): process sets, groups and communicators from them, several at once and one
// after the other, their error handlers and buffers, what is left at MPI_Session_finalize, and what is not mixed.
// Requirements of MPI-5.0 sections 3.6, 7.4.2, 9.3, 11.3.1, 11.3.2, 11.3.3.
#include "check.h"
#include <pthread.h>

static MPI_Session begin(void) {
    MPI_Session s = MPI_SESSION_NULL;
    MPI(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &s));
    CHECK(s != MPI_SESSION_NULL);
    return s;
}

static MPI_Group group_of(MPI_Session s, const char *pset) {
    MPI_Group g = MPI_GROUP_NULL;
    MPI(MPI_Group_from_session_pset(s, pset, &g));
    return g;
}

static MPI_Comm comm_of(MPI_Session s, const char *pset, const char *tag) {
    MPI_Group g = group_of(s, pset);
    MPI_Comm c = MPI_COMM_NULL;
    MPI(MPI_Comm_create_from_group(g, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &c));
    MPI(MPI_Group_free(&g));
    return c;
}

static int sum(MPI_Comm c) {
    int one = 1, all = -1;
    MPI(MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, c));
    return all;
}

TEST(process_sets) {
    MPI_Session s = begin();
    int n = -1, world = 0, own = 0;
    MPI(MPI_Session_get_num_psets(s, MPI_INFO_NULL, &n));
    CHECK(n >= 2);
    for (int i = 0; i < n; i++) {
        char name[MPI_MAX_PSET_NAME_LEN], cut[4] = "...";
        int len = 0, needed = sizeof name, few = sizeof cut, size = 0, flag = 0, room = 16;
        char value[16];
        MPI_Info info;
        // Only asked; the whole; what there is room for. The length is told each time.
        MPI(MPI_Session_get_nth_pset(s, MPI_INFO_NULL, i, &len, NULL));
        MPI(MPI_Session_get_nth_pset(s, MPI_INFO_NULL, i, &needed, name));
        MPI(MPI_Session_get_nth_pset(s, MPI_INFO_NULL, i, &few, cut));
        CHECK_EQ(len, strlen(name) + 1);
        CHECK_EQ(needed, len);
        CHECK_EQ(few, len);
        CHECK(strlen(cut) == 3 && strncmp(cut, name, 3) == 0);
        world += strcmp(name, "mpi://WORLD") == 0;
        own += strcmp(name, "mpi://SELF") == 0;
        MPI(MPI_Session_get_pset_info(s, name, &info));
        MPI(MPI_Info_get_string(info, "mpi_size", &room, value, &flag));
        CHECK(flag);
        MPI(MPI_Info_free(&info));
        MPI_Group g = group_of(s, name);
        MPI(MPI_Group_size(g, &size));
        CHECK_EQ(atoi(value), size);
        CHECK_EQ(strcmp(name, "mpi://WORLD") ? size >= 1 : size == check_size, 1);
        int me = MPI_UNDEFINED;
        MPI(MPI_Group_rank(g, &me));
        CHECK(me >= 0 && me < size);
        MPI(MPI_Group_free(&g));
    }
    CHECK_EQ(world, 1);
    CHECK_EQ(own, 1);
    MPI(MPI_Session_finalize(&s));
    CHECK(s == MPI_SESSION_NULL);
}

TEST(what_is_in_force) {
    static const char *levels[] = {"MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"};
    for (int i = 0; i < COUNT(levels); i++) {
        MPI_Info info, used = MPI_INFO_NULL;
        MPI_Session s;
        char value[64] = "";
        int room = sizeof value, flag = 0;
        MPI(MPI_Info_create(&info));
        MPI(MPI_Info_set(info, "thread_level", levels[i]));
        MPI(MPI_Session_init(info, MPI_ERRORS_RETURN, &s));
        MPI(MPI_Info_free(&info));
        MPI(MPI_Session_get_info(s, &used));
        MPI(MPI_Info_get_string(used, "thread_level", &room, value, &flag));
        CHECK(flag);
        CHECK_STR(value, levels[i]);
        MPI(MPI_Info_free(&used));
        CHECK(MPI_Session_fromint(MPI_Session_toint(s)) == s);
        MPI(MPI_Session_finalize(&s));
    }
}

TEST(communicators) {
    MPI_Session s = begin();
    MPI_Comm world = comm_of(s, "mpi://WORLD", "org.farpost.world"), own = comm_of(s, "mpi://SELF", "org.farpost.self"), half, none;
    int rank, size, *ub = NULL, flag = 0, how;
    MPI(MPI_Comm_rank(world, &rank));
    MPI(MPI_Comm_size(own, &size));
    CHECK_EQ(rank, check_rank);
    CHECK_EQ(size, 1);
    CHECK_EQ(sum(world), check_size);
    CHECK_EQ(sum(own), 1);
    MPI(MPI_Comm_compare(world, MPI_COMM_WORLD, &how));
    CHECK_EQ(how, MPI_CONGRUENT);
    MPI(MPI_Comm_get_attr(world, MPI_TAG_UB, &ub, &flag));
    CHECK(flag && *ub >= 32767);
    // What is made of one is of the same session.
    MPI(MPI_Comm_split(world, rank % 2, 0, &half));
    CHECK_EQ(sum(half), (check_size + (rank % 2 == 0)) / 2);
    // The empty group: nobody is asked.
    if (rank == 0) {
        none = world;
        MPI(MPI_Comm_create_from_group(MPI_GROUP_EMPTY, "empty", MPI_INFO_NULL, MPI_ERRORS_RETURN, &none));
        CHECK(none == MPI_COMM_NULL);
        none = world;
        MPI(MPI_Intercomm_create_from_groups(MPI_GROUP_EMPTY, 0, MPI_GROUP_EMPTY, 0, "empty", MPI_INFO_NULL, MPI_ERRORS_RETURN, &none));
        CHECK(none == MPI_COMM_NULL);
    }
    MPI(MPI_Comm_free(&half));
    MPI(MPI_Comm_free(&own));
    MPI(MPI_Comm_disconnect(&world));
    MPI(MPI_Session_finalize(&s));
}

TEST(several_sessions) {
    enum { N = 5 };
    MPI_Session s[N];
    MPI_Comm c[N];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) s[i] = begin();
        for (int i = 0; i < N; i++) c[i] = comm_of(s[i], "mpi://WORLD", "several");
        for (int i = N; i-- > 0;) CHECK_EQ(sum(c[i]), check_size);
        // A session that ends takes nothing of the others along.
        for (int i = 0; i < N; i += 2) {
            MPI(MPI_Comm_disconnect(&c[i]));
            MPI(MPI_Session_finalize(&s[i]));
        }
        for (int i = 1; i < N; i += 2) {
            CHECK_EQ(sum(c[i]), check_size);
            MPI(MPI_Comm_free(&c[i]));
            MPI(MPI_Session_finalize(&s[i]));
        }
    }
    CHECK_EQ(sum(MPI_COMM_WORLD), check_size);
}

TEST(groups_between) {
    if (check_size < 2) return;
    MPI_Session s = begin();
    MPI_Group all = group_of(s, "mpi://WORLD"), mine, theirs;
    MPI_Comm inter = MPI_COMM_NULL;
    int range[2][3] = {{0, check_size - 1, 2}, {1, check_size - 1, 2}}, n, got = -1;
    if (check_size == 2) range[1][1] = 1;
    MPI(MPI_Group_range_incl(all, 1, &range[check_rank % 2], &mine));
    MPI(MPI_Group_range_incl(all, 1, &range[1 - check_rank % 2], &theirs));
    MPI(MPI_Intercomm_create_from_groups(mine, 0, theirs, 0, "between", MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter));
    MPI(MPI_Comm_remote_size(inter, &n));
    CHECK_EQ(n, (check_size + check_rank % 2) / 2);
    MPI(MPI_Allreduce(&check_rank, &got, 1, MPI_INT, MPI_MIN, inter));
    CHECK_EQ(got, 1 - check_rank % 2);
    MPI(MPI_Comm_disconnect(&inter));
    MPI(MPI_Group_free(&mine));
    MPI(MPI_Group_free(&theirs));
    MPI(MPI_Group_free(&all));
    MPI(MPI_Session_finalize(&s));
}

// --- Threads --------------------------------------------------------------------------------------------------------------------
enum { THREADS = 4, ROUNDS = 20 };
static MPI_Group subset[THREADS];
static int wrong[THREADS];

// Each thread makes communicators of a group of its own, from all processes down to one, under strings of its own, all at once.
static void *makes_communicators(void *arg) {
    const int id = (int)(long)arg;
    int members = 0, me = MPI_UNDEFINED;
    MPI_Group_size(subset[id], &members);
    MPI_Group_rank(subset[id], &me);
    for (int round = 0; round < ROUNDS && me != MPI_UNDEFINED; round++) {
        char tag[64];
        MPI_Comm c = MPI_COMM_NULL;
        int value = id * 1000 + round, got = -1, rank = -1;
        snprintf(tag, sizeof tag, "thread %d", id);
        if (MPI_Comm_create_from_group(subset[id], tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &c) != MPI_SUCCESS) {
            wrong[id]++;
            break;
        }
        MPI_Comm_rank(c, &rank);
        wrong[id] += rank != me;
        // Who got another thread's communicator hears its number.
        MPI_Allreduce(&value, &got, 1, MPI_INT, MPI_SUM, c);
        wrong[id] += got != value * members;
        MPI_Comm_free(&c);
    }
    return NULL;
}

TEST(threads_at_once) {
    MPI_Session s = begin();
    MPI_Group all = group_of(s, "mpi://WORLD");
    pthread_t t[THREADS];
    for (long i = 0; i < THREADS; i++) {
        int range[1][3] = {{i < check_size ? (int)i : 0, check_size - 1, 1}};
        wrong[i] = 0;
        MPI(MPI_Group_range_incl(all, 1, range, &subset[i]));
    }
    for (long i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, makes_communicators, (void *)i);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(t[i], NULL);
        CHECK_EQ(wrong[i], 0);
        MPI(MPI_Group_free(&subset[i]));
    }
    MPI(MPI_Group_free(&all));
    MPI(MPI_Session_finalize(&s));
}

// --- Error handlers -------------------------------------------------------------------------------------------------------------
static int heard, heard_comm;
static MPI_Session heard_of;
static void handler(MPI_Session *s, int *code, ...) {
    heard_of = *s;
    MPI_Error_class(*code, &heard);
}
static void comm_handler(MPI_Comm *c, int *code, ...) {
    (void)c;
    MPI_Error_class(*code, &heard_comm);
}

TEST(error_handlers) {
    MPI_Session s = MPI_SESSION_NULL, bad = s;
    MPI_Errhandler mine, got, of_comm;
    MPI_Group g = MPI_GROUP_NULL;
    MPI_Info info;
    MPI(MPI_Session_create_errhandler(handler, &mine));
    MPI(MPI_Comm_create_errhandler(comm_handler, &of_comm));
    MPI(MPI_Session_init(MPI_INFO_NULL, mine, &s));
    MPI(MPI_Session_get_errhandler(s, &got));
    CHECK(got == mine);
    MPI(MPI_Errhandler_free(&got));
    heard = 0;
    MPI_FAILS(MPI_Group_from_session_pset(s, "mpi://NOWHERE", &g), MPI_ERR_ARG);
    CHECK(heard == MPI_ERR_ARG && heard_of == s && g == MPI_GROUP_NULL);
    MPI(MPI_Session_call_errhandler(s, MPI_ERR_TYPE));
    CHECK_EQ(heard, MPI_ERR_TYPE);
    MPI_FAILS(MPI_Session_set_errhandler(s, of_comm), MPI_ERR_ERRHANDLER);
    MPI(MPI_Session_set_errhandler(s, MPI_ERRORS_RETURN));
    heard = 0;
    MPI_FAILS(MPI_Group_from_session_pset(s, "mpi://NOWHERE", &g), MPI_ERR_ARG);
    CHECK_EQ(heard, 0);
    // What is to be made has a handler already.
    MPI(MPI_Info_create(&info));
    MPI(MPI_Info_set(info, "thread_level", "MPI_THREAD_SOME"));
    heard_of = s;
    MPI_FAILS(MPI_Session_init(info, mine, &bad), MPI_ERR_INFO_VALUE);
    CHECK(heard == MPI_ERR_INFO_VALUE && heard_of == MPI_SESSION_NULL && bad == MPI_SESSION_NULL);
    MPI(MPI_Info_free(&info));
    MPI_Comm c = MPI_COMM_WORLD, d;
    char *tag = malloc(MPI_MAX_STRINGTAG_LEN + 1);
    memset(tag, 'x', MPI_MAX_STRINGTAG_LEN);
    tag[MPI_MAX_STRINGTAG_LEN] = 0;
    g = group_of(s, "mpi://WORLD");
    MPI_FAILS(MPI_Comm_create_from_group(g, tag, MPI_INFO_NULL, of_comm, &c), MPI_ERR_ARG);
    CHECK(heard_comm == MPI_ERR_ARG && c == MPI_COMM_NULL);
    tag[MPI_MAX_STRINGTAG_LEN - 1] = 0;
    MPI(MPI_Comm_create_from_group(g, tag, MPI_INFO_NULL, of_comm, &c));
    free(tag);
    // And what is made of it in turn.
    MPI(MPI_Comm_dup(c, &d));
    heard_comm = 0;
    MPI_FAILS(MPI_Send(NULL, 0, MPI_INT, check_size, 0, d), MPI_ERR_RANK);
    CHECK_EQ(heard_comm, MPI_ERR_RANK);
    MPI(MPI_Comm_free(&d));
    MPI(MPI_Comm_free(&c));
    MPI(MPI_Group_free(&g));
    MPI(MPI_Errhandler_free(&mine));
    MPI(MPI_Errhandler_free(&of_comm));
    MPI(MPI_Session_finalize(&s));
}

// --- Buffers --------------------------------------------------------------------------------------------------------------------
TEST(buffers) {
    MPI_Session s = begin(), other = begin();
    MPI_Comm c = comm_of(s, "mpi://WORLD", "buffers"), d = comm_of(other, "mpi://WORLD", "buffers of the other");
    static char room[4000 + MPI_BSEND_OVERHEAD], out[4000], in[4000];
    const int to = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size;
    void *back = NULL;
    int size = -1;
    MPI_Request r;
    MPI(MPI_Session_attach_buffer(s, room, sizeof room));
    MPI_FAILS(MPI_Session_attach_buffer(s, room, sizeof room), MPI_ERR_BUFFER);
    for (int round = 0; round < 3; round++) {
        check_fill(out, sizeof out, (unsigned)(check_rank + round));
        MPI(MPI_Bsend(out, sizeof out, MPI_CHAR, to, round, c));
        // The buffer is for this session.
        MPI_FAILS(MPI_Bsend(out, sizeof out, MPI_CHAR, to, round, d), MPI_ERR_BUFFER);
        memset(out, 0, sizeof out);
        MPI(MPI_Recv(in, sizeof in, MPI_CHAR, from, round, c, MPI_STATUS_IGNORE));
        CHECK_EQ(check_wrong(in, sizeof in, (unsigned)(from + round)), -1);
        MPI(MPI_Session_flush_buffer(s));
        MPI(MPI_Session_iflush_buffer(s, &r));
        MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
    }
    MPI(MPI_Session_detach_buffer(s, &back, &size));
    CHECK(back == room && size == (int)sizeof room);
    MPI_Count large = -1;
    MPI(MPI_Session_attach_buffer_c(s, room, sizeof room));
    MPI(MPI_Session_detach_buffer_c(s, &back, &large));
    CHECK(back == room && large == (MPI_Count)sizeof room);
    MPI(MPI_Session_attach_buffer(s, MPI_BUFFER_AUTOMATIC, 0));
    MPI(MPI_Bsend(out, 4000, MPI_CHAR, to, 9, c));
    MPI(MPI_Recv(in, 4000, MPI_CHAR, from, 9, c, MPI_STATUS_IGNORE));
    // One that is attached still is let go.
    MPI(MPI_Comm_disconnect(&c));
    MPI(MPI_Comm_disconnect(&d));
    MPI(MPI_Session_finalize(&s));
    MPI(MPI_Session_finalize(&other));
}

// --- What is left ---------------------------------------------------------------------------------------------------------------
static int deleted;
static int goes(MPI_Comm c, int key, void *value, void *extra) {
    (void)c, (void)key, (void)extra;
    deleted += (int)(intptr_t)value;
    return MPI_SUCCESS;
}

TEST(left_at_the_end) {
    MPI_Session s = begin(), kept;
    MPI_Comm c = comm_of(s, "mpi://WORLD", "left"), d;
    const int to = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size;
    const int n = 1 << 20;
    char *out = malloc((size_t)n), *in = malloc((size_t)n);
    int x = 0, key;
    MPI_Request r;
    MPI(MPI_Comm_dup(c, &d));
    MPI(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, goes, &key, NULL));
    MPI(MPI_Comm_set_attr(d, key, (void *)5));
    MPI(MPI_Comm_free_keyval(&key));
    // A receive that waits for somebody: nothing has ended yet.
    kept = s;
    MPI(MPI_Irecv(&x, 1, MPI_INT, from, 1, c, &r));
    MPI_FAILS(MPI_Session_finalize(&s), MPI_ERR_PENDING);
    CHECK(s == kept);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    MPI(MPI_Send(&check_rank, 1, MPI_INT, to, 1, c));
    MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
    CHECK_EQ(x, from);
    // What was sent goes out, also by a request that was let go; communicators are freed with their attributes.
    check_fill(out, (size_t)n, (unsigned)check_rank);
    MPI(MPI_Isend(out, n, MPI_CHAR, to, 2, c, &r));
    MPI(MPI_Request_free(&r));
    MPI(MPI_Recv(in, n, MPI_CHAR, from, 2, c, MPI_STATUS_IGNORE));
    deleted = 0;
    MPI(MPI_Session_finalize(&s));
    memset(out, 0, (size_t)n);
    CHECK_EQ(check_wrong(in, (size_t)n, (unsigned)from), -1);
    CHECK(s == MPI_SESSION_NULL);
    CHECK_EQ(deleted, 5);
    MPI_FAILS(MPI_Send(&x, 1, MPI_INT, to, 3, c), MPI_ERR_COMM);
    MPI_FAILS(MPI_Session_finalize(&kept), MPI_ERR_SESSION);
    free(out);
    free(in);
}

// Objects of one session, of another, and of none are not used together.
TEST(not_mixed) {
    MPI_Session s = begin(), other = begin();
    MPI_Group one = group_of(s, "mpi://WORLD"), two = group_of(other, "mpi://WORLD"), three, made, empty;
    MPI_Comm c = comm_of(s, "mpi://WORLD", "mixed"), new;
    int same = -1;
    MPI(MPI_Comm_group(MPI_COMM_WORLD, &three));
    MPI_FAILS(MPI_Group_union(one, two, &made), MPI_ERR_SESSION);
    MPI_FAILS(MPI_Group_intersection(two, three, &made), MPI_ERR_SESSION);
    MPI_FAILS(MPI_Group_difference(three, one, &made), MPI_ERR_SESSION);
    MPI_FAILS(MPI_Comm_create(c, two, &new), MPI_ERR_SESSION);
    MPI_FAILS(MPI_Comm_create_group(c, three, 1, &new), MPI_ERR_SESSION);
    MPI_FAILS(MPI_Comm_create(MPI_COMM_WORLD, one, &new), MPI_ERR_SESSION);
    // They may be looked at beside each other, and nobody is in the empty one.
    MPI(MPI_Group_compare(one, three, &same));
    CHECK_EQ(same, MPI_IDENT);
    MPI(MPI_Group_difference(one, one, &empty));
    CHECK(empty == MPI_GROUP_EMPTY);
    MPI(MPI_Group_union(one, MPI_GROUP_EMPTY, &made));
    MPI(MPI_Group_free(&made));
    MPI(MPI_Group_union(MPI_GROUP_EMPTY, two, &made));
    MPI(MPI_Comm_free(&c));
    MPI(MPI_Session_finalize(&other));
    // A group is looked at when its session has gone, and makes nothing.
    MPI(MPI_Group_compare(one, made, &same));
    CHECK_EQ(same, MPI_IDENT);
    MPI_FAILS(MPI_Comm_create_from_group(made, "late", MPI_INFO_NULL, MPI_ERRORS_RETURN, &new), MPI_ERR_SESSION);
    MPI(MPI_Group_free(&made));
    MPI(MPI_Group_free(&one));
    MPI(MPI_Group_free(&two));
    MPI(MPI_Group_free(&three));
    MPI(MPI_Session_finalize(&s));
}

int main(int argc, char **argv) {
    check_clock();
    int provided = -1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_started();
    RUN(process_sets);
    RUN(what_is_in_force);
    RUN(communicators);
    RUN(several_sessions);
    RUN(groups_between);
    RUN(threads_at_once);
    RUN(error_handlers);
    RUN(buffers);
    RUN(left_at_the_end);
    RUN(not_mixed);
    return check_done();
}
