// interface: fm
// ranks: 2 3 8
// Mistakes with Fast Messages are refused with a code and a sentence that names the value; a peer's are faults that name
// the peer; what comes next arrives.
#include "check.h"
#include <farpost/fm.h>
#include <string.h>

static unsigned good, over, missing;

static void on_good(void *buf, unsigned size, unsigned sender) {
    (void)buf, (void)size, (void)sender;
    good++;
}

static FM_stream *kept;

static int on_stream(FM_stream *stream, unsigned sender) {
    char buf[300];
    (void)sender;
    CHECK(FM_receive(NULL, stream, 1) == FM_EARG);
    CHECK(FM_receive(buf, stream, 100) == FM_OK);
    CHECK(FM_receive(buf, stream, 201) == FM_ESIZE);
    CHECK(strstr(FM_error(), "FM_receive") && strstr(FM_error(), "receive no more than was sent"));
    CHECK(FM_extract_all() == 0);
    kept = stream;
    over++;
    return FM_CONTINUE;
}

static int told(int code, int wanted, const char *part) {
    if (code != wanted || !strstr(FM_error(), part)) {
        fprintf(stderr, "code %d, wanted %d; \"%s\", wanted \"%s\"\n", code, wanted, FM_error(), part);
        return 0;
    }
    return 1;
}

int main(void) {
    char bytes[200] = {0}, sentence[200];
    CHECK(FM_set_parameter(FM_QUIET, 1) == FM_OK);
    CHECK(told(FM_set_parameter(99, 1), FM_EARG, "parameter 99"));
    CHECK(told(FM_set_parameter(FM_MAX_HANDLERS, 0), FM_EARG, "1 to 65536"));
    CHECK(FM_set_parameter(FM_MAX_HANDLERS, 16) == FM_OK);
    CHECK(FM_set_parameter(FM_GRM_NAME, "localhost") == FM_OK);
    CHECK(told(FM_send_4(0, 0, 0, 0, 0, 0), FM_EINIT, "FM_initialize"));
    CHECK(told(FM_extract(1), FM_EINIT, "FM_initialize"));
    CHECK(FM_register_handler(0, on_stream) == FM_ANY_ID);
    CHECK(FM_begin_message(0, 1, 0) == NULL && strstr(FM_error(), "FM_initialize"));
    FM_initialize();
    unsigned me = FM_nodeid, nodes = FM_numnodes, next = (me + 1) % nodes, before = (me + nodes - 1) % nodes;
    CHECK(told(FM_set_parameter(FM_QUIET, 1), FM_EINIT, "before FM_initialize"));
    CHECK(FM_register_message_handler(1, NULL) == FM_ANY_ID && strstr(FM_error(), "NULL"));
    CHECK(FM_register_message_handler(16, on_good) == FM_ANY_ID && strstr(FM_error(), "16"));
    CHECK(FM_register_message_handler(1, on_good) == 1);
    CHECK(FM_register_handler(2, on_stream) == 2);

    CHECK(told(FM_send(next, 1, bytes, 129), FM_ESIZE, "129"));
    CHECK(told(FM_send(next, 1, NULL, 5), FM_EARG, "NULL"));
    CHECK(told(FM_send(nodes, 1, bytes, 5), FM_EDEST, "does not exist"));
    CHECK(told(FM_send(~0ul, 1, bytes, 5), FM_EDEST, "does not exist"));
    CHECK(told(FM_send_4(next, 16, 0, 0, 0, 0), FM_EHANDLER, "handler 16"));
    CHECK(told(FM_send_4(next, 1ul << 40, 0, 0, 0, 0), FM_EHANDLER, "handler"));
    CHECK(FM_begin_message(next, 1ul << 40, 2) == NULL && strstr(FM_error(), "longest"));
    CHECK(told(FM_send_piece(NULL, bytes, 1), FM_ESTREAM, "stream"));
    CHECK(told(FM_end_message((FM_stream *)bytes), FM_ESTREAM, "stream"));
    CHECK(told(FM_receive(bytes, (FM_stream *)bytes, 1), FM_ESTREAM, "stream"));

    // A message longer than announced: the piece is refused, the message goes on.
    FM_stream *out = FM_begin_message(next, 300, 2);
    CHECK(out != NULL);
    CHECK(FM_begin_message(next, 300, 2) == NULL && strlen(FM_error()) == 0);
    CHECK(FM_send_piece(out, bytes, 200) == FM_OK);
    CHECK(told(FM_send_piece(out, bytes, 101), FM_ESIZE, "301"));
    CHECK(told(FM_send_piece(out, NULL, 1), FM_EARG, "NULL"));
    CHECK(FM_send_piece(out, bytes, 100) == FM_OK);
    CHECK(FM_end_message(out) == FM_OK);
    CHECK(told(FM_send_piece(out, bytes, 1), FM_ESTREAM, "stream"));

    // Handlers that nobody registered, and one that takes one frame only; then a good one.
    CHECK(FM_send_4(next, 9, 0, 0, 0, 0) == FM_OK);
    CHECK((out = FM_begin_message(next, 1000, 1)) != NULL);
    for (int i = 0; i < 5; i++) CHECK(FM_send_piece(out, bytes, 200) == FM_OK);
    CHECK(FM_end_message(out) == FM_OK);
    CHECK(FM_send(next, 1, bytes, 128) == FM_OK);
    while (over < 1 || good < 1 || missing < 2) {
        ULONG node = 999;
        FM_extract_all();
        if (FM_next_fault(&node, sentence, sizeof sentence) == 1) {
            CHECK(node == before);
            char who[32];
            snprintf(who, sizeof who, "process %u", before);
            CHECK(strstr(sentence, who) && strstr(sentence, "handler"));
            CHECK(strstr(sentence, missing == 0 || strstr(sentence, "0x9") ? "" : "0x3e8"));
            missing++;
        }
    }
    CHECK(told(FM_receive(bytes, kept, 1), FM_ESTREAM, "stream"));
    CHECK(FM_next_fault(NULL, sentence, 5) == 0);
    for (unsigned to = 0; to < nodes; to++) CHECK(FM_send(to, 1, NULL, 0) == FM_OK);
    while (good < 1 + nodes) FM_extract_all();
    FM_finalize();
    return 0;
}
