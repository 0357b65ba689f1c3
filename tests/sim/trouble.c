// What goes wrong in programs: the first argument says what rank 1 does.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    MPI_Init(&argc, &argv);
    int rank, size, x = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(what, "waits")) MPI_Recv(&x, 1, MPI_INT, (rank + 1) % size, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!strcmp(what, "killed") && rank == 1) raise(SIGKILL);
    if (!strcmp(what, "sleeps") && rank == 1) sleep(3);
    if (!strcmp(what, "spins") && rank == 1)
        for (time_t end = time(0) + 4; time(0) < end;) x++;
    if (!strcmp(what, "exits") && rank == 1) _exit(0);
    if (!strcmp(what, "clock"))
        // A loop until a time is over, in which nothing else happens.
        for (double end = MPI_Wtime() + 1e-3; MPI_Wtime() < end;) x++;
    if (!strcmp(what, "tests")) {
        // As above, with calls that could make progress.
        MPI_Request request;
        int done = 0, message = 7;
        MPI_Irecv(&x, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, &request);
        for (double end = MPI_Wtime() + (argc > 2 ? atof(argv[2]) : 1e-3); MPI_Wtime() < end;) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        MPI_Send(&message, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
        if (!done) MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (!strcmp(what, "polls") && (rank == 1 || argc > 3)) {
        // For a message that nobody sends, so many times.
        int came = 0;
        for (long left = atol(argv[2]); left > 0 && !came; left--) MPI_Iprobe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &came, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("over\n");
    MPI_Finalize();
    return 0;
}
