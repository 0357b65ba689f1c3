// interface: fm
// ranks: 2 3
// The first call of another interface comes from a second thread while the main thread is inside MPI (MPI_THREAD_FUNNELED):
// it computes there in small calls, then waits for a message that only what the second thread does brings about.
#include "check.h"
#include <farpost/fm.h>
#include <mpi.h>
#include <pthread.h>

enum { CALLS = 2000, TOKENS = 50 };

static int rank, size;
static unsigned tokens;

static void on_token(void *buf, unsigned bytes, unsigned sender) {
    (void)buf, (void)bytes, (void)sender;
    tokens++;
}

static void *other(void *unused) {
    char byte = 0;
    CHECK(FM_set_parameter(FM_QUIET, 1) == FM_OK);
    FM_initialize();
    CHECK(FM_register_message_handler(1, on_token) == 1);
    for (int i = 0; i < TOKENS; i++) CHECK(FM_send((rank + 1) % size, 1, &byte, 1) == FM_OK);
    while (tokens < TOKENS) FM_extract(10);
    return unused;
}

int main(int argc, char **argv) {
    int provided, value = -1;
    pthread_t thread;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    CHECK(provided == MPI_THREAD_FUNNELED);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0) {
        // Its own thread and the other ranks' only go on with what this rank's thread sends.
        CHECK(pthread_create(&thread, NULL, other, NULL) == 0);
        for (int i = 0; i < CALLS; i++) {
            int self = i, back = -1;
            MPI_Sendrecv(&self, 1, MPI_INT, 0, 1, &back, 1, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
            CHECK(back == i);
        }
        MPI_Recv(&value, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(value == 77);
        CHECK(pthread_join(thread, NULL) == 0);
    } else {
        other(NULL);
        if (rank == size - 1) {
            value = 77;
            MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    FM_finalize();
    MPI_Finalize();
    return 0;
}
