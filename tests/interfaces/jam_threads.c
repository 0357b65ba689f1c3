// interface: jam
// ranks: 1 2 3
// settings: FARPOST_JAM_RPC_RDMA=100
// Several threads of each process start calls at the same time, with arguments that go either way, while others poll and send messages.
#include "check.h"
#include <farpost/jam.h>
#include <pthread.h>
#include <string.h>

enum { WORK = 1, LEFT = 2, THREADS = 4, CALLS = 300, MESSAGES = 200 };

struct head {
    uint32_t thread, number, size;
};

/* What came, by process and thread: procedures run in whichever thread polls, one at a time. */
static unsigned char came[8][THREADS][CALLS];
static unsigned total, left;
static unsigned running;

static size_t size_of(uint32_t thread, uint32_t number) {
    static const size_t sizes[] = {0, 60, 72, 500, 3000, 20000};
    return sizeof(struct head) + sizes[(thread + number) % 6];
}

static void work(uint32_t from, const void *argument, size_t size, void *context) {
    struct head head;
    const unsigned char *bytes = argument;
    CHECK(context == came && size >= sizeof head);
    CHECK(__atomic_add_fetch(&running, 1, __ATOMIC_SEQ_CST) == 1);
    memcpy(&head, argument, sizeof head);
    CHECK(head.thread < THREADS && head.number < CALLS && head.size == size && size == size_of(head.thread, head.number));
    for (size_t i = sizeof head; i < size; i++)
        CHECK(bytes[i] == (unsigned char)(head.thread * 50 + head.number + i));
    CHECK(came[from][head.thread][head.number]++ == 0);
    __atomic_sub_fetch(&running, 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&total, 1, __ATOMIC_SEQ_CST);
}

static void one_left(uint32_t from, const void *argument, size_t size, void *context) {
    (void)from, (void)argument, (void)size, (void)context;
    __atomic_add_fetch(&left, 1, __ATOMIC_SEQ_CST);
}

static void *caller(void *argument) {
    const uint32_t thread = (uint32_t)(size_t)argument;
    unsigned char *bytes = malloc(20100);
    for (uint32_t number = 0; number < CALLS; number++) {
        const size_t size = size_of(thread, number);
        const struct head head = {thread, number, (uint32_t)size};
        memcpy(bytes, &head, sizeof head);
        for (size_t i = sizeof head; i < size; i++)
            bytes[i] = (unsigned char)(thread * 50 + number + i);
        for (uint32_t to = 0; to < JAM_size; to++)
            CHECK(JAM_rpc(to, WORK, bytes, size) == JAM_OK);
        /* The argument was copied. */
        memset(bytes, 0xee, size);
        if (number % 16 == thread)
            JAM_poll();
    }
    free(bytes);
    return NULL;
}

/* Beside them, messages of two threads; each thread's are in order. */
static uint32_t sent_words;

static void *sender(void *argument) {
    const uint32_t thread = (uint32_t)(size_t)argument, next = (JAM_me + 1) % JAM_size;
    for (uint32_t number = 0; number < MESSAGES; number++) {
        const uint32_t words[3] = {thread, number, thread ^ number};
        int code;
        while ((code = JAM_send(next, JAM_LOW, 0, number, words, 3)) == JAM_AGAIN)
            JAM_poll();
        CHECK(code == JAM_OK);
        __atomic_add_fetch(&sent_words, 3, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

static void *receiver(void *argument) {
    uint32_t got[2] = {0, 0};
    (void)argument;
    while (got[0] < MESSAGES || got[1] < MESSAGES) {
        JAM_message message;
        if (!JAM_receive(JAM_LOW, &message))
            continue;
        CHECK(message.from == (JAM_me + JAM_size - 1) % JAM_size && message.count == 3 && message.words[0] < 2);
        CHECK(message.words[1] == got[message.words[0]]++ && message.tag == message.words[1]);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS + 3];
    JAM_initialize();
    CHECK(JAM_size <= 8);
    CHECK(JAM_register(WORK, work, came) == JAM_OK && JAM_register(LEFT, one_left, NULL) == JAM_OK);
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, caller, (void *)i) == 0);
    for (size_t i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[THREADS + i], NULL, sender, (void *)i) == 0);
    CHECK(pthread_create(&threads[THREADS + 2], NULL, receiver, NULL) == 0);
    const unsigned wanted = THREADS * CALLS * JAM_size;
    while (__atomic_load_n(&total, __ATOMIC_SEQ_CST) < wanted)
        JAM_poll();
    for (size_t i = 0; i < THREADS + 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(total == wanted);
    /* Which way they went: by size, and those of this process by none. */
    const char *setting = getenv("FARPOST_JAM_RPC_RDMA");
    const size_t threshold = setting ? (size_t)atoi(setting) : 2048;
    uint64_t by[2] = {0, 0};
    for (uint32_t thread = 0; thread < THREADS; thread++)
        for (uint32_t number = 0; number < CALLS; number++)
            by[size_of(thread, number) > threshold] += JAM_size - 1;
    CHECK(JAM_calls(JAM_BY_BLOCK) == by[1] && JAM_calls(JAM_BY_ITSELF) == THREADS * CALLS);
    CHECK(JAM_calls(JAM_BY_MESSAGES) >= by[0] && JAM_calls(JAM_BY_MESSAGES) < by[0] + JAM_size);
    for (uint32_t to = 0; to < JAM_size; to++)
        CHECK(JAM_rpc(to, LEFT, NULL, 0) == JAM_OK);
    while (__atomic_load_n(&left, __ATOMIC_SEQ_CST) < JAM_size)
        JAM_poll();
    CHECK(JAM_refused() == 0 && JAM_failed_call(NULL, NULL, NULL) == JAM_OK);
    JAM_finalize();
    return 0;
}
