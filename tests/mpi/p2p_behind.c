// ranks: 2 3
// settings: FARPOST_UNEXPECTED_BYTES=4096 | FARPOST_UNEXPECTED_BYTES=1 FARPOST_RSM_BLOCKS=8 | FARPOST_SHM_CMA=0 FARPOST_UNEXPECTED_BYTES=4096
// What lies behind thousands of messages that nobody has asked for is found, by probes and by receives that are tested.
#include "check.h"

enum { MANY = 400, TINY = 100000, BYTES = 8000 };

static char block[BYTES], room[BYTES];

// Rank 1 sends `many` messages of `bytes` with tag 1 and one with tag 99; rank 0 looks for the last one by `look` and then takes all.
static void behind(int many, int bytes, void (*look)(void)) {
    if (check_rank == 1) {
        MPI_Request *requests = malloc((many + 1) * sizeof *requests);
        for (int i = 0; i <= many; i++)
            MPI(MPI_Isend(block, i < many ? bytes : 1, MPI_BYTE, 0, i < many ? 1 : 99, MPI_COMM_WORLD, requests + i));
        MPI(MPI_Waitall(many + 1, requests, MPI_STATUSES_IGNORE));
        free(requests);
    }
    if (check_rank == 0) {
        look();
        for (int i = 0; i < many; i++) MPI(MPI_Recv(block, BYTES, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    MPI(MPI_Barrier(MPI_COMM_WORLD));
}

static void take(void) { MPI(MPI_Recv(block, 1, MPI_BYTE, 1, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE)); }

static void by_iprobe(void) {
    for (int found = 0; !found;) MPI(MPI_Iprobe(1, 99, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE));
    take();
}

static void by_probe(void) {
    MPI_Status status;
    MPI(MPI_Probe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &status));
    CHECK_EQ(status.MPI_SOURCE, 1);
    take();
}

static void by_improbe(void) {
    MPI_Message message = MPI_MESSAGE_NULL;
    for (int found = 0; !found;) MPI(MPI_Improbe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &found, &message, MPI_STATUS_IGNORE));
    MPI(MPI_Mrecv(block, 1, MPI_BYTE, &message, MPI_STATUS_IGNORE));
}

static void by_test(void) {
    MPI_Request request;
    MPI(MPI_Irecv(block, 1, MPI_BYTE, 1, 99, MPI_COMM_WORLD, &request));
    for (int done = 0; !done;) MPI(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
}

TEST(messages_in_blocks) {
    void (*const looks[])(void) = {by_iprobe, by_probe, by_improbe, by_test, take};
    for (int i = 0; i < 5; i++) behind(MANY, BYTES, looks[i]);
}

TEST(tiny_messages) {
    behind(TINY, 1, by_iprobe);
    behind(TINY, 40, by_test);
    behind(TINY / 10, 200, take);
}

// A buffered message is on its way whatever its receiver keeps, and detaching the buffer waits for it.
TEST(buffered_messages) {
    static char buffer[64 * (BYTES + MPI_BSEND_OVERHEAD)];
    if (check_rank == 1) {
        MPI(MPI_Buffer_attach(buffer, sizeof buffer));
        for (int i = 0; i < 64; i++) MPI(MPI_Bsend(block, BYTES, MPI_BYTE, 0, i < 63 ? 1 : 99, MPI_COMM_WORLD));
        void *address;
        int size;
        MPI(MPI_Buffer_detach(&address, &size));
    }
    if (check_rank == 0) {
        for (int i = 63; i >= 0; i--)
            MPI(MPI_Recv(block, BYTES, MPI_BYTE, 1, i < 63 ? 1 : 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    MPI(MPI_Barrier(MPI_COMM_WORLD));
}

// Collectives pass while point-to-point messages lie unreceived.
TEST(collectives_beside) {
    MPI_Request requests[MANY];
    int to = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size;
    for (int i = 0; i < MANY; i++) MPI(MPI_Isend(block, BYTES, MPI_BYTE, to, 1, MPI_COMM_WORLD, requests + i));
    for (int i = 0; i < 20; i++) {
        int sum = 0, one = 1;
        MPI(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        CHECK_EQ(sum, check_size);
        int all[8];
        MPI(MPI_Allgather(&check_rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD));
        for (int r = 0; r < check_size; r++) CHECK_EQ(all[r], r);
    }
    for (int i = 0; i < MANY; i++) MPI(MPI_Recv(room, BYTES, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MPI(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    RUN(messages_in_blocks);
    RUN(tiny_messages);
    RUN(buffered_messages);
    RUN(collectives_beside);
    return check_done();
}
