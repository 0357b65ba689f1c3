// interface: jam
// ranks: 2 3
// args: computes | waits
// What JAM_rpc and JAM_send leave behind, because there is no room for it or because it goes as a block, leaves while the process computes and calls
// nothing, and while it waits in MPI; so does a block of the program's. Procedures run in JAM's calls only.
#include "check.h"
#include <farpost/jam.h>
#include <mpi.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { GO = 1, SMALL, BIG, DONE, CALLS = 400, LONG = 50000, LONGS = 3, MESSAGES = 20, BLOCK = 70000 };

static volatile sig_atomic_t told[2];
static int in_mpi;
static unsigned computing, go, smalls, bigs, done;
static unsigned char big[LONG], block[BLOCK];
static pid_t process;

static void on_signal(int number) { told[number == SIGUSR2] = 1; }

static void on_go(uint32_t from, const void *argument, size_t size, void *context) {
    (void)from, (void)context;
    CHECK(!computing);
    if (size > 0) {
        uint32_t number;
        CHECK(size == sizeof number);
        memcpy(&number, argument, size);
        process = (pid_t)number;
    }
    go++;
}

static void on_small(uint32_t from, const void *argument, size_t size, void *context) {
    uint32_t number;
    (void)context;
    CHECK(from == 0 && size == sizeof number);
    memcpy(&number, argument, size);
    CHECK(number == smalls++);
}

static void on_big(uint32_t from, const void *argument, size_t size, void *context) {
    (void)context;
    CHECK(from == 0 && size == LONG && memcmp(argument, big, LONG) == 0);
    bigs++;
}

static void on_done(uint32_t from, const void *argument, size_t size, void *context) {
    (void)from, (void)argument, (void)size, (void)context;
    CHECK(!computing);
    done++;
}

static void meet(void) {
    for (uint32_t to = 0; to < JAM_size; to++)
        CHECK(JAM_rpc(to, DONE, NULL, 0) == JAM_OK);
    while (done < JAM_size)
        JAM_poll();
    done -= JAM_size;
}

/* Everything at once to all others, then nothing until they have it. */
static void sends(void) {
    uint64_t transfers[2];
    const uint32_t number = (uint32_t)getpid();
    int code;
    for (uint32_t to = 1; to < JAM_size; to++) {
        CHECK(JAM_rpc(to, GO, &number, sizeof number) == JAM_OK);
        for (uint32_t i = 0; i < CALLS; i++)
            CHECK(JAM_rpc(to, SMALL, &i, sizeof i) == JAM_OK);
        for (int i = 0; i < LONGS; i++)
            CHECK(JAM_rpc(to, BIG, big, LONG) == JAM_OK);
        CHECK(JAM_rdma_send(to, 9, block, BLOCK, &transfers[to - 1]) == JAM_OK);
    }
    /* Who is given room for messages may go away, too. */
    for (uint32_t i = 0, words[2] = {0, 0}; i < MESSAGES; i++)
        CHECK(JAM_send(JAM_size - 1, JAM_LOW, 0, i, words, 2) == JAM_OK);
    computing = 1;
    if (in_mpi)
        CHECK(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS);
    else
        while (!told[0] || (JAM_size > 2 && !told[1])) {
        }
    computing = 0;
    for (uint32_t to = 1; to < JAM_size; to++) {
        while ((code = JAM_rdma_test(transfers[to - 1])) == JAM_AGAIN)
            ;
        CHECK(code == JAM_OK);
    }
}

static void takes(void) {
    static unsigned char in[BLOCK];
    JAM_block came;
    JAM_message message;
    uint32_t messages = 0;
    const uint32_t expected = JAM_me == JAM_size - 1 ? MESSAGES : 0;
    CHECK(JAM_rdma_post(in, BLOCK) == JAM_OK);
    while (go == 0)
        JAM_poll();
    while (smalls < CALLS || bigs < LONGS)
        JAM_poll();
    while (!JAM_rdma_receive(&came))
        ;
    CHECK(came.from == 0 && came.tag == 9 && came.buffer == in && came.size == BLOCK && memcmp(in, block, BLOCK) == 0);
    while (messages < expected)
        if (JAM_receive(JAM_LOW, &message))
            CHECK(message.tag == messages++);
    /* A call that waits for the end of the computing. */
    CHECK(JAM_rpc(0, GO, NULL, 0) == JAM_OK);
    if (in_mpi)
        CHECK(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS);
    else
        CHECK(kill(process, JAM_me == 1 ? SIGUSR1 : SIGUSR2) == 0);
}

int main(int argc, char **argv) {
    struct sigaction action;
    /* Whoever is not served would wait for ever. */
    alarm(60);
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGUSR2, &action, NULL) == 0);
    for (int i = 0; i < LONG; i++)
        big[i] = (unsigned char)(i * 7);
    for (int i = 0; i < BLOCK; i++)
        block[i] = (unsigned char)(i * 11);
    in_mpi = argc > 1 && strcmp(argv[1], "waits") == 0;
    if (in_mpi)
        CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
    JAM_initialize();
    CHECK(JAM_size <= 3 && JAM_register(GO, on_go, NULL) == JAM_OK && JAM_register(SMALL, on_small, NULL) == JAM_OK);
    CHECK(JAM_register(BIG, on_big, NULL) == JAM_OK && JAM_register(DONE, on_done, NULL) == JAM_OK);
    meet();
    if (JAM_me == 0)
        sends();
    else
        takes();
    meet();
    CHECK(JAM_refused() == 0);
    JAM_finalize();
    if (in_mpi)
        CHECK(MPI_Finalize() == MPI_SUCCESS);
    return 0;
}
