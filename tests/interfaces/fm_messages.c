// interface: fm
// ranks: 1 2 3 8
// settings: FARPOST_FM_BUFFERS=0 | FARPOST_FM_BUFFERS=2 | FARPOST_FM_BUFFERS=2 FARPOST_FM_SWITCH=0 | FARPOST_FM_FLOW=0 | FARPOST_FM_FLOW=0 FARPOST_FM_BUFFERS=0 | FARPOST_FM_FLOW=0 FARPOST_FM_BUFFERS=2 FARPOST_FM_SWITCH=0
// Fast Messages among all nodes, oneself included: messages of one frame once each, answers from handlers, messages in
// pieces in order, bounded extraction.
#include "check.h"
#include <farpost/fm.h>
#include <string.h>

enum { EACH = 200, STREAMS = 40, NODES = 64 };

static unsigned seen[NODES][EACH], answers[NODES], streamed[NODES], done;
static ULONG ask, answer, plain, stream, finished;

static unsigned char pattern(unsigned from, unsigned number, unsigned at) {
    return (unsigned char)(from * 31 + number * 7 + at);
}

static void on_ask(void *buf, unsigned size, unsigned sender) {
    CHECK(size == 16);
    CHECK(FM_send(sender, answer, buf, size) == FM_OK);
    memset(buf, 0xee, size); // nobody looks at it again
}

static void on_answer(void *buf, unsigned size, unsigned sender) {
    unsigned words[4];
    CHECK(size == sizeof words);
    memcpy(words, buf, sizeof words);
    CHECK(words[0] == sender && words[1] == FM_nodeid && words[2] < EACH && words[3] == 0xffffffffu);
    answers[sender]++;
}

static void on_plain(void *buf, unsigned size, unsigned sender) {
    const unsigned char *bytes = buf;
    unsigned number;
    CHECK(size >= 4 && size <= FM_FRAME);
    memcpy(&number, bytes, 4);
    CHECK(number < EACH && size == 4 + number % 125);
    for (unsigned i = 4; i < size; i++) CHECK(bytes[i] == pattern(sender, number, i));
    seen[sender][number]++;
}

static unsigned length_of(unsigned number) { return number * number * 3; }

static int on_stream(FM_stream *stream, unsigned sender) {
    unsigned number, part = 1;
    unsigned char buf[700];
    CHECK(FM_receive(&number, stream, sizeof number) == FM_OK);
    CHECK(number == streamed[sender]);
    // Every fifth is left unread.
    if (number % 5 != 4) {
        for (unsigned at = 0; at < length_of(number); at += part) {
            part = 1 + (at * 5 + 17) % sizeof buf;
            if (part > length_of(number) - at) part = length_of(number) - at;
            CHECK(FM_receive(buf, stream, part) == FM_OK);
            for (unsigned i = 0; i < part; i++) CHECK(buf[i] == pattern(sender, number, at + i));
        }
        CHECK(number == streamed[sender]);
    }
    streamed[sender]++;
    return number % 2 ? FM_QUIT : FM_CONTINUE;
}

static void on_finished(void *buf, unsigned size, unsigned sender) {
    (void)buf, (void)size, (void)sender;
    done++;
}

static void send_stream(unsigned to, unsigned number) {
    static unsigned char bytes[STREAMS * STREAMS * 3];
    unsigned length = length_of(number);
    for (unsigned i = 0; i < length; i++) bytes[i] = pattern(FM_nodeid, number, i);
    FM_stream *out;
    while ((out = FM_begin_message(to, 4 + length + number, stream)) == NULL) {
        CHECK(strlen(FM_error()) == 0);
        FM_extract(300);
    }
    CHECK(FM_send_piece(out, &number, 4) == FM_OK);
    for (unsigned at = 0, part; at < length; at += part) {
        part = 1 + (at + 3) % 997;
        if (part > length - at) part = length - at;
        CHECK(FM_send_piece(out, bytes + at, part) == FM_OK);
    }
    CHECK(FM_end_message(out) == FM_OK);
}

int main(void) {
    CHECK(FM_set_parameter(FM_QUIET, 1) == FM_OK);
    FM_initialize();
    unsigned me = FM_nodeid, nodes = FM_numnodes;
    CHECK(nodes <= NODES);
    CHECK((ask = FM_register_message_handler(FM_ANY_ID, on_ask)) == 0);
    CHECK((answer = FM_register_message_handler(FM_ANY_ID, on_answer)) == 1);
    CHECK((plain = FM_register_message_handler(77, on_plain)) == 77);
    CHECK((stream = FM_register_handler(FM_ANY_ID, on_stream)) == 2);
    CHECK((finished = FM_register_message_handler(1023, on_finished)) == 1023);

    // Known senders or not, before and between messages: programs of FM 2.1 say so.
    FM_reallocate_credit();
    for (unsigned number = 0; number < EACH; number++) {
        if (number == STREAMS / 2) FM_reallocate_credit();
        for (unsigned to = 0; to < nodes; to++) {
            unsigned char bytes[FM_FRAME];
            unsigned size = 4 + number % 125;
            memcpy(bytes, &number, 4);
            for (unsigned i = 4; i < size; i++) bytes[i] = pattern(me, number, i);
            CHECK(FM_send(to, plain, bytes, size) == FM_OK);
            memset(bytes, 0, sizeof bytes);
            CHECK(FM_send_4(to, ask, to, me, number, 0xffffffffu) == FM_OK);
            if (number < STREAMS) send_stream(to, number);
        }
        if (number % 3 == 0) CHECK(FM_extract(500) >= 0);
    }
    int all;
    do {
        if (me % 2) FM_extract_all();
        else FM_extract(FM_ALL);
        all = 1;
        for (unsigned from = 0; from < nodes; from++) {
            all &= answers[from] == EACH && streamed[from] == STREAMS;
            for (unsigned number = 0; number < EACH; number++) all &= seen[from][number] == 1;
        }
    } while (!all);
    // Who has everything may leave when the others have.
    for (unsigned to = 0; to < nodes; to++) CHECK(FM_send(to, finished, NULL, 0) == FM_OK);
    while (done < nodes) FM_extract_all();
    for (unsigned from = 0; from < nodes; from++) {
        CHECK(answers[from] == EACH && streamed[from] == STREAMS);
        for (unsigned number = 0; number < EACH; number++) CHECK(seen[from][number] == 1);
    }
    CHECK(FM_next_fault(NULL, NULL, 0) == 0);
    FM_finalize();
    CHECK(FM_send_4(0, 0, 0, 0, 0, 0) == FM_EINIT);
    return 0;
}
