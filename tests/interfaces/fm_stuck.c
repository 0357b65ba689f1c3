// interface: fm
// ranks: 2
// A handler that repeats FM_begin_message until it is given a message may wait for itself. After a while it is told which handler it is, and
// what it waits for; the main program then sends what the handler could not.
#include "check.h"
#include <farpost/fm.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { ASK = 3, PLAIN = 5, STREAM = 7, MANY = 6, LONG = 300 };

static volatile sig_atomic_t released;
static unsigned asked, plain, streamed;

static void on_signal(int number) {
    (void)number;
    released = 1;
}

/* Begins a message again and again, until told why that cannot be. */
static void insist(const char *why) {
    for (;;) {
        CHECK(FM_begin_message(1, LONG, STREAM) == NULL);
        if (strlen(FM_error()) > 0) break;
        CHECK(FM_extract_all() == 0);
    }
    CHECK(strstr(FM_error(), "FM_begin_message: handler 3 has tried for 1 s") && strstr(FM_error(), "to node 1") && strstr(FM_error(), why));
    /* It was told, and is again when as much time has passed. */
    CHECK(FM_begin_message(1, LONG, STREAM) == NULL && strlen(FM_error()) == 0);
}

static int on_ask(FM_stream *stream, unsigned sender) {
    unsigned process;
    CHECK(sender == 1 && FM_receive(&process, stream, sizeof process) == FM_OK);
    if (asked++ == 0) {
        /* The main program's message waits for this handler, which waits for its end. */
        insist("another message is being sent");
    } else {
        /* Node 1 takes in nothing before it is told that this handler is over. */
        for (unsigned i = 0; i < MANY; i++) CHECK(FM_send_4(1, PLAIN, i, 0, 0, 0) == FM_OK);
        insist("no slot is free");
        CHECK(kill((pid_t)process, SIGUSR1) == 0);
    }
    return FM_CONTINUE;
}

static void on_plain(void *buf, unsigned size, unsigned sender) {
    unsigned number;
    CHECK(sender == 0 && size == 16);
    memcpy(&number, buf, sizeof number);
    CHECK(number == plain++);
}

static int on_stream(FM_stream *stream, unsigned sender) {
    static char all[LONG];
    CHECK(sender == 0 && FM_receive(all, stream, LONG) == FM_OK);
    streamed++;
    return FM_CONTINUE;
}

static FM_stream *begin(unsigned to, unsigned length, unsigned handler) {
    FM_stream *out;
    while ((out = FM_begin_message(to, length, handler)) == NULL) {
        CHECK(strlen(FM_error()) == 0);
        FM_extract_all();
    }
    return out;
}

static void ask(void) {
    const unsigned process = (unsigned)getpid();
    FM_stream *out = begin(0, sizeof process, ASK);
    CHECK(FM_send_piece(out, &process, sizeof process) == FM_OK && FM_end_message(out) == FM_OK);
}

static void finish(FM_stream *out) {
    static const char all[LONG];
    CHECK(FM_send_piece(out, all, LONG) == FM_OK && FM_end_message(out) == FM_OK);
}

int main(void) {
    struct sigaction action;
    alarm(60);
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    /* Handlers that send wait for no others, and little has room. */
    const char *const settings[][2] = {{"PATIENCE", "1"}, {"SLOTS", "4"}, {"RECEIVE", "1"}, {"DEPTH", "1"}};
    for (int i = 0; i < 4; i++) {
        char name[40];
        snprintf(name, sizeof name, "FARPOST_FM_%s", settings[i][0]);
        CHECK(setenv(name, settings[i][1], 1) == 0);
    }
    CHECK(FM_set_parameter(FM_QUIET, 1) == FM_OK);
    FM_initialize();
    CHECK(FM_register_handler(ASK, on_ask) == ASK && FM_register_message_handler(PLAIN, on_plain) == PLAIN);
    CHECK(FM_register_handler(STREAM, on_stream) == STREAM);
    if (FM_nodeid == 0) {
        FM_stream *out = begin(1, LONG, STREAM);
        while (asked < 1) FM_extract_all();
        finish(out);
        while (asked < 2) FM_extract_all();
        finish(begin(1, LONG, STREAM));
    } else {
        ask();
        while (streamed < 1) FM_extract_all();
        ask();
        while (!released) {}
        while (plain < MANY || streamed < 2) FM_extract_all();
    }
    FM_finalize();
    return 0;
}
