// ranks: 1 2 4
// settings: FARPOST_DEVICE=fm | FARPOST_DEVICE=portals
// farpost: only
// A tool: it looks at everything before MPI_Init, sets what can be set, counts traffic in sessions, and looks again after
// MPI_Finalize.
// Requirements of MPI-5.0 sections 15.3.3, 15.3.4, 15.3.5, 15.3.6, 15.3.7, 15.3.8, 15.3.9, 15.3.10.
#include "check.h"

#define T(call)                                                                                                                  \
    do {                                                                                                                         \
        int code_ = (call);                                                                                                      \
        if (code_ != MPI_SUCCESS) check_fail(__FILE__, __LINE__, "%s gave %d", #call, code_);                                    \
    } while (0)
#define T_FAILS(call, class_) CHECK_EQ(call, class_)

static int control(const char *name) {
    int index = -1;
    T(MPI_T_cvar_get_index(name, &index));
    return index;
}

static int measure(const char *name, int class) {
    int index = -1;
    T(MPI_T_pvar_get_index(name, class, &index));
    return index;
}

// The value of an integer control variable.
static unsigned long value(const char *name) {
    MPI_T_cvar_handle h;
    int count = 0, kind;
    MPI_Datatype type;
    unsigned long wide = 0;
    T(MPI_T_cvar_get_info(control(name), NULL, NULL, NULL, &type, NULL, NULL, NULL, NULL, NULL));
    T(MPI_T_cvar_handle_alloc(control(name), NULL, &h, &count));
    CHECK_EQ(count, 1);
    if (type == MPI_INT) {
        T(MPI_T_cvar_read(h, &kind));
        wide = (unsigned long)kind;
    } else {
        T(MPI_T_cvar_read(h, &wide));
    }
    T(MPI_T_cvar_handle_free(&h));
    CHECK(h == MPI_T_CVAR_HANDLE_NULL);
    return wide;
}

static int set(const char *name, unsigned long to) {
    MPI_T_cvar_handle h;
    int count;
    T(MPI_T_cvar_handle_alloc(control(name), NULL, &h, &count));
    const int code = MPI_T_cvar_write(h, &to);
    T(MPI_T_cvar_handle_free(&h));
    return code;
}

TEST(before_anything) {
    int n, provided = -1;
    MPI_T_pvar_session s;
    T_FAILS(MPI_T_cvar_get_num(&n), MPI_T_ERR_NOT_INITIALIZED);
    T_FAILS(MPI_T_pvar_session_create(&s), MPI_T_ERR_NOT_INITIALIZED);
    T_FAILS(MPI_T_event_get_num(&n), MPI_T_ERR_NOT_INITIALIZED);
    T_FAILS(MPI_T_finalize(), MPI_T_ERR_NOT_INITIALIZED);
    T_FAILS(MPI_T_init_thread(MPI_THREAD_SINGLE, NULL), MPI_T_ERR_INVALID);
    T_FAILS(MPI_T_init_thread(-5, &provided), MPI_T_ERR_INVALID);
    T(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_SINGLE);
    // Counted: two beginnings, two ends.
    T(MPI_T_init_thread(MPI_THREAD_FUNNELED, &provided));
    T(MPI_T_finalize());
    T(MPI_T_cvar_get_num(&n));
}

// Names and descriptions come whole, cut, and as lengths only.
TEST(strings) {
    char name[200] = "", cut[8], desc[2000];
    int len = 0, need = 0, n;
    T(MPI_T_cvar_get_num(&n));
    T(MPI_T_cvar_get_info(n - 1, NULL, &need, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    len = sizeof name;
    T(MPI_T_cvar_get_info(n - 1, name, &len, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    CHECK_EQ(len, need);
    CHECK_EQ(strlen(name) + 1, need);
    len = 0;
    T(MPI_T_cvar_get_info(n - 1, cut, &len, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    CHECK_EQ(len, need);
    memset(cut, 'x', sizeof cut);
    len = 5;
    T(MPI_T_cvar_get_info(n - 1, cut, &len, NULL, NULL, NULL, desc, NULL, NULL, NULL));
    CHECK_EQ(strncmp(cut, name, 4), 0);
    CHECK_EQ(cut[4], 0);
    CHECK_EQ(cut[5], 'x');
    CHECK_EQ(len, 5);
}

// Every variable has a name that leads back to it, and can be read; the sum of what categories have is everything.
static MPI_T_pvar_session session;
TEST(all_of_it) {
    int n, n_cat, changed = -1, controls = 0, measures = 0, categories = 0, others[100];
    T(MPI_T_cvar_get_num(&n));
    CHECK(n > 50);
    for (int i = 0; i < n; i++) {
        char name[200], desc[4000];
        int name_len = sizeof name, desc_len = sizeof desc, verbosity = -1, bind = -1, scope = -1, count = -1;
        MPI_Datatype type = MPI_DATATYPE_NULL;
        MPI_T_enum of = MPI_T_ENUM_NULL;
        MPI_T_cvar_handle h;
        T(MPI_T_cvar_get_info(i, name, &name_len, &verbosity, &type, &of, desc, &desc_len, &bind, &scope));
        CHECK_EQ(control(name), i);
        CHECK(strlen(desc) > 10 && verbosity >= MPI_T_VERBOSITY_USER_BASIC && verbosity <= MPI_T_VERBOSITY_MPIDEV_ALL);
        CHECK_EQ(bind, MPI_T_BIND_NO_OBJECT);
        CHECK(scope >= MPI_T_SCOPE_CONSTANT && scope <= MPI_T_SCOPE_ALL_EQ);
        T(MPI_T_cvar_handle_alloc(i, NULL, &h, &count));
        char *text = calloc((size_t)count, sizeof(long));
        T(MPI_T_cvar_read(h, text));
        if (type == MPI_CHAR) CHECK_EQ(strlen(text) + 1, count);
        else CHECK_EQ(count, 1);
        if (of != MPI_T_ENUM_NULL) {
            int items = 0, at = -1, item_len = sizeof name;
            CHECK(type == MPI_INT);
            T(MPI_T_enum_get_info(of, &items, name, &name_len));
            CHECK(*(int *)(void *)text >= 0 && *(int *)(void *)text < items);
            for (int j = 0; j < items; j++, item_len = sizeof name) {
                T(MPI_T_enum_get_item(of, j, &at, name, &item_len));
                CHECK_EQ(at, j);
                CHECK(item_len > 1);
            }
            T_FAILS(MPI_T_enum_get_item(of, items, &at, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
        }
        free(text);
        T(MPI_T_cvar_handle_free(&h));
        T_FAILS(MPI_T_cvar_handle_free(&h), MPI_T_ERR_INVALID_HANDLE);
    }
    int p = 0;
    T(MPI_T_pvar_get_num(&p));
    CHECK(p > 20);
    for (int i = 0; i < p; i++) {
        char name[200], desc[4000];
        int name_len = sizeof name, desc_len = sizeof desc, class, bind, readonly, continuous, atomic, count;
        MPI_Datatype type;
        MPI_T_enum of;
        MPI_T_pvar_handle h;
        T(MPI_T_pvar_get_info(i, name, &name_len, NULL, &class, &type, &of, desc, &desc_len, &bind, &readonly, &continuous, &atomic));
        CHECK_EQ(measure(name, class), i);
        CHECK(class >= MPI_T_PVAR_CLASS_STATE && class <= MPI_T_PVAR_CLASS_GENERIC);
        if (bind != MPI_T_BIND_NO_OBJECT) continue;
        T(MPI_T_pvar_handle_alloc(session, i, NULL, &h, &count));
        CHECK_EQ(count, 1);
        unsigned long now[2] = {0};
        T(MPI_T_pvar_read(session, h, now));
        T(MPI_T_pvar_handle_free(session, &h));
        CHECK(h == MPI_T_PVAR_HANDLE_NULL);
    }
    T(MPI_T_category_get_num(&n_cat));
    T(MPI_T_category_changed(&changed));
    CHECK_EQ(changed, 0);
    for (int i = 0; i < n_cat; i++) {
        char name[200];
        int len = sizeof name, a, b, c, d = -1, index;
        T(MPI_T_category_get_info(i, name, &len, NULL, NULL, &a, &b, &c));
        T(MPI_T_category_get_index(name, &index));
        CHECK_EQ(index, i);
        T(MPI_T_category_get_num_events(i, &d));
        CHECK_EQ(d, 0);
        controls += a, measures += b, categories += c;
        int *list = malloc(sizeof(int) * (size_t)(n + p + 1));
        T(MPI_T_category_get_cvars(i, a, list));
        for (int j = 0; j < a; j++) CHECK(list[j] >= 0 && list[j] < n);
        T(MPI_T_category_get_pvars(i, b, list));
        for (int j = 0; j < b; j++) CHECK(list[j] >= 0 && list[j] < p);
        T(MPI_T_category_get_categories(i, c < 100 ? c : 100, others));
        for (int j = 0; j < c && j < 100; j++) CHECK(others[j] > 0 && others[j] < n_cat);
        T(MPI_T_category_get_events(i, 0, NULL));
        free(list);
    }
    CHECK_EQ(controls, n);
    CHECK_EQ(measures, p);
    CHECK_EQ(categories, n_cat - 1);
}

// Bytes that one message takes to the next rank, seen by two sessions apart.
TEST(traffic) {
    enum { EACH = 1000, MANY = 20, MOST = 1000 }; // longer ones may go from memory to memory
    const int next = (check_rank + 1) % check_size, prev = (check_rank + check_size - 1) % check_size;
    static char out[EACH], in[EACH];
    MPI_T_pvar_session s[2];
    MPI_T_pvar_handle h[2], again;
    MPI_Comm comm = MPI_COMM_WORLD;
    unsigned long first[MOST], before[MOST], after[MOST], other[MOST];
    int count;
    for (int i = 0; i < 2; i++) {
        T(MPI_T_pvar_session_create(&s[i]));
        T(MPI_T_pvar_handle_alloc(s[i], measure("bytes_sent", MPI_T_PVAR_CLASS_AGGREGATE), &comm, &h[i], &count));
        CHECK_EQ(count, check_size);
    }
    T(MPI_T_pvar_start(s[0], h[0]));
    T(MPI_T_pvar_read(s[0], h[0], first));
    for (int i = 0; i < MANY; i++) MPI(MPI_Sendrecv(out, EACH, MPI_CHAR, next, 1, in, EACH, MPI_CHAR, prev, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    T(MPI_T_pvar_read(s[0], h[0], before));
    T(MPI_T_pvar_read(s[1], h[1], other));
    if (check_size > 1) CHECK(before[next] - first[next] >= EACH * MANY);
    for (int i = 0; i < check_size; i++) CHECK_EQ(other[i], 0); // not started
    T(MPI_T_pvar_stop(s[0], h[0]));
    T(MPI_T_pvar_read(s[0], h[0], before));
    MPI(MPI_Sendrecv(out, EACH, MPI_CHAR, next, 1, in, EACH, MPI_CHAR, prev, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    T(MPI_T_pvar_read(s[0], h[0], after));
    CHECK_EQ(memcmp(before, after, sizeof(long) * (size_t)check_size), 0);
    T(MPI_T_pvar_readreset(s[0], h[0], after));
    CHECK_EQ(memcmp(before, after, sizeof(long) * (size_t)check_size), 0);
    T(MPI_T_pvar_read(s[0], h[0], after));
    for (int i = 0; i < check_size; i++) CHECK_EQ(after[i], 0);
    for (int i = 0; i < check_size; i++) after[i] = 1000 + (unsigned long)i;
    T(MPI_T_pvar_write(s[0], h[0], after));
    T(MPI_T_pvar_read(s[0], h[0], before));
    CHECK_EQ(before[check_size - 1], 1000 + check_size - 1);
    T(MPI_T_pvar_start(s[0], MPI_T_PVAR_ALL_HANDLES));
    T(MPI_T_pvar_stop(s[0], MPI_T_PVAR_ALL_HANDLES));
    T(MPI_T_pvar_reset(s[0], MPI_T_PVAR_ALL_HANDLES));
    // A handle belongs to its session, and goes with it.
    T_FAILS(MPI_T_pvar_read(s[1], h[0], after), MPI_T_ERR_INVALID_HANDLE);
    again = h[1];
    T(MPI_T_pvar_handle_free(s[1], &h[1]));
    T_FAILS(MPI_T_pvar_read(s[1], again, after), MPI_T_ERR_INVALID_HANDLE);
    T(MPI_T_pvar_session_free(&s[0]));
    CHECK(s[0] == MPI_T_PVAR_SESSION_NULL);
    T_FAILS(MPI_T_pvar_read(s[0], h[0], after), MPI_T_ERR_INVALID_SESSION);
    T(MPI_T_pvar_session_free(&s[1]));
}

static unsigned long level(MPI_T_pvar_session s, const char *name) {
    MPI_T_pvar_handle h;
    int count;
    unsigned long now = 0;
    T(MPI_T_pvar_handle_alloc(s, measure(name, MPI_T_PVAR_CLASS_LEVEL), NULL, &h, &count));
    T(MPI_T_pvar_read(s, h, &now));
    T_FAILS(MPI_T_pvar_start(s, h), MPI_T_ERR_PVAR_NO_STARTSTOP);
    T_FAILS(MPI_T_pvar_write(s, h, &now), MPI_T_ERR_PVAR_NO_WRITE);
    T_FAILS(MPI_T_pvar_reset(s, h), MPI_T_ERR_PVAR_NO_WRITE);
    T_FAILS(MPI_T_pvar_readreset(s, h, &now), MPI_T_ERR_PVAR_NO_WRITE);
    T(MPI_T_pvar_handle_free(s, &h));
    return now;
}

// Receives that wait, messages that lie here, requests.
TEST(queues) {
    enum { WAITING = 5 };
    MPI_T_pvar_session s;
    MPI_Request q[WAITING];
    int words[WAITING], word = 3, flag = 0;
    T(MPI_T_pvar_session_create(&s));
    const unsigned long posted = level(s, "posted_receives"), requests = level(s, "requests");
    for (int i = 0; i < WAITING; i++) MPI(MPI_Irecv(&words[i], 1, MPI_INT, check_rank, 40 + i, MPI_COMM_WORLD, &q[i]));
    CHECK_EQ(level(s, "posted_receives"), posted + WAITING);
    CHECK_EQ(level(s, "requests"), requests + WAITING);
    for (int i = 0; i < WAITING; i++) MPI(MPI_Send(&word, 1, MPI_INT, check_rank, 40 + i, MPI_COMM_WORLD));
    MPI(MPI_Waitall(WAITING, q, MPI_STATUSES_IGNORE));
    CHECK_EQ(level(s, "posted_receives"), posted);
    CHECK_EQ(level(s, "requests"), requests);
    if (getenv("FARPOST_DEVICE") == NULL) { // others may keep it themselves
        const unsigned long lying = level(s, "unexpected_messages");
        MPI(MPI_Barrier(MPI_COMM_WORLD)); // nobody's message comes before all have looked
        MPI(MPI_Send(&word, 1, MPI_INT, (check_rank + 1) % check_size, 50, MPI_COMM_WORLD));
        while (!flag) MPI(MPI_Iprobe(MPI_ANY_SOURCE, 50, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        CHECK_EQ(level(s, "unexpected_messages") - lying, 1);
        CHECK(level(s, "unexpected_bytes") > 0 || check_size == 1);
        MPI(MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 50, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(level(s, "unexpected_messages"), lying);
    }
    T(MPI_T_pvar_session_free(&s));
}

// What was set before MPI_Init holds, and what may change now changes.
TEST(settings) {
    CHECK_EQ(value("FARPOST_EAGER_MAX"), 12345);
    CHECK_EQ(value("FARPOST_COLL_BCAST_TREE_MAX"), 777);
    CHECK_EQ(set("FARPOST_EAGER_MAX", 5000), MPI_SUCCESS);
    CHECK_EQ(value("FARPOST_EAGER_MAX"), 5000);
    CHECK_EQ(set("FARPOST_COLL_BCAST_TREE_MAX", 700), MPI_T_ERR_CVAR_SET_NOT_NOW);
    CHECK_EQ(set("FARPOST_YIELDS", 70), MPI_T_ERR_CVAR_SET_NEVER);
    // Messages go on whatever is set.
    const int next = (check_rank + 1) % check_size, prev = (check_rank + check_size - 1) % check_size;
    static char out[100000], in[100000];
    for (unsigned long limit = 0; limit < 200000; limit = limit * 5 + 100) {
        CHECK_EQ(set("FARPOST_EAGER_MAX", limit), MPI_SUCCESS);
        for (int n = 1; n <= 100000; n *= 10) {
            check_fill(out, (size_t)n, (unsigned)n);
            MPI(MPI_Sendrecv(out, n, MPI_CHAR, next, 1, in, n, MPI_CHAR, prev, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_EQ(check_wrong(in, (size_t)n, (unsigned)n), -1);
        }
    }
    CHECK_EQ(set("FARPOST_EAGER_MAX", 1ul << 60), MPI_T_ERR_INVALID);
}

// Nothing here calls an error handler, whatever the arguments.
TEST(mistakes) {
    int n;
    MPI_T_cvar_handle c = MPI_T_CVAR_HANDLE_NULL;
    MPI_T_pvar_session s, no = MPI_T_PVAR_SESSION_NULL;
    MPI_T_pvar_handle h;
    MPI_Comm freed;
    unsigned long now;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    T_FAILS(MPI_T_cvar_get_num(NULL), MPI_T_ERR_INVALID);
    T_FAILS(MPI_T_cvar_get_info(-1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
    T_FAILS(MPI_T_cvar_get_info(1 << 30, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
    T_FAILS(MPI_T_cvar_get_index("no such variable", &n), MPI_T_ERR_INVALID_NAME);
    T_FAILS(MPI_T_cvar_get_index(NULL, &n), MPI_T_ERR_INVALID);
    T_FAILS(MPI_T_cvar_get_index("FARPOST_EAGER_MAX", NULL), MPI_T_ERR_INVALID);
    T_FAILS(MPI_T_cvar_handle_alloc(-3, NULL, &c, &n), MPI_T_ERR_INVALID_INDEX);
    T_FAILS(MPI_T_cvar_handle_alloc(0, NULL, NULL, &n), MPI_T_ERR_INVALID);
    T_FAILS(MPI_T_cvar_read(c, &now), MPI_T_ERR_INVALID_HANDLE);
    T_FAILS(MPI_T_cvar_read((MPI_T_cvar_handle)(uintptr_t)0xdeadbeef, &now), MPI_T_ERR_INVALID_HANDLE);
    T_FAILS(MPI_T_cvar_write(c, &now), MPI_T_ERR_INVALID_HANDLE);
    T_FAILS(MPI_T_cvar_handle_free(NULL), MPI_T_ERR_INVALID_HANDLE);
    T_FAILS(MPI_T_enum_get_info(MPI_T_ENUM_NULL, &n, NULL, NULL), MPI_T_ERR_INVALID_HANDLE);
    T_FAILS(MPI_T_pvar_get_info(-1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
    T_FAILS(MPI_T_pvar_get_index("bytes_sent", MPI_T_PVAR_CLASS_TIMER, &n), MPI_T_ERR_INVALID_NAME);
    T_FAILS(MPI_T_pvar_handle_alloc(no, 0, NULL, &h, &n), MPI_T_ERR_INVALID_SESSION);
    T_FAILS(MPI_T_pvar_session_free(&no), MPI_T_ERR_INVALID_SESSION);
    T_FAILS(MPI_T_pvar_session_free(NULL), MPI_T_ERR_INVALID_SESSION);
    T(MPI_T_pvar_session_create(&s));
    T_FAILS(MPI_T_pvar_handle_alloc(s, 12345, NULL, &h, &n), MPI_T_ERR_INVALID_INDEX);
    const int sent = measure("bytes_sent", MPI_T_PVAR_CLASS_AGGREGATE);
    T_FAILS(MPI_T_pvar_handle_alloc(s, sent, NULL, &h, &n), MPI_T_ERR_INVALID_HANDLE);
    MPI_Comm_dup(MPI_COMM_SELF, &freed);
    MPI_Comm gone = freed;
    T(MPI_T_pvar_handle_alloc(s, sent, &freed, &h, &n));
    CHECK_EQ(n, 1);
    MPI_Comm_free(&freed);
    T(MPI_T_pvar_read(s, h, &now)); // of processes, which stay
    T_FAILS(MPI_T_pvar_handle_alloc(s, sent, &gone, &h, &n), MPI_T_ERR_INVALID_HANDLE);
    T_FAILS(MPI_T_pvar_read(s, MPI_T_PVAR_ALL_HANDLES, &now), MPI_T_ERR_INVALID_HANDLE);
    T_FAILS(MPI_T_pvar_start(s, MPI_T_PVAR_HANDLE_NULL), MPI_T_ERR_INVALID_HANDLE);
    T(MPI_T_pvar_session_free(&s));
    T_FAILS(MPI_T_category_get_info(-1, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
    T_FAILS(MPI_T_category_get_cvars(0, 3, NULL), MPI_T_ERR_INVALID);
    T_FAILS(MPI_T_category_get_index("none", &n), MPI_T_ERR_INVALID_NAME);
    // No event types, and no sources.
    MPI_T_event_registration r;
    MPI_Count ticks;
    T(MPI_T_event_get_num(&n));
    CHECK_EQ(n, 0);
    T(MPI_T_source_get_num(&n));
    CHECK_EQ(n, 0);
    T_FAILS(MPI_T_event_get_index("none", &n), MPI_T_ERR_INVALID_NAME);
    T_FAILS(MPI_T_event_handle_alloc(0, NULL, MPI_INFO_NULL, &r), MPI_T_ERR_INVALID_INDEX);
    T_FAILS(MPI_T_source_get_timestamp(0, &ticks), MPI_T_ERR_INVALID_INDEX);
    T_FAILS(MPI_T_event_read((MPI_T_event_instance)0, 0, &now), MPI_T_ERR_INVALID_HANDLE);
    char text[MPI_MAX_ERROR_STRING];
    MPI_Error_string(MPI_T_ERR_PVAR_NO_WRITE, text, &n);
    CHECK(n > 0);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
}

static int stage(MPI_T_pvar_session s) {
    MPI_T_pvar_handle h;
    int count, now = -1;
    T(MPI_T_pvar_handle_alloc(s, measure("stage", MPI_T_PVAR_CLASS_STATE), NULL, &h, &count));
    T(MPI_T_pvar_read(s, h, &now));
    T(MPI_T_pvar_handle_free(s, &h));
    return now;
}

int main(int argc, char **argv) {
    MPI_T_pvar_handle h;
    int count;
    unsigned long seen = 0, late = 0;
    check_clock();
    before_anything();
    strings();
    T(MPI_T_pvar_session_create(&session));
    all_of_it();
    CHECK_EQ(stage(session), 0);
    CHECK_EQ(set("FARPOST_EAGER_MAX", 12345), MPI_SUCCESS);
    CHECK_EQ(set("FARPOST_COLL_BCAST_TREE_MAX", 777), MPI_SUCCESS);
    CHECK_EQ(set("FARPOST_YIELDS", 70), MPI_T_ERR_CVAR_SET_NEVER);
    CHECK_EQ(value("FARPOST_EAGER_MAX"), 12345);
    MPI_Init(&argc, &argv);
    check_started();
    CHECK_EQ(stage(session), 1);
    T(MPI_T_pvar_handle_alloc(session, measure("communicators", MPI_T_PVAR_CLASS_SIZE), NULL, &h, &count));
    T(MPI_T_pvar_read(session, h, &seen));
    CHECK_EQ(seen, 2);
    RUN(settings);
    RUN(traffic);
    RUN(queues);
    RUN(mistakes);
    check_test = "all_of_it";
    all_of_it();
    const int failed = check_done();
    check_test = "after";
    CHECK_EQ(stage(session), 2);
    T(MPI_T_pvar_read(session, h, &late));
    CHECK_EQ(late, seen); // as it was last seen
    all_of_it();
    T(MPI_T_finalize());
    T_FAILS(MPI_T_pvar_read(session, h, &late), MPI_T_ERR_NOT_INITIALIZED);
    T_FAILS(MPI_T_finalize(), MPI_T_ERR_NOT_INITIALIZED);
    return failed || check_failures;
}
