// simulated: no, gigabytes packet by packet take hours
// ranks: 2 3 5
// timeout: 200
// A program that overruns a slow receiver slows down and does not grow (issue: unexpected messages are bounded by credit):
// 1 GB of small or middle messages sent to a receiver that looks elsewhere; resident memory of both must stay bounded.
// On an MPI without that promise only delivery and order are checked, with less data.
// Requirements of MPI-5.0 section 3.5.
#include "check.h"

// What a receiver keeps is bounded by a setting, of which the default is a part of the machine's memory.
__attribute__((constructor)) static void few(void) { setenv("FARPOST_UNEXPECTED_BYTES", "16m", 1); }

#ifdef FARPOST
enum { BOUND_MIB = 96, BUDGET = 400 << 20 };
#else
enum { BOUND_MIB = 100000, BUDGET = 20 << 20 };
#endif

static void overrun(int size) {
    const int count = BUDGET / (size < 512 ? 512 : size) / (check_size - 1);
    char *buf = calloc(1, (size_t)size + 8);
    const double before = check_rss_mib();
    double most = before;
    if (check_rank == 0) {
        // Not receiving, but inside MPI: another message is waited for, then everything unexpected is looked at.
        for (int i = 0; i < 100; i++) {
            int flag;
            MPI(MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
            usleep(3000);
            if (check_rss_mib() > most) most = check_rss_mib();
        }
        for (int i = 0; i < count; i++)
            for (int s = 1; s < check_size; s++) {
                MPI(MPI_Recv(buf, size + 8, MPI_BYTE, s, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                if (*(int *)buf != i) {
                    check_fail(__FILE__, __LINE__, "size %d from %d: message %d instead of %d", size, s, *(int *)buf, i);
                    MPI_Abort(MPI_COMM_WORLD, 1);
                }
                if (i % 1024 == 0 && check_rss_mib() > most) most = check_rss_mib();
            }
    } else
        for (int i = 0; i < count; i++) {
            *(int *)buf = i;
            MPI(MPI_Send(buf, size + 4, MPI_BYTE, 0, 1, MPI_COMM_WORLD));
            if (i % 1024 == 0 && check_rss_mib() > most) most = check_rss_mib();
        }
    if (most - before > BOUND_MIB) check_fail(__FILE__, __LINE__, "messages of %d bytes: resident memory grew by %.0f MiB", size, most - before);
    free(buf);
}
TEST(tiny) { overrun(4); }
TEST(small) { overrun(200); }
TEST(middle) { overrun(3000); }
TEST(large) { overrun(60000); }

// The same with nonblocking sends, whose number the program bounds: no more than the program's own buffers may be needed.
TEST(nonblocking) {
    enum { WINDOW = 256, SIZE = 2000 };
    const int count = BUDGET / 4 / SIZE / (check_size - 1);
    char *bufs = calloc(WINDOW, SIZE);
    MPI_Request r[WINDOW];
    const double before = check_rss_mib();
    if (check_rank == 0) {
        usleep(200000);
        for (int i = 0; i < count; i++)
            for (int s = 1; s < check_size; s++) {
                MPI(MPI_Recv(bufs, SIZE, MPI_BYTE, s, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                if (*(int *)bufs != i) {
                    check_fail(__FILE__, __LINE__, "from %d: message %d instead of %d", s, *(int *)bufs, i);
                    MPI_Abort(MPI_COMM_WORLD, 1);
                }
            }
    } else {
        for (int k = 0; k < WINDOW; k++) r[k] = MPI_REQUEST_NULL;
        for (int i = 0; i < count; i++) {
            char *b = bufs + (i % WINDOW) * SIZE;
            MPI(MPI_Wait(&r[i % WINDOW], MPI_STATUS_IGNORE));
            *(int *)b = i;
            MPI(MPI_Isend(b, SIZE, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &r[i % WINDOW]));
        }
        MPI(MPI_Waitall(WINDOW, r, MPI_STATUSES_IGNORE));
    }
    const double grown = check_rss_mib() - before;
    if (grown > BOUND_MIB) check_fail(__FILE__, __LINE__, "resident memory grew by %.0f MiB", grown);
    free(bufs);
}

// Both ways at once with blocking traffic elsewhere: flow control must not deadlock.
TEST(crossing_floods) {
    enum { N = 4000, SIZE = 1000 };
    const int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    char *out = calloc(1, SIZE), *in = calloc(N, SIZE);
    MPI_Request *r = malloc(sizeof *r * N * 2);
    for (int i = 0; i < N; i++) MPI(MPI_Isend(out, SIZE, MPI_BYTE, right, 1, MPI_COMM_WORLD, &r[i]));
    // Everyone has a flood outstanding and nobody has a receive posted; a collective must still go through.
    int one = 1, sum = 0;
    MPI(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQ(sum, check_size);
    for (int i = 0; i < N; i++) MPI(MPI_Irecv(in + (size_t)i * SIZE, SIZE, MPI_BYTE, left, 1, MPI_COMM_WORLD, &r[N + i]));
    MPI(MPI_Waitall(2 * N, r, MPI_STATUSES_IGNORE));
    free(out), free(in), free(r);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    RUN(tiny);
    RUN(small);
    RUN(middle);
    RUN(large);
    RUN(nonblocking);
    RUN(crossing_floods);
    return check_done();
}
