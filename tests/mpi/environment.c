// simulated: no, it sleeps in real time and asks MPI_Wtime
// ranks: 1 2 3
// args: init | single | funneled | serialized | multiple | late
// Starting and ending, thread levels, versions, clocks, generalized requests, status queries, memory.
// Requirements of MPI-5.0 sections 3.2.5, 9.1.1, 9.2, 9.6, 11.2.1, 13.2, 13.3, 20.2, 20.4.
#include "check.h"
#include <math.h>
#include <pthread.h>

static int query(void *extra, MPI_Status *st) {
    MPI_Status_set_elements(st, MPI_INT, 3);
    MPI_Status_set_cancelled(st, 0);
    st->MPI_SOURCE = 5;
    st->MPI_TAG = 6;
    *(int *)extra += 1;
    return MPI_SUCCESS;
}
static int freed;
static int free_fn(void *extra) {
    (void)extra;
    freed++;
    return MPI_SUCCESS;
}
static int cancelled_with = -1;
static int cancel_fn(void *extra, int complete) {
    (void)extra;
    cancelled_with = complete;
    return MPI_SUCCESS;
}
static void *complete_later(void *r) {
    usleep(30000);
    MPI_Grequest_complete(*(MPI_Request *)r);
    return NULL;
}

TEST(generalized_requests) {
    MPI_Request r, copy;
    MPI_Status st;
    int calls = 0, flag = 1, n = -1, level;
    MPI(MPI_Grequest_start(query, free_fn, cancel_fn, &calls, &r));
    MPI(MPI_Test(&r, &flag, &st));
    CHECK(!flag);
    MPI(MPI_Cancel(&r));
    CHECK_EQ(cancelled_with, 0);
    MPI(MPI_Grequest_complete(r));
    MPI(MPI_Wait(&r, &st));
    CHECK(r == MPI_REQUEST_NULL);
    CHECK(calls == 1 && freed == 1);
    CHECK(st.MPI_SOURCE == 5 && st.MPI_TAG == 6);
    MPI(MPI_Get_elements(&st, MPI_INT, &n));
    CHECK_EQ(n, 3);
    MPI(MPI_Query_thread(&level));
    if (level == MPI_THREAD_MULTIPLE) {
        pthread_t t;
        MPI(MPI_Grequest_start(query, free_fn, cancel_fn, &calls, &r));
        copy = r;
        pthread_create(&t, NULL, complete_later, &copy);
        MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
        pthread_join(t, NULL);
        CHECK_EQ(freed, 2);
    }
}

TEST(status_queries) {
    MPI_Status st;
    int n = -1, flag = -1;
    MPI_Count c = -1;
    memset(&st, 0, sizeof st);
    MPI(MPI_Status_set_elements(&st, MPI_DOUBLE, 7));
    MPI(MPI_Get_elements(&st, MPI_DOUBLE, &n));
    CHECK_EQ(n, 7);
    MPI(MPI_Get_count(&st, MPI_DOUBLE, &n));
    CHECK_EQ(n, 7);
    MPI(MPI_Status_set_elements_c(&st, MPI_BYTE, (MPI_Count)1 << 33));
    MPI(MPI_Get_elements_c(&st, MPI_BYTE, &c));
    CHECK_EQ(c, (MPI_Count)1 << 33);
    MPI(MPI_Get_count(&st, MPI_BYTE, &n));
    CHECK_EQ(n, MPI_UNDEFINED);
    MPI(MPI_Status_set_elements_x(&st, MPI_BYTE, 5));
    MPI(MPI_Get_count(&st, MPI_SHORT, &n));
    CHECK_EQ(n, MPI_UNDEFINED);
    MPI(MPI_Status_set_cancelled(&st, 1));
    MPI(MPI_Test_cancelled(&st, &flag));
    CHECK(flag);
    MPI(MPI_Status_set_cancelled(&st, 0));
    MPI(MPI_Test_cancelled(&st, &flag));
    CHECK(!flag);
    MPI(MPI_Status_set_source(&st, 3));
    MPI(MPI_Status_set_tag(&st, 4));
    MPI(MPI_Status_set_error(&st, MPI_ERR_TYPE));
    CHECK(st.MPI_SOURCE == 3 && st.MPI_TAG == 4 && st.MPI_ERROR == MPI_ERR_TYPE);
    MPI(MPI_Status_get_source(&st, &n));
    CHECK_EQ(n, 3);
    MPI(MPI_Status_get_tag(&st, &n));
    CHECK_EQ(n, 4);
    MPI(MPI_Status_get_error(&st, &n));
    CHECK_EQ(n, MPI_ERR_TYPE);
}

TEST(inquiry) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int a = -1, b = -1, n = -1, flag = 0;
    MPI(MPI_Get_version(&a, &b));
    CHECK(a == MPI_VERSION && b == MPI_SUBVERSION);
    MPI(MPI_Abi_get_version(&a, &b));
    CHECK(a == MPI_ABI_VERSION && b == MPI_ABI_SUBVERSION);
    MPI(MPI_Get_library_version(text, &n));
    CHECK(n > 0 && (int)strlen(text) == n);
