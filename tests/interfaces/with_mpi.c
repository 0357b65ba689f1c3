// interface: fm
// ranks: 1 2 3
// args: fm-mpi fm-mpi | fm-mpi mpi-fm | mpi-fm fm-mpi | mpi-fm mpi-fm
// Two interfaces in one process, opened and closed in any order.
#include "check.h"
#include <farpost/fm.h>
#include <mpi.h>
#include <string.h>

static void talk(void) {
    int rank, size, sum = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK((ULONG)rank == FM_nodeid && (ULONG)size == FM_numnodes);
    CHECK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(sum == size * (size - 1) / 2);
    int got = -1;
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &got, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    CHECK(got == (rank + size - 1) % size);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    if (strcmp(argv[1], "fm-mpi") == 0) {
        FM_initialize();
        MPI_Init(&argc, &argv);
    } else {
        MPI_Init(&argc, &argv);
        FM_initialize();
    }
    talk();
    if (strcmp(argv[2], "fm-mpi") == 0) {
        FM_finalize();
        talk();
        MPI_Finalize();
    } else {
        MPI_Finalize();
        FM_finalize();
    }
    return 0;
}
