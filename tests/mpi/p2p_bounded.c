// ranks: 2 3
// farpost: only
// settings: FARPOST_UNEXPECTED_BYTES=1m | FARPOST_UNEXPECTED_BYTES=1m FARPOST_SHM_CMA=0
// A sender cannot make a receiver grow that waits for something else: another tag, source or communicator, or in a collective.
// Beyond the bound its sends are not complete before they are received.
#include "check.h"

// Of each kind, at most WINDOW are started and not complete; with FARPOST_UNEXPECTED_BYTES=1m many fewer than MOST get through.
enum { WINDOW = 64, MOST = 200000, PATIENCE = 20000, BYTES = 64 };

static char block[BYTES];
static MPI_Comm other;

static long peak(void) {
    char line[256];
    long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f)) sscanf(line, "VmHWM: %ld", &kib);
    if (f) fclose(f);
    return kib;
}

static void send(MPI_Request *r) { MPI(MPI_Isend(block, BYTES, MPI_BYTE, 1, 1, MPI_COMM_WORLD, r)); }
static void receive(MPI_Request *r) { MPI(MPI_Irecv(block, BYTES, MPI_BYTE, 0, 1, MPI_COMM_WORLD, r)); }
static void send_other(MPI_Request *r) { MPI(MPI_Isend(block, BYTES, MPI_BYTE, 1, 1, other, r)); }
static void receive_other(MPI_Request *r) { MPI(MPI_Irecv(block, BYTES, MPI_BYTE, 0, 1, other, r)); }
static void bcast(MPI_Request *r) { MPI(MPI_Ibcast(block, BYTES, MPI_BYTE, 0, other, r)); }

static void flood(void (*give)(MPI_Request *), void (*take)(MPI_Request *), int in_barrier) {
    MPI_Request window[WINDOW];
    int given = 0, bounded = getenv("FARPOST_UNEXPECTED_BYTES") && !getenv("FARPOST_DEVICE");
    for (int i = 0; i < WINDOW; i++) window[i] = MPI_REQUEST_NULL;
    if (check_rank == 0) {
        for (int fruitless = 0; fruitless < PATIENCE && given < MOST;) {
            int at, done = 1;
            if (given < WINDOW)
                at = given;
            else
                MPI(MPI_Testany(WINDOW, window, &at, &done, MPI_STATUS_IGNORE));
            fruitless = done ? 0 : fruitless + 1;
            if (done) give(&window[at]), given++;
        }
        if (bounded) CHECK(given < MOST / 4);
    }
    long before = peak();
    // While rank 0 sends, rank 1 waits here: for another tag, or for a barrier.
    if (in_barrier) MPI(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) MPI(MPI_Send(&given, 1, MPI_INT, 1, 99, MPI_COMM_WORLD));
    if (check_rank == 1) MPI(MPI_Recv(&given, 1, MPI_INT, 0, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    // The bound, a queue with its blocks, and room for the first use of things; without a bound it would be 40 MiB.
    if (check_rank == 1 && bounded) CHECK(peak() - before < 8 << 10);
    if (take == bcast) {
        MPI(MPI_Bcast(&given, 1, MPI_INT, 0, MPI_COMM_WORLD));
        if (check_rank > 0)
            for (int i = 0; i < given; i++) {
                MPI_Request r;
                bcast(&r);
                MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
            }
    } else if (check_rank == 1) {
        for (int i = 0; i < given; i++) {
            MPI_Request r;
            take(&r);
            MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
        }
    }
    if (check_rank == 0) MPI(MPI_Waitall(WINDOW, window, MPI_STATUSES_IGNORE));
    MPI(MPI_Barrier(MPI_COMM_WORLD));
}

TEST(another_tag) { flood(send, receive, 0); }
TEST(in_a_collective) { flood(send, receive, 1); }
TEST(another_communicator) { flood(send_other, receive_other, 0); }
TEST(collective_traffic) { flood(bcast, bcast, 0); }

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    MPI(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    RUN(another_tag);
    RUN(in_a_collective);
    RUN(another_communicator);
    RUN(collective_traffic);
    MPI(MPI_Comm_free(&other));
    return check_done();
}
