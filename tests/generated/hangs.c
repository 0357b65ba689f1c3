// A program that is not legal: two ranks that wait for each other. scripts/test-generated.sh sees by it that the driver ends what
// hangs, and that its report says why it hung.
#include <mpi.h>

int main(int argc, char **argv) {
    int rank, nothing;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Recv(&nothing, 1, MPI_INT, 1 - rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return MPI_Finalize();
}
