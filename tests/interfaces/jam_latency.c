// interface: jam
// ranks: 2
// Ping-pong of messages and of procedures, with two threads of one process polling at the same time. Prints times; checks contents only.
#include "check.h"
#include <farpost/jam.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void message_rounds(int rounds, int count) {
    const uint32_t other = 1 - JAM_me;
    uint32_t words[22] = {0};
    JAM_message message;
    const double begin = now();
    for (int n = 0; n < rounds; n++) {
        words[0] = words[count - 1] = (uint32_t)n;
        if (JAM_me == 0)
            CHECK(JAM_send(other, JAM_LOW, 0, 7, words, count) == JAM_OK);
        while (!JAM_receive(JAM_LOW, &message))
            ;
        CHECK(message.words[0] == (uint32_t)n && message.words[count - 1] == (uint32_t)n && message.count == count);
        if (JAM_me == 1)
            CHECK(JAM_send(other, JAM_LOW, 0, 7, words, count) == JAM_OK);
    }
    if (JAM_me == 0)
        printf("PIO, %d bytes: %.3f us one way\n", 8 + 4 * count, (now() - begin) / rounds / 2);
}

static volatile int answers, calls;

static void echo(uint32_t from, const void *argument, size_t size, void *context) {
    (void)context;
    calls++;
    CHECK(JAM_rpc(from, 2, argument, size) == JAM_OK);
}

static void answer(uint32_t from, const void *argument, size_t size, void *context) {
    int n;
    (void)from, (void)context;
    memcpy(&n, argument, sizeof n);
    CHECK(size == 16 && n == answers);
    answers++;
}

static void call_rounds(int rounds, const char *what) {
    char argument[16] = {0};
    const double begin = now();
    const int first = answers, served = calls;
    for (int n = 0; n < rounds; n++) {
        if (JAM_me == 0) {
            const int number = first + n;
            memcpy(argument, &number, sizeof number);
            CHECK(JAM_rpc(1, 1, argument, sizeof argument) == JAM_OK);
            while (answers == first + n)
                JAM_poll();
        } else {
            while (calls <= served + n)
                JAM_poll();
        }
    }
    if (JAM_me == 0)
        printf("RPC, 16 bytes%s: %.3f us there and back\n", what, (now() - begin) / rounds);
}

static volatile int stop;

static void *other_thread(void *unused) {
    (void)unused;
    while (!stop)
        JAM_poll();
    return NULL;
}

int main(void) {
    JAM_initialize();
    CHECK(JAM_size == 2);
    CHECK(JAM_register(1, echo, NULL) == JAM_OK && JAM_register(2, answer, NULL) == JAM_OK);
    message_rounds(1000, 2);
    message_rounds(100000, 2);
    message_rounds(100000, 14);
    message_rounds(100000, 22);
    call_rounds(1000, "");
    call_rounds(100000, "");
    if (JAM_me == 0) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, other_thread, NULL) == 0);
        call_rounds(2000, ", two threads");
        stop = 1;
        CHECK(pthread_join(thread, NULL) == 0);
    } else {
        call_rounds(2000, "");
    }
    JAM_finalize();
    return 0;
}
