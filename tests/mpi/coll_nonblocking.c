// ranks: 1 2 3 4 5 8
// All nonblocking collectives: the same checks as for the blocking ones, completed by wait or by test; then many at once.
// Requirements of MPI-5.0 sections 6.2.2, 6.12.
#define DO(name, ...) DO_(name, __VA_ARGS__)
#define DO_(name, ...) DO_##name(__VA_ARGS__)
#define FINISH(start)                                                                                                            \
    do {                                                                                                                         \
        MPI_Request r_ = MPI_REQUEST_NULL;                                                                                       \
        MPI(start);                                                                                                              \
        check_finish(&r_);                                                                                                       \
    } while (0)
#define DO_MPI_Barrier(c) FINISH(MPI_Ibarrier(c, &r_))
#define DO_MPI_Bcast(...) FINISH(MPI_Ibcast(__VA_ARGS__, &r_))
#define DO_MPI_Gather(...) FINISH(MPI_Igather(__VA_ARGS__, &r_))
#define DO_MPI_Gatherv(...) FINISH(MPI_Igatherv(__VA_ARGS__, &r_))
#define DO_MPI_Scatter(...) FINISH(MPI_Iscatter(__VA_ARGS__, &r_))
#define DO_MPI_Scatterv(...) FINISH(MPI_Iscatterv(__VA_ARGS__, &r_))
#define DO_MPI_Allgather(...) FINISH(MPI_Iallgather(__VA_ARGS__, &r_))
#define DO_MPI_Allgatherv(...) FINISH(MPI_Iallgatherv(__VA_ARGS__, &r_))
#define DO_MPI_Alltoall(...) FINISH(MPI_Ialltoall(__VA_ARGS__, &r_))
#define DO_MPI_Alltoallv(...) FINISH(MPI_Ialltoallv(__VA_ARGS__, &r_))
#define DO_MPI_Alltoallw(...) FINISH(MPI_Ialltoallw(__VA_ARGS__, &r_))
#define DO_MPI_Reduce(...) FINISH(MPI_Ireduce(__VA_ARGS__, &r_))
#define DO_MPI_Allreduce(...) FINISH(MPI_Iallreduce(__VA_ARGS__, &r_))
#define DO_MPI_Scan(...) FINISH(MPI_Iscan(__VA_ARGS__, &r_))
#define DO_MPI_Exscan(...) FINISH(MPI_Iexscan(__VA_ARGS__, &r_))
#define DO_MPI_Reduce_scatter(...) FINISH(MPI_Ireduce_scatter(__VA_ARGS__, &r_))
#define DO_MPI_Reduce_scatter_block(...) FINISH(MPI_Ireduce_scatter_block(__VA_ARGS__, &r_))
#define DO_MPI_Neighbor_allgather(...) FINISH(MPI_Ineighbor_allgather(__VA_ARGS__, &r_))
#define DO_MPI_Neighbor_allgatherv(...) FINISH(MPI_Ineighbor_allgatherv(__VA_ARGS__, &r_))
#define DO_MPI_Neighbor_alltoall(...) FINISH(MPI_Ineighbor_alltoall(__VA_ARGS__, &r_))
#define DO_MPI_Neighbor_alltoallv(...) FINISH(MPI_Ineighbor_alltoallv(__VA_ARGS__, &r_))
#define DO_MPI_Neighbor_alltoallw(...) FINISH(MPI_Ineighbor_alltoallw(__VA_ARGS__, &r_))
static void check_finish(void *request);
#include "coll.h"

static void check_finish(void *request) {
    static int turn;
    MPI_Request *r = request;
    if (turn++ % 2) {
        int flag = 0;
        for (long k = 0; !flag; k++) {
            MPI(MPI_Test(r, &flag, MPI_STATUS_IGNORE));
            if (k > 1000) usleep(10);
        }
    } else
        MPI(MPI_Wait(r, MPI_STATUS_IGNORE));
    CHECK(*r == MPI_REQUEST_NULL);
}

// Many started, completed in another order, with point-to-point traffic and a blocking collective between.
TEST(many_at_once) {
    enum { N = 24, LEN = 700 };
    int *v = ints(N * LEN), *w = ints(N * LEN), x = rank, y = -1, z = -1;
    MPI_Request r[N];
    for (int k = 0; k < N; k++) {
        for (int i = 0; i < LEN; i++) v[k * LEN + i] = val(rank, i, k);
        if (k % 3 == 0) MPI(MPI_Iallreduce(v + k * LEN, w + k * LEN, LEN, MPI_INT, MPI_SUM, comm, &r[k]));
        if (k % 3 == 1) MPI(MPI_Ibcast(v + k * LEN, LEN, MPI_INT, k % size, comm, &r[k]));
        if (k % 3 == 2) MPI(MPI_Ibarrier(comm, &r[k]));
    }
    MPI(MPI_Sendrecv(&x, 1, MPI_INT, (rank + 1) % size, 0, &y, 1, MPI_INT, (rank + size - 1) % size, 0, comm, MPI_STATUS_IGNORE));
    CHECK_EQ(y, (rank + size - 1) % size);
    MPI(MPI_Allreduce(&x, &z, 1, MPI_INT, MPI_MAX, comm));
    CHECK_EQ(z, size - 1);
    for (int k = N - 1; k >= 0; k--) MPI(MPI_Wait(&r[k], MPI_STATUS_IGNORE));
    for (int k = 0; k < N; k++)
        for (int i = 0; i < LEN; i++) {
            int want = 0;
            if (k % 3 == 0)
                for (int q = 0; q < size; q++) want += val(q, i, k);
            if (k % 3 == 1) want = val(k % size, i, k);
            if ((k % 3 == 0 && w[k * LEN + i] != want) || (k % 3 == 1 && v[k * LEN + i] != want)) {
                check_fail(__FILE__, __LINE__, "operation %d element %d", k, i);
                break;
            }
        }
    free(v), free(w);
}

// An Ibarrier completes nowhere before everyone has entered.
TEST(ibarrier_waits_for_all) {
    if (size < 2) return;
    MPI_Request r = MPI_REQUEST_NULL;
    int flag = 0;
    if (rank != size - 1) {
        MPI(MPI_Ibarrier(comm, &r));
        for (int k = 0; k < 100; k++) {
            MPI(MPI_Test(&r, &flag, MPI_STATUS_IGNORE));
            CHECK(!flag);
            if (flag) break;
            usleep(20);
        }
        MPI(MPI_Send(NULL, 0, MPI_INT, size - 1, 9, comm));
    } else {
        for (int i = 0; i < size - 1; i++) MPI(MPI_Recv(NULL, 0, MPI_INT, MPI_ANY_SOURCE, 9, comm, MPI_STATUS_IGNORE));
        MPI(MPI_Ibarrier(comm, &r));
    }
    MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    comm = MPI_COMM_WORLD;
    rank = check_rank, size = check_size;
    all_tests();
    RUN(many_at_once);
    RUN(ibarrier_waits_for_all);
    return check_done();
}
