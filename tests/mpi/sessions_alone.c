// ranks: 1 2 4
// args: alone | before | beside | after
// Sessions without the world model, before it, beside its end and after it (MPI-5.0 sections 11.3.1 and 11.2.1): what the inquiries say,
// the first one made by several threads at once, one after the other. Where a job has several hosts a process that has finalised has
// left it, and is told so.
#include "check.h"
#include <pthread.h>

static int failed_to_begin, one_host;

static MPI_Session begin(void) {
    MPI_Session s = MPI_SESSION_NULL;
    MPI(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &s));
    return s;
}

// A session after everything was finalised: it works, or the error says why it cannot.
static MPI_Session begin_again(void) {
    MPI_Session s = MPI_SESSION_NULL;
    const int code = MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &s);
    if (code != MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING] = "";
        int len = 0, class_ = -1;
        MPI_Error_string(code, text, &len);
        MPI_Error_class(code, &class_);
        CHECK_EQ(class_, MPI_ERR_OTHER);
        CHECK(s == MPI_SESSION_NULL);
#ifdef FARPOST
        if (!strstr(text, "has left its job")) check_fail(__FILE__, __LINE__, "not said why: %s", text);
#endif
        failed_to_begin = 1;
    }
    return s;
}

static void ring(MPI_Comm c, int round) {
    int rank, size, got = -1, all = 0;
    MPI(MPI_Comm_rank(c, &rank));
    MPI(MPI_Comm_size(c, &size));
    const int out = rank * 100 + round, from = (rank + size - 1) % size;
    MPI(MPI_Sendrecv(&out, 1, MPI_INT, (rank + 1) % size, round, &got, 1, MPI_INT, from, round, c, MPI_STATUS_IGNORE));
    CHECK_EQ(got, from * 100 + round);
    MPI(MPI_Allreduce(&rank, &all, 1, MPI_INT, MPI_SUM, c));
    CHECK_EQ(all, size * (size - 1) / 2);
}

static MPI_Comm everybody(MPI_Session s, const char *tag) {
    MPI_Group g;
    MPI_Comm c = MPI_COMM_NULL;
    MPI(MPI_Group_from_session_pset(s, "mpi://WORLD", &g));
    MPI(MPI_Comm_create_from_group(g, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &c));
    MPI(MPI_Group_free(&g));
    return c;
}

static void works(MPI_Session s, int round) {
    MPI_Comm c = everybody(s, "works");
    if (check_rank < 0) {
        MPI(MPI_Comm_rank(c, &check_rank));
        MPI(MPI_Comm_size(c, &check_size));
    }
#ifdef FARPOST
    MPI_Group g;
    int beside = 0;
    MPI(MPI_Group_from_session_pset(s, "farpost://HOST", &g));
    MPI(MPI_Group_size(g, &beside));
    MPI(MPI_Group_free(&g));
    one_host = beside == check_size;
#endif
    ring(c, round);
    MPI(MPI_Comm_disconnect(&c));
}

static void inquire(int initialised, int finalised) {
    int i = -1, f = -1;
    MPI(MPI_Initialized(&i));
    MPI(MPI_Finalized(&f));
    CHECK_EQ(i, initialised);
    CHECK_EQ(f, finalised);
}

static pthread_barrier_t begun;

static void *first_of_all(void *arg) {
    const int id = (int)(long)arg;
    char tag[32];
    snprintf(tag, sizeof tag, "first %d", id);
    MPI_Session s = begin();
    pthread_barrier_wait(&begun);
    MPI_Comm c = everybody(s, tag);
    ring(c, id);
    MPI(MPI_Comm_free(&c));
    MPI(MPI_Session_finalize(&s));
    return NULL;
}

static void alone(void) {
    enum { THREADS = 3 };
    pthread_t t[THREADS];
    inquire(0, 0);
    // So that none of the threads ends what is open while another one has yet to begin, which not all processes would see.
    MPI_Session all = MPI_SESSION_NULL;
    pthread_barrier_init(&begun, NULL, THREADS + 1);
    for (long i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, first_of_all, (void *)i);
    all = begin();
    pthread_barrier_wait(&begun);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    works(all, 1);
    inquire(0, 0);
    MPI(MPI_Session_finalize(&all));
    for (int round = 0; round < 3; round++) {
        // Once when all have ended for a while.
        if (round == 1) usleep(200000);
        MPI_Session s = begin_again();
        if (s == MPI_SESSION_NULL) break;
        works(s, round);
        inquire(0, 0);
        // Sent to somebody who looks only when this process has finalised.
        MPI_Comm c = everybody(s, "last");
        int x = check_rank;
        if (check_size > 1) {
            if (check_rank == 0) MPI(MPI_Send(&x, 1, MPI_INT, 1, 0, c));
            if (check_rank == 1) {
                usleep(30000);
                MPI(MPI_Recv(&x, 1, MPI_INT, 0, 0, c, MPI_STATUS_IGNORE));
                CHECK_EQ(x, 0);
            }
        }
        MPI(MPI_Comm_free(&c));
        MPI(MPI_Session_finalize(&s));
    }
}

static void before(int argc, char **argv) {
    MPI_Session s = begin();
    works(s, 1);
    MPI_Comm c = everybody(s, "before");
    inquire(0, 0);
    MPI(MPI_Init(&argc, &argv));
    inquire(1, 0);
    check_started();
    ring(c, 2);
    ring(MPI_COMM_WORLD, 3);
    MPI(MPI_Comm_disconnect(&c));
    MPI(MPI_Session_finalize(&s));
    ring(MPI_COMM_WORLD, 4);
    MPI(MPI_Finalize());
    inquire(1, 1);
}

static void beside(int argc, char **argv) {
    MPI(MPI_Init(&argc, &argv));
    check_started();
    MPI_Session s = begin();
    MPI_Comm c = everybody(s, "beside");
    ring(c, 1);
    MPI(MPI_Finalize());
    inquire(1, 1);
    ring(c, 2);
    works(s, 3);
    MPI_Session t = begin();
    works(t, 4);
    MPI(MPI_Session_finalize(&t));
    MPI_Group g = MPI_GROUP_NULL;
    MPI(MPI_Group_from_session_pset(s, "mpi://SELF", &g));
    MPI(MPI_Group_free(&g));
    MPI(MPI_Comm_disconnect(&c));
    MPI(MPI_Session_finalize(&s));
}

static void after(int argc, char **argv) {
    MPI(MPI_Init(&argc, &argv));
    check_started();
    ring(MPI_COMM_WORLD, 1);
    one_host = check_size == 1;
    MPI(MPI_Finalize());
    for (int round = 0; round < 2; round++) {
        MPI_Session s = begin_again();
        if (s == MPI_SESSION_NULL) return;
        works(s, round);
        inquire(1, 1);
        MPI(MPI_Session_finalize(&s));
    }
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "alone";
    check_clock();
    check_test = what;
    if (strcmp(what, "alone") == 0) alone();
    if (strcmp(what, "before") == 0) before(argc, argv);
    if (strcmp(what, "beside") == 0) beside(argc, argv);
    if (strcmp(what, "after") == 0) after(argc, argv);
#ifdef FARPOST
    // Other fabrics carry messages within a host too, when they are told to.
    if (failed_to_begin && one_host && !getenv("FARPOST_FABRIC")) check_fail(__FILE__, __LINE__, "no session could follow on one host");
#endif
    (void)failed_to_begin, (void)one_host;
    return check_failures ? 1 : 0;
}
