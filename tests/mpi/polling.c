// simulated: no, it counts sleeps, and a rank sleeps whenever others run
// Calls that only look, in a loop that works between them: they never give the program's time away. Counted are the times that the
// thread which calls slept (voluntary switches; the library's own thread, where there is one, sleeps between its looks), for each call
// that looks, with more ranks than cores and with fewer.
// ranks: 2 3 8
// Requirements of MPI-5.0 sections 3.7.4, 3.8.1, 3.8.2.
#include "check.h"
#include <sys/resource.h>

enum { POLLS = 5000, FEW = 25 };

static long slept(void) {
    struct rusage used;
    getrusage(RUSAGE_THREAD, &used);
    return used.ru_nvcsw;
}

// A microsecond or so.
static void work(void) {
    volatile double sum = 0;
    for (int k = 0; k < 400; k++) sum += k;
}

static MPI_Request waits[2];

typedef void Look(int *flag);

static void test(int *flag) { MPI(MPI_Test(&waits[0], flag, MPI_STATUS_IGNORE)); }
static void testall(int *flag) { MPI(MPI_Testall(2, waits, flag, MPI_STATUSES_IGNORE)); }
static void testany(int *flag) {
    int which;
    MPI(MPI_Testany(2, waits, &which, flag, MPI_STATUS_IGNORE));
}
static void testsome(int *flag) {
    int which[2];
    MPI(MPI_Testsome(2, waits, flag, which, MPI_STATUSES_IGNORE));
}
static void get_status(int *flag) { MPI(MPI_Request_get_status(waits[0], flag, MPI_STATUS_IGNORE)); }
static void iprobe(int *flag) { MPI(MPI_Iprobe(MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, flag, MPI_STATUS_IGNORE)); }
static void improbe(int *flag) {
    MPI_Message message;
    MPI(MPI_Improbe(MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, flag, &message, MPI_STATUS_IGNORE));
}

// All ranks wait for what comes after the loop.
static void look_in_vain(Look *look) {
    int from = (check_rank + check_size - 1) % check_size, to = (check_rank + 1) % check_size, got[2];
    for (int i = 0; i < 2; i++) MPI(MPI_Irecv(&got[i], 1, MPI_INT, from, i, MPI_COMM_WORLD, &waits[i]));
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    long before = slept();
    for (int i = 0; i < POLLS; i++) {
        int flag = 0;
        look(&flag);
        CHECK_EQ(flag, 0);
        work();
    }
    long times = slept() - before;
    if (times > FEW) check_fail(__FILE__, __LINE__, "slept %ld times in %d calls", times, POLLS);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < 2; i++) MPI(MPI_Send(&i, 1, MPI_INT, to, i, MPI_COMM_WORLD));
    MPI(MPI_Waitall(2, waits, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 2; i++) CHECK_EQ(got[i], i);
}

TEST(tests) { look_in_vain(test); }
TEST(tests_of_all) { look_in_vain(testall); }
TEST(tests_of_any) { look_in_vain(testany); }
TEST(tests_of_some) { look_in_vain(testsome); }
TEST(statuses) { look_in_vain(get_status); }
TEST(probes) { look_in_vain(iprobe); }
TEST(matched_probes) { look_in_vain(improbe); }

// Buckets to random ranks, sent and received while others are filled: the pattern of HPCC's RandomAccess.
TEST(buckets) {
    enum { ROUNDS = 400, WORDS = 128 };
    static uint64_t in[WORDS], out[WORDS];
    MPI_Request receive, send = MPI_REQUEST_NULL;
    uint64_t seed = 12345 + (uint64_t)check_rank, sums[2] = {0, 0}, all[2];
    int sent = 0, flag, ended = 0;
    // The first word to a rank of another host makes a connection, for whose address the launcher is asked: that may sleep, once.
    for (int d = 1; d < check_size; d++) {
        int to = (check_rank + d) % check_size, from = (check_rank + check_size - d) % check_size;
        MPI(MPI_Sendrecv(NULL, 0, MPI_INT, to, 2, NULL, 0, MPI_INT, from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    MPI(MPI_Irecv(in, WORDS, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &receive));
    long before = slept();
    while (sent < ROUNDS || ended < check_size || send != MPI_REQUEST_NULL) {
        MPI_Status status;
        for (;;) {
            MPI(MPI_Test(&receive, &flag, &status));
            if (!flag) break;
            if (status.MPI_TAG == 1) ended++;
            else for (int i = 0; i < WORDS; i++) sums[1] += in[i];
            MPI(MPI_Irecv(in, WORDS, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &receive));
        }
        MPI(MPI_Test(&send, &flag, MPI_STATUS_IGNORE));
        if (!flag) {
            work();
        } else if (sent < ROUNDS) {
            for (int i = 0; i < WORDS; i++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                sums[0] += out[i] = seed >> 11;
            }
            MPI(MPI_Isend(out, WORDS, MPI_UINT64_T, (int)(seed >> 33) % check_size, 0, MPI_COMM_WORLD, &send));
            if (++sent == ROUNDS)
                for (int to = 0; to < check_size; to++) {
                    MPI_Request end;
                    MPI(MPI_Isend(NULL, 0, MPI_UINT64_T, to, 1, MPI_COMM_WORLD, &end));
                    MPI(MPI_Request_free(&end));
                }
        } else {
            work();
        }
    }
    long times = slept() - before;
    if (times > FEW) check_fail(__FILE__, __LINE__, "slept %ld times", times);
    MPI(MPI_Cancel(&receive));
    MPI(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    MPI(MPI_Allreduce(sums, all, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
    CHECK(all[0] == all[1]);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    RUN(tests);
    RUN(tests_of_all);
    RUN(tests_of_any);
    RUN(tests_of_some);
    RUN(statuses);
    RUN(probes);
    RUN(matched_probes);
    RUN(buckets);
    return check_done();
}
