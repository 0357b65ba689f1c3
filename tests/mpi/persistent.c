// ranks: 1 2 3 5
// Persistent collectives match in the order in which they were made, whatever the order of starting (MPI-5.0 section 6.13), with
// everything else under way on the communicator, in every form, on communicators of every kind, and restarted many times.
// Requirements of MPI-5.0 sections 6.12, 8.8.
#include "check.h"

enum { ROUNDS = 60, MOST = 24, LONG = 3000 };
static MPI_Comm comm;
static int rank, size;

// Shuffles n numbers, differently at each rank.
static void shuffle(int *order, int n, unsigned seed) {
    for (int i = 0; i < n; i++) order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        seed = seed * 1103515245u + 12345u;
        const int j = (int)((seed >> 16) % (unsigned)(i + 1)), t = order[i];
        order[i] = order[j], order[j] = t;
    }
}

static int a[LONG], sum[LONG], b[LONG], root_sum[LONG], scan[1], ex[1], mine[64], all[64], out[64], in[64], part[1], whole[64];
static int counts[64], displs[64], part_v[1], block_in[64], block_out[1];

// Every persistent collective of an intracommunicator; the number made.
static int make_all(MPI_Request *r) {
    int n = 0;
    for (int i = 0; i < size; i++) counts[i] = 1, displs[i] = size - 1 - i;
    MPI(MPI_Barrier_init(comm, MPI_INFO_NULL, &r[n++]));
    MPI(MPI_Allreduce_init(a, sum, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &r[n++]));
    MPI(MPI_Bcast_init(b, LONG, MPI_INT, size - 1, comm, MPI_INFO_NULL, &r[n++]));
    MPI(MPI_Reduce_init(a, root_sum, LONG, MPI_INT, MPI_SUM, 0, comm, MPI_INFO_NULL, &r[n++]));
    MPI(MPI_Scan_init(a, scan, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &r[n++]));
    MPI(MPI_Exscan_init(a, ex, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &r[n++]));
    MPI(MPI_Gather_init(a, 1, MPI_INT, mine, 1, MPI_INT, 0, comm, MPI_INFO_NULL, &r[n++]));
    MPI(MPI_Allgather_init(a, 1, MPI_INT, all, 1, MPI_INT, comm, MPI_INFO_NULL, &r[n++]));
    MPI(MPI_Alltoall_init(out, 1, MPI_INT, in, 1, MPI_INT, comm, MPI_INFO_NULL, &r[n++]));
    MPI(MPI_Scatter_init(whole, 1, MPI_INT, part, 1, MPI_INT, size - 1, comm, MPI_INFO_NULL, &r[n++]));
    MPI(MPI_Scatterv_init(whole, counts, displs, MPI_INT, part_v, 1, MPI_INT, 0, comm, MPI_INFO_NULL, &r[n++]));
    MPI(MPI_Reduce_scatter_block_init(block_in, block_out, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &r[n++]));
    return n;
}

static void fill(int round) {
    for (int i = 0; i < LONG; i++) a[i] = rank + 1 + i + round, b[i] = rank == size - 1 ? round * 7 + i : -1, sum[i] = root_sum[i] = -1;
    for (int i = 0; i < size; i++) {
        out[i] = rank * 100 + i + round, whole[i] = 1000 * round + 10 * i + rank, block_in[i] = i + rank + round;
        in[i] = mine[i] = all[i] = -1;
    }
    scan[0] = ex[0] = part[0] = part_v[0] = block_out[0] = -1;
}

static void look(int round) {
    const int total = size * (size + 1) / 2;
    CHECK_EQ(sum[0], total + size * round);
    for (int i = 0; i < LONG; i += 7) {
        if (b[i] != round * 7 + i) CHECK_EQ(b[i], round * 7 + i);
        if (rank == 0 && root_sum[i] != total + size * (i + round)) CHECK_EQ(root_sum[i], total + size * (i + round));
    }
    CHECK_EQ(scan[0], (rank + 1) * (rank + 2) / 2 + (rank + 1) * round);
    if (rank > 0) CHECK_EQ(ex[0], rank * (rank + 1) / 2 + rank * round);
    for (int i = 0; i < size; i++) {
        if (rank == 0) CHECK_EQ(mine[i], i + 1 + round);
        CHECK_EQ(all[i], i + 1 + round);
        CHECK_EQ(in[i], i * 100 + rank + round);
    }
    CHECK_EQ(part[0], 1000 * round + 10 * rank + size - 1);
    CHECK_EQ(part_v[0], 1000 * round + 10 * (size - 1 - rank));
    CHECK_EQ(block_out[0], size * (rank + round) + size * (size - 1) / 2);
}

