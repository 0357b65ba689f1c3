// Rank 1 sends 100 messages of 20 bytes to rank 0; then both wait in a barrier until the others have been looked at: rank 0
// reads a line of standard input first.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    char text[20] = "", line[20];
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 100; i++) {
        if (rank == 1) MPI_Send(text, 20, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
        if (rank == 0) MPI_Recv(text, 20, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (rank == 0) {
        printf("ready\n");
        fflush(stdout);
        if (!fgets(line, sizeof line, stdin)) line[0] = 0;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
