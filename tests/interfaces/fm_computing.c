// interface: fm
// ranks: 2 3
// settings: FARPOST_FM_SLOTS=16 | FARPOST_FM_SLOTS=16 FARPOST_FM_BUFFERS=2
// A node that computes and calls nothing takes in what others send all the same: more than its network and their windows hold. They get
// on, and everything is in its host receive queue. Handlers run in its calls only.
#include "check.h"
#include <farpost/fm.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ALL = 150, LONG = 3000, BEGIN = 1, PLAIN, STREAM };

static volatile sig_atomic_t told[2];
static unsigned computing, handled, streamed, began;
static pid_t process;

static void on_signal(int number) { told[number == SIGUSR2] = 1; }

static void on_begin(void *buf, unsigned size, unsigned sender) {
    unsigned words[4];
    CHECK(sender == 0 && size == sizeof words);
    memcpy(words, buf, sizeof words);
    process = (pid_t)words[0];
    began = 1;
}

static void on_plain(void *buf, unsigned size, unsigned sender) {
    unsigned words[4];
    CHECK(!computing && size == sizeof words);
    memcpy(words, buf, sizeof words);
    CHECK(words[0] == sender && words[1] == ~sender);
    handled++;
}

static int on_stream(FM_stream *stream, unsigned sender) {
    // One for each sender: while a handler waits for the rest of its message, those of others run.
    static unsigned char all[3][LONG];
    CHECK(!computing);
    CHECK(FM_receive(all[sender], stream, LONG) == FM_OK);
    for (unsigned i = 0; i < LONG; i++) CHECK(all[sender][i] == (unsigned char)(i * 7 + sender));
    streamed++;
    return FM_CONTINUE;
}

int main(void) {
    // Whoever is not served would wait for ever.
    alarm(60);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGUSR2, &action, NULL) == 0);
    FM_initialize();
    const unsigned me = FM_nodeid, others = FM_numnodes - 1, each = ALL / others;
    CHECK(FM_register_message_handler(BEGIN, on_begin) == BEGIN);
    CHECK(FM_register_message_handler(PLAIN, on_plain) == PLAIN);
    CHECK(FM_register_handler(STREAM, on_stream) == STREAM);
    if (me == 0) {
        computing = 1;
        for (unsigned to = 1; to <= others; to++) CHECK(FM_send_4(to, BEGIN, (uint32_t)getpid(), 0, 0, 0) == FM_OK);
        // No call from here on: the program looks at memory only.
        while (!told[0] || (others > 1 && !told[1])) {}
        CHECK(handled == 0 && streamed == 0);
        computing = 0;
        // Everything is there already.
        const unsigned bytes = others * (each * 16 + LONG);
        const unsigned extracted = (unsigned)FM_extract_all();
        if (extracted != bytes) fprintf(stderr, "extracted %u bytes of %u\n", extracted, bytes);
        CHECK(extracted == bytes && handled == others * each && streamed == others);
    } else {
        static unsigned char bytes[LONG];
        while (!began) FM_extract_all();
        for (unsigned i = 0; i < each; i++) CHECK(FM_send_4(0, PLAIN, me, ~me, i, 0) == FM_OK);
        for (unsigned i = 0; i < LONG; i++) bytes[i] = (unsigned char)(i * 7 + me);
        FM_stream *out;
        while ((out = FM_begin_message(0, LONG, STREAM)) == NULL) FM_extract_all();
        CHECK(FM_send_piece(out, bytes, LONG) == FM_OK);
        CHECK(FM_end_message(out) == FM_OK);
        // Waits until all of it has been accepted.
        FM_finalize();
        CHECK(kill(process, me == 1 ? SIGUSR1 : SIGUSR2) == 0);
        return 0;
    }
    FM_finalize();
    return 0;
}
