// interface: fm
// Fast Messages: a four-word message goes between nodes 0 and 1 and back, then messages of 128 bytes in one direction.
// Other nodes take no part.
//
//   mpicc fm_pingpong.c -o fm_pingpong && mpiexec -n 2 ./fm_pingpong
#include <farpost/fm.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 10000, STREAM = 100000, PING = 0, DATA = 1, DONE = 2 };

static unsigned pings, received, done;

static void on_ping(void *buf, unsigned size, unsigned sender) {
    (void)buf, (void)size, (void)sender;
    pings++;
}

static void on_data(void *buf, unsigned size, unsigned sender) {
    (void)buf, (void)size;
    // The answer goes out from the handler.
    if (++received == STREAM) FM_send_4(sender, DONE, received, 0, 0, 0);
}

static void on_done(void *buf, unsigned size, unsigned sender) {
    (void)sender;
    if (size == 16) memcpy(&done, buf, 4);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(void) {
    FM_initialize();
    FM_register_message_handler(PING, on_ping);
    FM_register_message_handler(DATA, on_data);
    FM_register_message_handler(DONE, on_done);
    if (FM_numnodes >= 2 && FM_nodeid < 2) {
        unsigned me = FM_nodeid, other = 1 - me;
        double began = 0;
        for (unsigned round = 0; round < 2 * ROUNDS; round++) {
            if (round == ROUNDS) began = now(); // the first half warms up
            if (me == 0) FM_send_4(other, PING, round, 0, 0, 0);
            while (pings <= round) FM_extract_all();
            if (me == 1) FM_send_4(other, PING, round, 0, 0, 0);
        }
        if (me == 0) {
            printf("FM_send_4, one way: %.0f ns\n", (now() - began) / ROUNDS / 2 * 1e9);
            char frame[FM_FRAME] = {0};
            began = now();
            for (unsigned i = 0; i < STREAM; i++) FM_send(other, DATA, frame, sizeof frame);
            while (done != STREAM) FM_extract_all();
            printf("FM_send of 128 bytes: %.1f million a second\n", STREAM / (now() - began) / 1e6);
        } else {
            while (received < STREAM) FM_extract_all();
        }
    }
    FM_finalize();
    return 0;
}
