// interface: jam
// ranks: 2 3
// Being told of what comes while one makes no call: a descriptor for poll, and a function that is called.
#include "check.h"
#include <errno.h>
#include <farpost/jam.h>
#include <poll.h>
#include <unistd.h>

enum { DONE = 1, WORK = 2, GO = 3, ROUNDS = 20 };

static unsigned done, worked, go;

static void on_done(uint32_t from, const void *argument, size_t size, void *context) {
    (void)from, (void)argument, (void)size, (void)context;
    done++;
}

static void count(uint32_t from, const void *argument, size_t size, void *context) {
    (void)from, (void)argument, (void)size;
    ++*(unsigned *)context;
}

static void meet(void) {
    for (uint32_t to = 0; to < JAM_size; to++)
        CHECK(JAM_rpc(to, DONE, NULL, 0) == JAM_OK);
    while (__atomic_load_n(&done, __ATOMIC_SEQ_CST) < JAM_size)
        JAM_poll();
    __atomic_sub_fetch(&done, JAM_size, __ATOMIC_SEQ_CST);
}

/* One message of each kind that can come, in turn. */
static void send(uint32_t round) {
    const uint32_t words[2] = {round, 7};
    int code = JAM_OK;
    do {
        if (round % 3 == 2)
            code = JAM_rpc(0, WORK, NULL, 0);
        else
            code = JAM_send(0, round % 3 == 0 ? JAM_HIGH : JAM_LOW, 0, round, words, 2);
    } while (code == JAM_AGAIN);
    CHECK(code == JAM_OK);
}

static int taken(void) {
    JAM_message message;
    int found = 0;
    for (int priority = JAM_HIGH; priority <= JAM_LOW; priority++)
        while (JAM_receive(priority, &message)) {
            CHECK(message.from == 1 && message.words[1] == 7);
            found++;
        }
    /* Calls may have run while processes met. */
    static unsigned counted;
    JAM_poll();
    found += (int)(worked - counted);
    counted = worked;
    return found;
}

/* Sleeps in poll, and makes no call there. */
static void waits(void) {
    const int fd = JAM_descriptor();
    CHECK(fd >= 0 && JAM_descriptor() == fd);
    int got = 0;
    while (got < ROUNDS) {
        const int code = JAM_arm();
        CHECK(code == JAM_OK || code == JAM_AGAIN);
        if (code == JAM_OK) {
            struct pollfd polled = {fd, POLLIN, 0};
            int n;
            while ((n = poll(&polled, 1, 30000)) < 0 && errno == EINTR)
                ;
            CHECK(n == 1 && polled.revents == POLLIN);
        }
        int more;
        while ((more = taken()) > 0)
            got += more;
    }
    CHECK(got == ROUNDS);
    /* Nothing more: the descriptor is silent. */
    struct pollfd polled = {fd, POLLIN, 0};
    CHECK(JAM_arm() == JAM_OK);
    CHECK(poll(&polled, 1, 50) == 0);
    for (uint32_t to = 1; to < JAM_size; to++)
        CHECK(JAM_rpc(to, GO, NULL, 0) == JAM_OK);
}

/* What process 0 is told of; nothing else is sent before it has said so. */
static void sends(void) {
    for (uint32_t round = 0; JAM_me == 1 && round < ROUNDS; round++) {
        send(round);
        JAM_poll();
        usleep(round % 2 * 5000);
    }
    while (go == 0)
        JAM_poll();
    go = 0;
}

static unsigned called, by_handler;

static void on_arrival(void *context) {
    CHECK(context == &called);
    __atomic_add_fetch(&called, 1, __ATOMIC_SEQ_CST);
    int more;
    while ((more = taken()) > 0)
        __atomic_add_fetch(&by_handler, (unsigned)more, __ATOMIC_SEQ_CST);
}

int main(void) {
    CHECK(JAM_descriptor() == -1 && JAM_arm() == JAM_ESTATE);
    JAM_initialize();
    CHECK(JAM_register(DONE, on_done, NULL) == JAM_OK && JAM_register(WORK, count, &worked) == JAM_OK);
    CHECK(JAM_register(GO, count, &go) == JAM_OK);
    CHECK(JAM_arm() == JAM_EINVAL);
    meet();
    if (JAM_me == 0)
        waits();
    else
        sends();
    meet();
    if (JAM_me == 0) {
        CHECK(JAM_interrupt(on_arrival, &called) == JAM_OK);
        /* Computes: no call until everything has come. */
        while (__atomic_load_n(&by_handler, __ATOMIC_SEQ_CST) < ROUNDS)
            ;
        CHECK(called > 0 && JAM_interrupt(NULL, NULL) == JAM_OK);
        for (uint32_t to = 1; to < JAM_size; to++)
            CHECK(JAM_rpc(to, GO, NULL, 0) == JAM_OK);
        const unsigned before = called;
        meet();
        CHECK(called == before);
    } else {
        sends();
        meet();
    }
    CHECK(JAM_refused() == 0);
    JAM_finalize();
    return 0;
}
