// ranks: 3 5
// settings: FARPOST_RSM_BLOCKS=8 FARPOST_RSM_SLOTS=16 | FARPOST_RSM_BLOCKS=8 FARPOST_SHM_CMA=0 | FARPOST_UNEXPECTED_BYTES=4096 | FARPOST_FM_SLOTS=4
// A message to who receives it arrives, whatever lies at others who do not: rank 0 has much for rank 1, who waits for the last
// rank, or computes, until the last rank has heard from rank 0.
#include "check.h"

enum { MANY = 300, BYTES = 8000, LONG = 200000 };

static char block[LONG], many[MANY][BYTES];

static void starved(int bytes, int computes) {
    int last = check_size - 1, done = 0;
    MPI_Request requests[MANY];
    if (check_rank == 0) {
        for (int i = 0; i < MANY; i++) MPI(MPI_Isend(block, bytes, MPI_BYTE, 1 + i % (last - 1), 1, MPI_COMM_WORLD, requests + i));
        for (int i = 0; i < 2000; i++) MPI(MPI_Testall(MANY, requests, &done, MPI_STATUSES_IGNORE));
        MPI(MPI_Send(block, bytes, MPI_BYTE, last, 2, MPI_COMM_WORLD));
        MPI(MPI_Ssend(block, bytes, MPI_BYTE, last, 2, MPI_COMM_WORLD));
        MPI(MPI_Send(block, LONG, MPI_BYTE, last, 2, MPI_COMM_WORLD));
        MPI(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
    } else if (check_rank == last) {
        for (int i = 0; i < 3; i++) MPI(MPI_Recv(block, LONG, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int to = 1; to < last; to++) MPI(MPI_Send(block, 1, MPI_BYTE, to, 3, MPI_COMM_WORLD));
    } else {
        // Who computes takes nothing meanwhile.
        if (computes) usleep(20000);
        MPI(MPI_Recv(block, 1, MPI_BYTE, last, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = check_rank - 1; i < MANY; i += last - 1)
            MPI(MPI_Recv(many[i], BYTES, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    MPI(MPI_Barrier(MPI_COMM_WORLD));
}

TEST(blocks) { starved(BYTES, 0), starved(BYTES, 1); }
TEST(runs) { starved(200, 0), starved(200, 1); }
TEST(lines) { starved(8, 0), starved(8, 1); }


int main(int argc, char **argv) {
    check_init(&argc, &argv);
    RUN(blocks);
    RUN(runs);
    RUN(lines);
    return check_done();
}
