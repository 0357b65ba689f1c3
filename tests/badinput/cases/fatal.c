// One deliberate mistake, chosen by the first argument; the script fatal.sh looks at the exit code and at stderr.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    int rank = 0, x = 0;
    if (strcmp(how, "before-init") == 0) {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        printf("still here\n");
        return 0;
    }
    if (strcmp(how, "send-before-init") == 0) {
        MPI_Send(&x, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
        printf("still here\n");
        return 0;
    }
    MPI_Session session;
    MPI_Comm comm;
    MPI_Group group;
    if (strcmp(how, "session-world") == 0) {
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
        MPI_Barrier(MPI_COMM_WORLD);
        printf("still here\n");
        return 0;
    }
    if (strcmp(how, "no-session-finalize") == 0 || strcmp(how, "after-session") == 0 || strcmp(how, "session-exit-code") == 0) {
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
        MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
        MPI_Comm_create_from_group(group, "fatal", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
        MPI_Comm_rank(comm, &rank);
        if (strcmp(how, "no-session-finalize") == 0) {
            if (rank == 0) return 0;
            MPI_Recv(&x, 1, MPI_INT, 0, 0, comm, MPI_STATUS_IGNORE);
        }
        MPI_Group_free(&group);
        MPI_Comm_disconnect(&comm);
        MPI_Session_finalize(&session);
        if (strcmp(how, "session-exit-code") == 0) return rank == 1 ? 7 : 0;
        MPI_Comm_size(MPI_COMM_WORLD, &x);
        printf("still here\n");
        return 0;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (strcmp(how, "bad-rank") == 0) {
        if (rank == 0) MPI_Send(&x, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
        MPI_Recv(&x, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // nobody sends: ended from outside
        printf("still here\n");
    } else if (strcmp(how, "abort") == 0) {
        if (rank == 0) MPI_Abort(MPI_COMM_WORLD, 42);
        for (;;) pause();
    } else if (strcmp(how, "init-twice") == 0) {
        MPI_Init(&argc, &argv);
        printf("still here\n");
    } else if (strcmp(how, "finalize-twice") == 0) {
        MPI_Finalize();
        MPI_Finalize();
        printf("still here\n");
        return 0;
    } else if (strcmp(how, "after-finalize") == 0) {
        MPI_Finalize();
        MPI_Barrier(MPI_COMM_WORLD);
        printf("still here\n");
        return 0;
    } else if (strcmp(how, "no-finalize") == 0) {
        if (rank == 0) return 0;
        MPI_Recv(&x, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(how, "neither-finalize") == 0) {
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
        if (rank == 0) return 0;
        MPI_Recv(&x, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(how, "session-after-world") == 0) {
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
        MPI_Finalize();
        MPI_Barrier(MPI_COMM_WORLD);
        printf("still here\n");
        return 0;
    } else if (strcmp(how, "exit-code") == 0) {
        MPI_Finalize();
        return rank == 1 ? 7 : 0;
    } else if (strcmp(how, "segfault") == 0) {
        if (rank == 1) raise(11);
        MPI_Recv(&x, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(how, "truncate") == 0) {
        int v[4] = {0};
        MPI_Sendrecv(v, 4, MPI_INT, rank, 0, &x, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("still here\n");
    }
    MPI_Finalize();
    return 0;
}