TEST(any_order_of_starting) {
    MPI_Request r[MOST];
    int order[MOST];
    const int n = make_all(r);
    for (int round = 0; round < ROUNDS; round++) {
        fill(round);
        shuffle(order, n, (unsigned)(rank * 7919 + round * 31 + 1));
        for (int i = 0; i < n; i++) MPI(MPI_Start(&r[order[i]]));
        MPI(MPI_Waitall(n, r, MPI_STATUSES_IGNORE));
        look(round);
    }
    for (int i = 0; i < n; i++) MPI(MPI_Request_free(&r[i]));
}

// Blocking and nonblocking collectives between the starts do not change what matches.
TEST(among_others) {
    MPI_Request r[MOST], other[2];
    int order[MOST], one, many;
    const int n = make_all(r);
    for (int round = 0; round < ROUNDS; round++) {
        fill(round);
        one = rank + round, many = -1;
        shuffle(order, n, (unsigned)(rank * 104729 + round * 17 + 5));
        for (int i = 0; i < n; i++) {
            MPI(MPI_Start(&r[order[i]]));
            if (i == n / 3) MPI(MPI_Iallreduce(&one, &many, 1, MPI_INT, MPI_MAX, comm, &other[0]));
            if (i == 2 * n / 3) MPI(MPI_Ibarrier(comm, &other[1]));
            if (i == n / 2 && round % 3 == 0) MPI(MPI_Barrier(comm));
            if (i == n - 2) {
                int top = rank == 0 ? round : -1;
                MPI(MPI_Bcast(&top, 1, MPI_INT, 0, comm));
                CHECK_EQ(top, round);
            }
        }
        MPI(MPI_Waitall(2, other, MPI_STATUSES_IGNORE));
        CHECK_EQ(many, size - 1 + round);
        MPI(MPI_Waitall(n, r, MPI_STATUSES_IGNORE));
        look(round);
    }
    for (int i = 0; i < n; i++) MPI(MPI_Request_free(&r[i]));
}

// One rank may be rounds ahead of another: nobody waits for the last of a broadcast down to the leaves.
TEST(rounds_ahead) {
    enum { AHEAD = 40 };
    MPI_Request first, second;
    int v = -1, w = -1;
    MPI(MPI_Bcast_init(&v, 1, MPI_INT, 0, comm, MPI_INFO_NULL, &first));
    MPI(MPI_Bcast_init(&w, 1, MPI_INT, 0, comm, MPI_INFO_NULL, &second));
    for (int round = 0; round < AHEAD; round++) {
        if (rank == 0) v = round, w = 1000 + round;
        if (rank == size - 1 && round == 0 && size > 1) usleep(20000); // the root is far by then
        MPI(MPI_Start((rank + round) % 2 ? &first : &second));
        MPI(MPI_Start((rank + round) % 2 ? &second : &first));
        MPI(MPI_Wait(&first, MPI_STATUS_IGNORE));
        MPI(MPI_Wait(&second, MPI_STATUS_IGNORE));
        CHECK_EQ(v, round);
        CHECK_EQ(w, 1000 + round);
    }
    MPI(MPI_Request_free(&second));
    MPI(MPI_Request_free(&first));
}

// Made, freed and made again, while others of the same communicator stay.
TEST(made_again) {
    MPI_Request keep, r;
    int x = 0, y = 0;
    MPI(MPI_Allreduce_init(&rank, &x, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &keep));
    for (int i = 0; i < 200; i++) {
        MPI(MPI_Allreduce_init(&rank, &y, 1, MPI_INT, MPI_MAX, comm, MPI_INFO_NULL, &r));
        x = y = -1;
        MPI(MPI_Start((rank + i) % 2 ? &keep : &r));
        MPI(MPI_Start((rank + i) % 2 ? &r : &keep));
        MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
        MPI(MPI_Wait(&keep, MPI_STATUS_IGNORE));
        CHECK_EQ(x, size * (size - 1) / 2);
        CHECK_EQ(y, size - 1);
        MPI(MPI_Request_free(&r));
    }
    MPI(MPI_Request_free(&keep));
}

