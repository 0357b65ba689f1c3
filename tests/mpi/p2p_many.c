// ranks: 2 3
// settings: FARPOST_RSM_BLOCKS=8 FARPOST_UNEXPECTED_BYTES=4096
// More receives and more sends that wait for their match than any table of an interface beneath has room for, at once and in any order.
#include "check.h"

enum { RECEIVES = 70000, SENDS = 40000, LAST = 7 };

static int got[RECEIVES + SENDS], sent[RECEIVES + SENDS];
static MPI_Request requests[2 * (RECEIVES + SENDS)];

// Receives of tag 0 are posted before anything is sent; what has tag 1 is sent in synchronous mode before it is received.
TEST(receives_and_sends_that_wait) {
    int to = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size, n = 0;
    for (int i = 0; i < RECEIVES + SENDS; i++) {
        got[i] = -1;
        sent[i] = 3 * i + check_rank;
    }
    for (int i = 0; i < RECEIVES; i++) MPI(MPI_Irecv(got + i, 1, MPI_INT, i % 2 ? from : MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, requests + n++));
    for (int i = RECEIVES; i < RECEIVES + SENDS; i++) MPI(MPI_Issend(sent + i, 1, MPI_INT, to, 1, MPI_COMM_WORLD, requests + n++));
    MPI(MPI_Sendrecv(NULL, 0, MPI_INT, to, LAST, NULL, 0, MPI_INT, from, LAST, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = RECEIVES; i < RECEIVES + SENDS; i++)
        MPI(MPI_Irecv(got + i, 1, MPI_INT, i % 2 ? from : MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, requests + n++));
    for (int i = 0; i < RECEIVES; i++) MPI(MPI_Isend(sent + i, 1, MPI_INT, to, 0, MPI_COMM_WORLD, requests + n++));
    MPI(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < RECEIVES + SENDS; i++) CHECK_EQ(got[i], 3 * i + from);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    RUN(receives_and_sends_that_wait);
    return check_done();
}
