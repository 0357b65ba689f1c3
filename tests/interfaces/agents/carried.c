/* MPI over Portals by way of agents: everybody sends to the next and receives from the one before, messages that travel within commands,
   through an agent's memory and in pieces, until a call fails; says why, and goes on to its end. */
#include <mpi.h>
#include <stdio.h>

enum { LONGEST = 70000 };

static char out[LONGEST], in[LONGEST];

int main(int argc, char **argv) {
    const int lengths[] = {8, 3000, LONGEST};
    int rank, ranks, length;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (long round = 0;; round++) {
        const int n = lengths[round % 3];
        out[0] = in[n - 1] = (char)round;
        out[n - 1] = (char)(round + rank);
        const int code = MPI_Sendrecv(out, n, MPI_CHAR, (rank + 1) % ranks, 1, in, n, MPI_CHAR, (rank + ranks - 1) % ranks, 1,
                                      MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS) {
            MPI_Error_string(code, text, &length);
            printf("process %d: %s\n", rank, text);
            break;
        }
        if (in[n - 1] != (char)(round + (rank + ranks - 1) % ranks)) {
            printf("process %d: wrong bytes in round %ld\n", rank, round);
            return 1;
        }
        if (round == 100)
            printf("process %d is at work\n", rank);
    }
    MPI_Finalize();
    printf("process %d went on\n", rank);
    return 0;
}