// Neighbourhood collectives on a ring.
TEST(neighbours) {
    MPI_Comm ring;
    MPI_Request r[4];
    int dims[1] = {size}, periods[1] = {1}, order[4];
    int from[2], to[2], back[2], ones[2] = {1, 1}, at[2] = {0, 1}, v[2], left, right;
    MPI(MPI_Cart_create(comm, 1, dims, periods, 0, &ring));
    MPI(MPI_Cart_shift(ring, 0, 1, &left, &right));
    int me = 0;
    MPI(MPI_Neighbor_allgather_init(&me, 1, MPI_INT, from, 1, MPI_INT, ring, MPI_INFO_NULL, &r[0]));
    MPI(MPI_Neighbor_alltoall_init(to, 1, MPI_INT, back, 1, MPI_INT, ring, MPI_INFO_NULL, &r[1]));
    MPI(MPI_Neighbor_allgatherv_init(&me, 1, MPI_INT, v, ones, at, MPI_INT, ring, MPI_INFO_NULL, &r[2]));
    MPI(MPI_Barrier_init(ring, MPI_INFO_NULL, &r[3]));
    for (int round = 0; round < ROUNDS; round++) {
        me = rank + round;
        to[0] = 10 * rank + round, to[1] = 10 * rank + 5 + round;
        shuffle(order, 4, (unsigned)(rank * 31337 + round + 3));
        for (int i = 0; i < 4; i++) MPI(MPI_Start(&r[order[i]]));
        if (round % 4 == 0) MPI(MPI_Barrier(ring));
        MPI(MPI_Waitall(4, r, MPI_STATUSES_IGNORE));
        CHECK_EQ(from[0], left + round);
        CHECK_EQ(from[1], right + round);
        CHECK_EQ(v[0], left + round);
        CHECK_EQ(v[1], right + round);
        CHECK_EQ(back[0], 10 * left + 5 + round);
        CHECK_EQ(back[1], 10 * right + round);
    }
    for (int i = 0; i < 4; i++) MPI(MPI_Request_free(&r[i]));
    MPI(MPI_Comm_free(&ring));
}

TEST(between_groups) {
    MPI_Comm half, inter;
    MPI_Request r[4];
    int order[4], remote, me, x = -1, top = -1, others[64], down;
    if (size < 2) return;
    MPI(MPI_Comm_split(comm, rank % 2, rank, &half));
    MPI(MPI_Intercomm_create(half, 0, comm, rank % 2 ? 0 : 1, 77, &inter));
    MPI(MPI_Comm_remote_size(inter, &remote));
    MPI(MPI_Comm_rank(inter, &me));
    const int root = rank % 2 == 0 ? (me == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0;
    MPI(MPI_Allreduce_init(&rank, &x, 1, MPI_INT, MPI_MAX, inter, MPI_INFO_NULL, &r[0]));
    MPI(MPI_Bcast_init(&top, 1, MPI_INT, root, inter, MPI_INFO_NULL, &r[1]));
    MPI(MPI_Allgather_init(&rank, 1, MPI_INT, others, 1, MPI_INT, inter, MPI_INFO_NULL, &r[2]));
    MPI(MPI_Barrier_init(inter, MPI_INFO_NULL, &r[3]));
    down = size - 1 - (size - 1 + rank + 1) % 2; // the highest rank of the other half
    for (int round = 0; round < ROUNDS; round++) {
        x = -1, top = rank % 2 == 0 ? round : -1;
        shuffle(order, 4, (unsigned)(rank * 271 + round + 9));
        for (int i = 0; i < 4; i++) MPI(MPI_Start(&r[order[i]]));
        if (round % 5 == 0) MPI(MPI_Barrier(inter));
        MPI(MPI_Waitall(4, r, MPI_STATUSES_IGNORE));
        CHECK_EQ(x, down);
        CHECK_EQ(top, round);
        for (int i = 0; i < remote; i++) CHECK_EQ(others[i], 2 * i + (rank + 1) % 2);
    }
    for (int i = 0; i < 4; i++) MPI(MPI_Request_free(&r[i]));
    MPI(MPI_Comm_free(&inter));
    MPI(MPI_Comm_free(&half));
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    MPI_Comm dup;
    MPI(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    MPI_Comm_set_errhandler(dup, MPI_ERRORS_RETURN);
    for (int i = 0; i < 2; i++) {
        comm = i ? dup : MPI_COMM_WORLD;
        rank = check_rank, size = check_size;
        RUN(any_order_of_starting);
        RUN(among_others);
        RUN(rounds_ahead);
        RUN(made_again);
        RUN(neighbours);
        RUN(between_groups);
    }
    MPI(MPI_Comm_free(&dup));
    return check_done();
}
