// Waits for ever in the way the first argument says, after everyone has talked to everyone. Writes its process number into
// the directory given as the second argument, so that the script can see who is left.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "recv", *dir = argc > 2 ? argv[2] : ".";
    int rank, size, x = 0;
    char path[4096];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int *all = calloc((size_t)size * 2, sizeof(int));
    MPI_Alltoall(all, 1, MPI_INT, all + size, 1, MPI_INT, MPI_COMM_WORLD);
    snprintf(path, sizeof path, "%s/%d", dir, rank);
    FILE *f = fopen(path, "w");
    fprintf(f, "%d\n", (int)getpid());
    fclose(f);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        snprintf(path, sizeof path, "%s/ready", dir);
        fclose(fopen(path, "w"));
    }
    if (strcmp(how, "spin") == 0)
        for (;;) x++;
    if (strcmp(how, "deaf") == 0) {
        signal(SIGTERM, SIG_IGN);
        signal(SIGINT, SIG_IGN);
        for (;;) pause();
    }
    if (strcmp(how, "sleep") == 0)
        for (;;) pause();
    MPI_Recv(&x, 1, MPI_INT, (rank + 1) % size, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
