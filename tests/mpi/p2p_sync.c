// ranks: 2 3 8
// A synchronous send ends only after the matching receive has begun: shown with messages, not with clocks.
// Requirements of MPI-5.0 sections 3.4, 3.8.3, 3.9.
#include "check.h"

static int partner(void) { return check_rank ^ 1; }
static int idle(void) { return partner() >= check_size; }

TEST(issend_waits) {
    static const int sizes[] = {0, 4, 40, 1000, 30000, 500000};
    char *buf = calloc(1, 500000);
    if (!idle())
        for (int i = 0; i < COUNT(sizes); i++) {
            if (check_rank % 2 == 0) {
                MPI_Request r;
                int flag = 0;
                MPI(MPI_Issend(buf, sizes[i], MPI_BYTE, partner(), 1, MPI_COMM_WORLD, &r));
                for (int k = 0; k < 200; k++) {
                    MPI(MPI_Test(&r, &flag, MPI_STATUS_IGNORE));
                    if (flag) break;
                    usleep(50);
                }
                CHECK(!flag);
                // Now the partner may receive.
                MPI(MPI_Send(NULL, 0, MPI_BYTE, partner(), 2, MPI_COMM_WORLD));
                MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
            } else {
                MPI(MPI_Recv(NULL, 0, MPI_BYTE, partner(), 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                MPI(MPI_Recv(buf, sizes[i], MPI_BYTE, partner(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            }
        }
    free(buf);
}

TEST(ssend_waits) {
    char buf[64] = {0};
    if (idle()) return;
    for (int size = 0; size <= 64; size += 32) {
        if (check_rank % 2 == 0) {
            MPI(MPI_Ssend(buf, size, MPI_BYTE, partner(), 1, MPI_COMM_WORLD));
            MPI(MPI_Send(NULL, 0, MPI_BYTE, partner(), 2, MPI_COMM_WORLD));
        } else {
            int flag = 0;
            // The message after the Ssend must not come before the Ssend's is received, looked at or not.
            MPI(MPI_Probe(partner(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            for (int k = 0; k < 200; k++) {
                MPI(MPI_Iprobe(partner(), 2, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
                if (flag) break;
                usleep(50);
            }
            CHECK(!flag);
            MPI(MPI_Recv(buf, 64, MPI_BYTE, partner(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            MPI(MPI_Recv(NULL, 0, MPI_BYTE, partner(), 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        }
    }
}

TEST(matched_probe_counts_as_match_only_when_received) {
    char buf[8] = "hello";
    if (idle()) return;
    if (check_rank % 2 == 0) {
        MPI_Request r;
        MPI(MPI_Issend(buf, 6, MPI_CHAR, partner(), 1, MPI_COMM_WORLD, &r));
        MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
    } else {
        MPI_Message m;
        MPI(MPI_Mprobe(partner(), 1, MPI_COMM_WORLD, &m, MPI_STATUS_IGNORE));
        MPI(MPI_Mrecv(buf, 6, MPI_CHAR, &m, MPI_STATUS_IGNORE));
        CHECK_STR(buf, "hello");
    }
}

TEST(persistent_ssend_waits) {
    int x = 5, flag = 0;
    if (idle()) return;
    if (check_rank % 2 == 0) {
        MPI_Request r;
        MPI(MPI_Ssend_init(&x, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, &r));
        for (int round = 0; round < 3; round++) {
            MPI(MPI_Start(&r));
            for (int k = 0; k < 100; k++) {
                MPI(MPI_Test(&r, &flag, MPI_STATUS_IGNORE));
                CHECK(!flag);
                if (flag) break;
                usleep(50);
            }
            MPI(MPI_Send(NULL, 0, MPI_BYTE, partner(), 2, MPI_COMM_WORLD));
            MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
        }
        MPI(MPI_Request_free(&r));
    } else
        for (int round = 0; round < 3; round++) {
            MPI(MPI_Recv(NULL, 0, MPI_BYTE, partner(), 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            MPI(MPI_Recv(&x, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        }
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    RUN(issend_waits);
    RUN(ssend_waits);
    RUN(matched_probe_counts_as_match_only_when_received);
    RUN(persistent_ssend_waits);
    return check_done();
}
