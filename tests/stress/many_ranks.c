// ranks: 64
// timeout: 240
// 64 ranks, however few cores: start, barrier, all-to-all (everyone now has a connection to everyone), reduce, end.
#include "../mpi/check.h"

TEST(barriers) {
    for (int i = 0; i < 5; i++) MPI(MPI_Barrier(MPI_COMM_WORLD));
}
TEST(all_to_all) {
    enum { EACH = 64 };
    int *out = malloc(sizeof(int) * EACH * (size_t)check_size), *in = calloc(EACH * (size_t)check_size, sizeof(int));
    for (int i = 0; i < EACH * check_size; i++) out[i] = check_rank * 1000 + i / EACH;
    MPI(MPI_Alltoall(out, EACH, MPI_INT, in, EACH, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < EACH * check_size; i++)
        if (in[i] != i / EACH * 1000 + check_rank) {
            check_fail(__FILE__, __LINE__, "element %d is %d", i, in[i]);
            break;
        }
    free(out), free(in);
}
TEST(reduce) {
    int sum = 0;
    MPI(MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQ(sum, check_size * (check_size - 1) / 2);
}
TEST(everyone_to_one) {
    if (check_rank == 0) {
        long sum = 0;
        for (int i = 1; i < check_size; i++) {
            int x = 0;
            MPI(MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            sum += x;
        }
        CHECK_EQ(sum, check_size * (check_size - 1) / 2);
    } else
        MPI(MPI_Send(&check_rank, 1, MPI_INT, 0, 3, MPI_COMM_WORLD));
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    RUN(barriers);
    RUN(all_to_all);
    RUN(reduce);
    RUN(everyone_to_one);
    return check_done();
}
