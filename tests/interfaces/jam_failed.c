// interface: jam
// ranks: 2
// args: damaged | damaged packets | silent packets
// Blocks that fail: what their sender and their receiver are told, and that the next block comes. A block that is changed on its way has a wrong
// check, whether it is fetched or goes in packets; who owns the receiver and is stopped loses its right.
#include "check.h"
#include <farpost/jam.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { READY = 1, DONE, BLOCK = 1 << 20 };

static unsigned ready, done;
static pid_t sender;
static unsigned char memory[BLOCK];

static void on_ready(uint32_t from, const void *argument, size_t size, void *context) {
    (void)from, (void)context;
    CHECK(size == sizeof sender);
    memcpy(&sender, argument, size);
    ready++;
}

static void on_done(uint32_t from, const void *argument, size_t size, void *context) {
    (void)from, (void)argument, (void)size, (void)context;
    done++;
}

static void meet(void) {
    for (uint32_t to = 0; to < JAM_size; to++)
        CHECK(JAM_rpc(to, DONE, NULL, 0) == JAM_OK);
    while (done < JAM_size)
        JAM_poll();
    done -= JAM_size;
}

/* Sends the block; its code when it has ended. */
static int ends(uint64_t transfer) {
    int code;
    while ((code = JAM_rdma_test(transfer)) == JAM_AGAIN)
        ;
    return code;
}

static void sends(int silent) {
    const pid_t process = getpid();
    uint64_t transfer;
    memset(memory, 7, BLOCK);
    if (silent) {
        CHECK(JAM_rpc(0, READY, &process, sizeof process) == JAM_OK);
        CHECK(JAM_rdma_send(0, 1, memory, BLOCK, &transfer) == JAM_OK);
        /* Until the receiver has waited long enough. */
        CHECK(raise(SIGSTOP) == 0);
        CHECK(ends(transfer) == JAM_ESILENT && strstr(JAM_error(), "300 ms"));
    } else {
        /* No memory is posted before this process has changed the block, which it may not. */
        CHECK(JAM_rdma_send(0, 1, memory, BLOCK, &transfer) == JAM_OK);
        memory[BLOCK / 2] ^= 0x10;
        CHECK(JAM_rpc(0, READY, &process, sizeof process) == JAM_OK);
        CHECK(ends(transfer) == JAM_ECHECK && strstr(JAM_error(), "1048576 bytes") && strstr(JAM_error(), "damaged"));
    }
    CHECK(JAM_rdma_test(transfer) == JAM_EINVAL);
    memset(memory, 9, BLOCK);
    CHECK(JAM_rdma_send(0, 2, memory, BLOCK, &transfer) == JAM_OK);
    CHECK(ends(transfer) == JAM_OK);
}

static void receives(int silent) {
    char sentence[300];
    uint32_t process;
    JAM_block block;
    while (ready == 0)
        JAM_poll();
    CHECK(JAM_rdma_post(memory, BLOCK) == JAM_OK);
    while (!JAM_next_fault(&process, sentence, sizeof sentence))
        CHECK(!JAM_rdma_receive(&block));
    CHECK(process == 1);
    if (silent)
        CHECK(strstr(sentence, "sent nothing for 300 ms") && kill(sender, SIGCONT) == 0);
    else
        CHECK(strstr(sentence, "the check of a block"));
    while (!JAM_rdma_receive(&block))
        ;
    CHECK(block.from == 1 && block.tag == 2 && block.buffer == memory && block.size == BLOCK);
    for (int i = 0; i < BLOCK; i++)
        CHECK(memory[i] == 9);
    CHECK(!JAM_next_fault(&process, sentence, sizeof sentence));
}

int main(int argc, char **argv) {
    const int silent = argc > 1 && strcmp(argv[1], "silent") == 0;
    alarm(60);
    if (argc > 2)
        CHECK(setenv("FARPOST_SHM_CMA", "0", 1) == 0);
    if (silent)
        CHECK(setenv("FARPOST_JAM_OWNER_SILENCE", "300", 1) == 0);
    JAM_initialize();
    CHECK(JAM_register(READY, on_ready, NULL) == JAM_OK && JAM_register(DONE, on_done, NULL) == JAM_OK);
    meet();
    if (JAM_me == 0)
        receives(silent);
    else
        sends(silent);
    meet();
    CHECK(JAM_refused() == 0);
    JAM_finalize();
    return 0;
}