#ifdef FARPOST
    CHECK(strstr(text, "Farpost"));
#endif
    MPI(MPI_Get_processor_name(text, &n));
    CHECK(n > 0 && (int)strlen(text) == n && n < MPI_MAX_PROCESSOR_NAME);
    MPI(MPI_Initialized(&flag));
    CHECK(flag);
    MPI(MPI_Finalized(&flag));
    CHECK(!flag);
    MPI(MPI_Is_thread_main(&flag));
    CHECK(flag);
    const double t0 = MPI_Wtime(), tick = MPI_Wtick();
    usleep(20000);
    const double t1 = MPI_Wtime();
    CHECK(t1 - t0 >= 0.019);
    CHECK(tick > 0 && tick < 0.01);
    MPI_Info info;
    MPI(MPI_Abi_get_info(&info));
    n = 16;
    MPI(MPI_Info_get_string(info, "mpi_aint_size", &n, text, &flag));
    CHECK(flag);
    CHECK_STR(text, "8");
    MPI(MPI_Info_free(&info));
    void *p = NULL;
    MPI(MPI_Alloc_mem(1 << 20, MPI_INFO_NULL, &p));
    if (p) memset(p, 1, 1 << 20);
    MPI(MPI_Free_mem(p));
    MPI(MPI_Pcontrol(0));
    CHECK(PMPI_Wtime() >= t1);
    MPI(PMPI_Barrier(MPI_COMM_WORLD));
}

TEST(handles_of_the_abi) {
    CHECK_EQ(MPI_Comm_toint(MPI_COMM_WORLD), 0x101);
    CHECK(MPI_Comm_fromint(0x102) == MPI_COMM_SELF);
    CHECK(MPI_Type_fromint(MPI_Type_toint(MPI_INT)) == MPI_INT);
    CHECK_EQ(MPI_Op_toint(MPI_SUM), 0x21);
    MPI_Comm c;
    MPI(MPI_Comm_dup(MPI_COMM_WORLD, &c));
    CHECK(MPI_Comm_fromint(MPI_Comm_toint(c)) == c);
    MPI(MPI_Comm_free(&c));
}

static int at_end;
static int at_finalize(MPI_Comm c, int k, void *v, void *extra) {
    int x = 0, one = 1;
    (void)c, (void)k, (void)v, (void)extra;
    at_end++;
    // MPI still works when the attributes of MPI_COMM_SELF go.
    if (MPI_Allreduce(&one, &x, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS || x != check_size) check_failures++;
    return MPI_SUCCESS;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "init";
    int flag = 1, provided = -1, key, a, b, n;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    check_clock();
    // What may be called before.
    MPI_Initialized(&flag);
    CHECK(!flag);
    MPI_Finalized(&flag);
    CHECK(!flag);
    MPI_Get_version(&a, &b);
    CHECK_EQ(a, MPI_VERSION);
    MPI_Get_library_version(text, &n);
    CHECK(n > 0);
    MPI_Info early;
    CHECK_EQ(MPI_Info_create(&early), MPI_SUCCESS);
    CHECK_EQ(MPI_Info_set(early, "a", "b"), MPI_SUCCESS);
    CHECK_EQ(MPI_Info_free(&early), MPI_SUCCESS);
    if (strcmp(how, "init") == 0)
        MPI_Init(NULL, NULL);
    else if (strcmp(how, "late") == 0) {
        // Ranks that come to MPI_Init at different times.
        usleep(200000u * (unsigned)(getpid() % 3));
        MPI_Init(&argc, &argv);
    } else {
        const int level = strcmp(how, "single") == 0 ? MPI_THREAD_SINGLE
                          : strcmp(how, "funneled") == 0 ? MPI_THREAD_FUNNELED
                          : strcmp(how, "serialized") == 0 ? MPI_THREAD_SERIALIZED
                                                           : MPI_THREAD_MULTIPLE;
        MPI_Init_thread(&argc, &argv, level, &provided);
        CHECK(provided >= level);
        MPI_Query_thread(&a);
        CHECK_EQ(a, provided);
    }
    check_started();
    CHECK(argc <= 2);
    RUN(generalized_requests);
    RUN(status_queries);
    RUN(inquiry);
    RUN(handles_of_the_abi);
    MPI(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_finalize, &key, NULL));
    MPI(MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL));
    MPI(MPI_Comm_free_keyval(&key)); // the attribute keeps it
    int code = check_done();
    CHECK_EQ(at_end, 1);
    MPI_Initialized(&flag);
    CHECK(flag);
    flag = 0;
    MPI_Finalized(&flag);
    CHECK(flag);
    MPI_Get_version(&a, &b);
    CHECK_EQ(a, MPI_VERSION);
    return code || check_failures;
}
