// ranks: 1 2 3 4 5 8
// All blocking collectives, on MPI_COMM_WORLD and on a communicator in reverse rank order.
#define DO(name, ...) MPI(name(__VA_ARGS__))
#include "coll.h"

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    comm = MPI_COMM_WORLD;
    rank = check_rank, size = check_size;
    all_tests();
    MPI(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &comm));
    MPI(MPI_Comm_rank(comm, &rank));
    RUN(gather_scatter);
    RUN(allgather_alltoall);
    RUN(user_operation_in_rank_order);
    MPI(MPI_Comm_free(&comm));
    return check_done();
}
