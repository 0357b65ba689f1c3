// interface: jam
// ranks: 2 3 5
// VI mode into memory of the program's: it fills with high-priority messages and batches while the receiver makes no call.
#include "check.h"
#include <farpost/jam.h>
#include <stdalign.h>
#include <string.h>

enum { GO = 1, DONE = 2, MESSAGES = 400, BATCH = 8, REGION = 1 << 20 };

static unsigned go, done;

static void on_go(uint32_t from, const void *argument, size_t size, void *context) {
    (void)from, (void)argument, (void)size, (void)context;
    go++;
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

static int count_of(uint32_t number) { return 2 + (int)(number % 21); }

static void fill(uint32_t *words, uint32_t number, uint32_t kind) {
    for (int i = 0; i < 22; i++)
        words[i] = number * 64 + kind * 32 + (uint32_t)i;
}

static void launch(JAM_batch *batch) {
    int code;
    while ((code = JAM_batch_launch(batch)) == JAM_AGAIN)
        JAM_poll();
    CHECK(code == JAM_OK);
}

static void nothing(uint32_t from, uint32_t tag, const uint32_t *words, int count, void *context) {
    (void)from, (void)tag, (void)words, (void)count;
    ++*(unsigned *)context;
}

/* By PIO and by batches, alternating: tag is the number, words[0] says which. */
static void send_all(JAM_batch *batch, uint32_t messages) {
    uint32_t words[22];
    for (uint32_t number = 0; number < messages; number++) {
        int code;
        fill(words, number, 0);
        while ((code = JAM_send(0, JAM_HIGH, 0, number, words, count_of(number))) == JAM_AGAIN)
            JAM_poll();
        CHECK(code == JAM_OK);
        fill(words, number, 1);
        CHECK(JAM_batch_push(batch, number, words, count_of(number)) == JAM_OK);
        if (number % BATCH == BATCH - 1)
            launch(batch);
    }
}

static uint32_t seen[8][2];

static void check(uint32_t from, uint32_t tag, const uint32_t *words, int count) {
    const uint32_t kind = words[0] % 64 / 32;
    CHECK(from > 0 && from < JAM_size && tag == seen[from][kind]++);
    CHECK(count == count_of(tag));
    for (int i = 0; i < count; i++)
        CHECK(words[i] == tag * 64 + kind * 32 + (uint32_t)i);
}

static int all_seen(uint32_t messages) {
    for (uint32_t from = 1; from < JAM_size; from++)
        if (seen[from][0] < messages || seen[from][1] < messages)
            return 0;
    return 1;
}

/* Reads the region and calls nothing until everything is there. */
static void computes(unsigned char *region) {
    size_t at = 0;
    uint32_t number = 0;
    while (!all_seen(MESSAGES)) {
        const JAM_vi_message *message = (const JAM_vi_message *)(region + at);
        const uint32_t count = __atomic_load_n(&message->count, __ATOMIC_ACQUIRE);
        if (count == 0)
            continue;
        CHECK(count <= JAM_MAX_WORDS && message->number == number++);
        check(message->from, message->tag, message->words, (int)count);
        at += (16 + 4 * count + 15) / 16 * 16;
    }
    size_t filled = 0;
    CHECK(JAM_vi_disarm(region, &filled) == JAM_OK && filled == at);
    CHECK(((JAM_vi_message *)(region + at))->count == JAM_VI_END);
    CHECK(JAM_vi_disarm(region, &filled) == JAM_EINVAL);
}

/* Two short regions in turn, read by calls. */
static void turns(unsigned char *region) {
    unsigned used_up = 0;
    memset(seen, 0, sizeof seen);
    CHECK(JAM_vi_arm(region, 1000) == JAM_OK && JAM_vi_arm(region + 1024, 500) == JAM_OK);
    while (!all_seen(MESSAGES)) {
        JAM_message message;
        if (JAM_vi_receive(&message)) {
            CHECK(message.priority == JAM_HIGH);
            check(message.from, message.tag, message.words, message.count);
        }
        void *empty = JAM_vi_exhausted();
        if (empty != NULL) {
            CHECK(empty == (used_up % 2 == 0 ? region : region + 1024));
            CHECK(JAM_vi_arm(empty, used_up % 2 == 0 ? 1000 : 500) == JAM_OK);
            used_up++;
        }
    }
    CHECK(used_up > 20);
}

int main(void) {
    static alignas(16) unsigned char region[REGION];
    JAM_initialize();
    CHECK(JAM_size <= 8);
    CHECK(JAM_register(GO, on_go, NULL) == JAM_OK && JAM_register(DONE, on_done, NULL) == JAM_OK);
    CHECK(JAM_vi_arm(NULL, 1000) == JAM_EINVAL && JAM_vi_arm(region + 8, 1000) == JAM_EINVAL);
    CHECK(JAM_vi_arm(region, JAM_VI_LONGEST - 1) == JAM_EINVAL && strstr(JAM_error(), "112"));
    CHECK(JAM_vi_receive(NULL) == 0 && JAM_vi_exhausted() == NULL);
    meet();
    JAM_batch *batch = JAM_batch_create(0);
    if (JAM_me > 0) {
        /* The ring is there before process 0 computes. */
        const uint32_t words[2] = {0, 0};
        CHECK(JAM_batch_push(batch, 0, words, 2) == JAM_OK);
        launch(batch);
    } else {
        unsigned came = 0;
        while (came < JAM_size - 1)
            JAM_batch_receive(100, nothing, &came);
    }
    meet();
    if (JAM_me == 0) {
        CHECK(JAM_vi_arm(region, REGION) == JAM_OK);
        for (uint32_t to = 1; to < JAM_size; to++)
            CHECK(JAM_rpc(to, GO, NULL, 0) == JAM_OK);
        computes(region);
        meet();
        turns(region);
    } else {
        while (go == 0)
            JAM_poll();
        send_all(batch, MESSAGES);
        meet();
        send_all(batch, MESSAGES);
    }
    meet();
    CHECK(JAM_refused() == 0);
    JAM_batch_free(batch);
    JAM_finalize();
    return 0;
}
