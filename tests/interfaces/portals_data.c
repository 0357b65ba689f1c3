// interface: portals3
// ranks: 1 2 8
// settings: FARPOST_PORTALS=generic | FARPOST_PORTALS=accelerated
// Put, get, get-put and their regions: data, events and their contents, thresholds, unlinking, acknowledgements, matching.
// Every process sends to the next one, so that each is initiator and target of the same tests.
#include "portals.h"

enum { PORTAL = 4, LONG = 300000 };

static unsigned to, from;

static void fill(unsigned char *bytes, size_t count, unsigned seed) {
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251 + seed * 13);
}

static void check_fill(const unsigned char *bytes, size_t count, unsigned seed) {
    for (size_t i = 0; i < count; i++)
        CHECK(bytes[i] == (unsigned char)(i * 7 + i / 251 + seed * 13));
}

static int same(ptl_process_id_t id, unsigned rank) { return id.nid == ids[rank].nid && id.pid == ids[rank].pid; }

/* Section 5: which events, in which order, with which contents. With and without an acknowledgement, short and long. */
static void puts_and_events(ptl_size_t bytes, ptl_ack_req_t ack) {
    static unsigned char out[LONG], in[LONG + 8];
    ptl_handle_eq_t sent = queue(16), came = queue(16);
    const int acked = ack == PTL_ACK_REQ;
    ptl_uid_t uid;
    ptl_jid_t jid;
    PTL(PtlGetUid(ni, &uid));
    PTL(PtlGetJid(ni, &jid));
    fill(out, bytes, me);
    memset(in, 0xee, sizeof in);
    const ptl_handle_md_t target =
        attach(PORTAL, 0x1234, 0xf000, descriptor(in, LONG, 1, PTL_MD_OP_PUT, came), PTL_UNLINK);
    meet();
    const ptl_handle_md_t initiator = bind(descriptor(out, bytes, 1 + acked, 0, sent), PTL_UNLINK);
    PTL(PtlPut(initiator, ack, ids[to], PORTAL, 0, 0x5234, 99, 0xfeedbeefcafe0000u + me));

    ptl_event_t start = NEXT(sent, SEND_START);
    CHECK(same(start.initiator, me) && start.uid == uid && start.jid == jid && start.pt_index == PORTAL);
    CHECK(start.match_bits == 0x5234 && start.rlength == bytes && start.mlength == bytes && start.offset == 99);
    CHECK(start.md_handle == initiator && start.md.start == out && start.md.user_ptr == out && start.md.length == bytes);
    CHECK(start.hdr_data == 0xfeedbeefcafe0000u + me);
    ptl_event_t stop = NEXT(sent, SEND_END);
    CHECK(stop.link == start.link && stop.sequence == start.sequence + 1 && stop.md_handle == initiator);
    CHECK(stop.match_bits == 0x5234 && stop.mlength == bytes);
    if (acked) {
        /* ACK: what was stored, who answers; 3.2 echoes length and offset. */
        ptl_event_t event = NEXT(sent, ACK);
        CHECK(same(event.initiator, to) && event.mlength == bytes && event.rlength == bytes && event.match_bits == 0x5234);
        CHECK(event.offset == 0 && event.md_handle == initiator && event.hdr_data == 0);
        CHECK(event.pt_index == PTL_PT_INDEX_ANY);
    }
    ptl_event_t gone = NEXT(sent, UNLINK);
    CHECK(gone.md_handle == initiator && gone.md.threshold == 0);
    CHECK(gone.link == gone.sequence - 1);
    NOTHING(sent);
    CHECK(PtlMDUnlink(initiator) == PTL_MD_INVALID);

    start = NEXT(came, PUT_START);
    CHECK(same(start.initiator, from) && start.uid == uid && start.jid == jid && start.pt_index == PORTAL);
    CHECK(start.match_bits == 0x5234 && start.rlength == bytes && start.mlength == bytes);
    /* Managed here: the offset of the request means nothing. */
    CHECK(start.offset == 0 && start.hdr_data == 0xfeedbeefcafe0000u + from && start.md_handle == target);
    CHECK(start.md.threshold == 0 && start.md.user_ptr == in);
    stop = NEXT(came, PUT_END);
    CHECK(stop.link == start.link && stop.sequence > start.sequence && stop.mlength == bytes && stop.md_handle == target);
    CHECK(same(stop.initiator, from) && stop.hdr_data == start.hdr_data);
    check_fill(in, bytes, from);
    CHECK(in[bytes] == 0xee && in[bytes + 7] == 0xee);
    gone = NEXT(came, UNLINK);
    CHECK(gone.md_handle == target && gone.link == stop.sequence);
    NOTHING(came);
    PTL(PtlEQFree(sent));
    PTL(PtlEQFree(came));
    meet();
}

/* A get: two events here, two there; sending the request makes none and does not count. */
static void gets(ptl_size_t bytes) {
    static unsigned char out[LONG], in[LONG + 8];
    ptl_handle_eq_t asked = queue(16), served = queue(16);
    fill(out, sizeof out, me);
    memset(in, 0xee, sizeof in);
    const ptl_handle_md_t target = attach(
        PORTAL, 7, 0, descriptor(out, LONG, PTL_MD_THRESH_INF, PTL_MD_OP_GET | PTL_MD_MANAGE_REMOTE, served), PTL_UNLINK);
    meet();
    const ptl_handle_md_t reply = bind(descriptor(in, bytes, 1, 0, asked), PTL_UNLINK);
    PTL(PtlGet(reply, ids[to], PORTAL, 0, 7, 0));
    ptl_event_t start = NEXT(asked, REPLY_START), stop = NEXT(asked, REPLY_END);
    CHECK(stop.link == start.link && same(stop.initiator, to) && stop.mlength == bytes && stop.rlength == bytes);
    CHECK(stop.offset == 0 && stop.md_handle == reply && stop.pt_index == PTL_PT_INDEX_ANY && stop.match_bits == 0);
    check_fill(in, bytes, to);
    CHECK(in[bytes] == 0xee);
    ptl_event_t gone = NEXT(asked, UNLINK);
    CHECK(gone.link == stop.sequence);
    start = NEXT(served, GET_START), stop = NEXT(served, GET_END);
    CHECK(stop.link == start.link && same(stop.initiator, from) && stop.mlength == bytes && stop.rlength == bytes);
    CHECK(stop.offset == 0 && stop.match_bits == 7 && stop.pt_index == PORTAL && stop.md_handle == target);
    /* The START of a second get could come before the END of the first. */
    meet();
    /* A region of it, from an offset there. */
    const ptl_size_t half = bytes / 2, quarter = bytes / 4;
    memset(in, 0xee, sizeof in);
    const ptl_handle_md_t part = bind(descriptor(in, bytes, PTL_MD_THRESH_INF, 0, asked), PTL_RETAIN);
    PTL(PtlGetRegion(part, quarter, half, ids[to], PORTAL, 0, 7, 5));
    NEXT(asked, REPLY_START), stop = NEXT(asked, REPLY_END);
    CHECK(stop.offset == quarter && stop.mlength == half);
    for (ptl_size_t i = 0; i < bytes; i++) {
        const size_t at = (size_t)(i - quarter + 5);
        const int inside = i >= quarter && i < quarter + half;
        CHECK(in[i] == (inside ? (unsigned char)(at * 7 + at / 251 + to * 13) : 0xee));
    }
    NEXT(served, GET_START), stop = NEXT(served, GET_END);
    CHECK(stop.offset == 5 && stop.mlength == half);
    NOTHING(asked);
    NOTHING(served);
    PTL(PtlMDUnlink(part));
    meet();
    PTL(PtlMDUnlink(target));
    PTL(PtlEQFree(asked));
    PTL(PtlEQFree(served));
    meet();
}

/* Regions of a put at offsets of the initiator's choice. */
static void put_regions(void) {
    static unsigned char out[1000], in[1000];
    ptl_handle_eq_t sent = queue(16), came = queue(16);
    fill(out, sizeof out, me);
    memset(in, 0, sizeof in);
    const ptl_handle_md_t target =
        attach(PORTAL, 8, 0, descriptor(in, 1000, PTL_MD_THRESH_INF, PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE, came), PTL_RETAIN);
    meet();
    const ptl_handle_md_t initiator = bind(descriptor(out, 1000, PTL_MD_THRESH_INF, 0, sent), PTL_RETAIN);
    PTL(PtlPutRegion(initiator, 600, 400, PTL_NO_ACK_REQ, ids[to], PORTAL, 0, 8, 600, 1));
    PTL(PtlPutRegion(initiator, 0, 600, PTL_NO_ACK_REQ, ids[to], PORTAL, 0, 8, 0, 2));
    PTL(PtlPutRegion(initiator, 1000, 0, PTL_NO_ACK_REQ, ids[to], PORTAL, 0, 8, 1000, 3));
    /* START events in order; END events at any time after their START. */
    unsigned starts = 0, ends = 0;
    while (ends < 3) {
        ptl_event_t event;
        int which;
        PTL(PtlEQPoll(&came, 1, PATIENCE_MS, &event, &which));
        if (event.type == PTL_EVENT_PUT_START)
            CHECK(event.hdr_data == ++starts);
        else
            CHECK(event.type == PTL_EVENT_PUT_END && event.hdr_data <= starts && ++ends);
        CHECK(event.offset == (event.hdr_data == 1 ? 600 : event.hdr_data == 2 ? 0 : 1000));
    }
    check_fill(in, 1000, from);
    /* As at the target: all have started, and end when they will. */
    for (starts = ends = 0; starts + ends < 6;) {
        ptl_event_t event;
        int which;
        PTL(PtlEQPoll(&sent, 1, PATIENCE_MS, &event, &which));
        if (event.type == PTL_EVENT_SEND_START)
            CHECK(event.hdr_data == ++starts);
        else
            CHECK(event.type == PTL_EVENT_SEND_END && ++ends <= starts);
    }
    CHECK(ends == 3);
    NOTHING(sent);
    PTL(PtlMDUnlink(initiator));
    meet();
    PTL(PtlMDUnlink(target));
    PTL(PtlEQFree(sent));
    PTL(PtlEQFree(came));
    meet();
}

/* Get-put: swapped, and atomic with respect to others. */
static void swaps(void) {
    static uint64_t cell, lock_word;
    uint64_t mine = 1000 + me, old = 0;
    ptl_handle_eq_t here = queue(64), there = queue(1024);
    cell = 77 + me;
    const ptl_handle_md_t target = attach(
        PORTAL, 9, 0,
        descriptor(&cell, 8, PTL_MD_THRESH_INF, PTL_MD_OP_GET | PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE, there), PTL_RETAIN);
    meet();
    const ptl_handle_md_t get = bind(descriptor(&old, 8, PTL_MD_THRESH_INF, 0, here), PTL_RETAIN);
    const ptl_handle_md_t put = bind(descriptor(&mine, 8, PTL_MD_THRESH_INF, 0, here), PTL_RETAIN);
    PTL(PtlGetPut(get, put, ids[to], PORTAL, 0, 9, 0, 4242 + me));
    NEXT(here, SEND_START);
    unsigned ends = 0, replies = 0;
    while (ends < 1 || replies < 2) {
        ptl_event_t event;
        int which;
        PTL(PtlEQPoll(&here, 1, PATIENCE_MS, &event, &which));
        if (event.type == PTL_EVENT_SEND_END)
            CHECK(event.md_handle == put && ends++ == 0);
        else {
            CHECK(event.type == (replies++ == 0 ? PTL_EVENT_REPLY_START : PTL_EVENT_REPLY_END));
            CHECK(event.md_handle == get && event.mlength == 8);
        }
    }
    CHECK(old == 77 + to);
    ptl_event_t start = NEXT(there, GETPUT_START), stop = NEXT(there, GETPUT_END);
    CHECK(start.link == stop.link && stop.hdr_data == 4242 + from && stop.mlength == 8 && same(stop.initiator, from));
    CHECK(cell == 1000 + from);
    meet();
    PTL(PtlMDUnlink(target));
    /* A lock at process 0: 1 is taken by whoever swaps it for 0; what it protects is read and written by put and get. */
    static uint64_t counter;
    ptl_handle_md_t guard = 0, guarded = 0;
    lock_word = 1, counter = 0;
    const unsigned both = PTL_MD_OP_GET | PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE;
    if (me == 0) {
        guard = attach(PORTAL, 10, 0, descriptor(&lock_word, 8, PTL_MD_THRESH_INF, both, PTL_EQ_NONE), PTL_RETAIN);
        guarded = attach(PORTAL, 11, 0, descriptor(&counter, 8, PTL_MD_THRESH_INF, both, PTL_EQ_NONE), PTL_RETAIN);
    }
    meet();
    uint64_t value;
    const ptl_handle_md_t word = bind(descriptor(&value, 8, PTL_MD_THRESH_INF, PTL_MD_EVENT_START_DISABLE, here), PTL_RETAIN);
    for (int turn = 0; turn < 5; turn++) {
        do {
            mine = 0;
            PTL(PtlGetPut(get, put, ids[0], PORTAL, 0, 10, 0, 0));
            NEXT(here, SEND_START);
            for (int n = 0; n < 3; n++) {
                ptl_event_t event;
                int which;
                PTL(PtlEQPoll(&here, 1, PATIENCE_MS, &event, &which));
            }
        } while (old == 0);
        PTL(PtlGet(word, ids[0], PORTAL, 0, 11, 0));
        NEXT(here, REPLY_END);
        value++;
        PTL(PtlPut(word, PTL_ACK_REQ, ids[0], PORTAL, 0, 11, 0, 0));
        NEXT(here, SEND_END);
        NEXT(here, ACK);
        mine = 1;
        PTL(PtlGetPut(get, put, ids[0], PORTAL, 0, 10, 0, 0));
        NEXT(here, SEND_START);
        for (int n = 0; n < 3; n++) {
            ptl_event_t event;
            int which;
            PTL(PtlEQPoll(&here, 1, PATIENCE_MS, &event, &which));
        }
        CHECK(old == 0);
    }
    meet();
    if (me == 0) {
        CHECK(counter == 5 * size && lock_word == 1);
        PTL(PtlMDUnlink(guard));
        PTL(PtlMDUnlink(guarded));
    }
    PTL(PtlMDUnlink(word));
    PTL(PtlMDUnlink(get));
    PTL(PtlMDUnlink(put));
    PTL(PtlEQFree(here));
    PTL(PtlEQFree(there));
    meet();
}

/* Section 3.10.2: pieces, at both sides. */
static void pieces(void) {
    static unsigned char out[3][400], in[4][300];
    ptl_handle_eq_t sent = queue(16), came = queue(16);
    unsigned char whole[1200], got[1200];
    fill(whole, 1200, me);
    for (int n = 0; n < 3; n++)
        memcpy(out[n], whole + 400 * n, 400);
    memset(in, 0, sizeof in);
    ptl_md_iovec_t into[5] = {{in[0], 300}, {in[1], 300}, {NULL, 0}, {in[2], 300}, {in[3], 300}};
    ptl_md_iovec_t of[3] = {{out[0], 400}, {out[1], 400}, {out[2], 400}};
    const ptl_handle_md_t target =
        attach(PORTAL, 12, 0, descriptor(into, 5, 2, PTL_MD_OP_PUT | PTL_MD_OP_GET | PTL_MD_MANAGE_REMOTE | PTL_MD_IOVEC, came),
               PTL_RETAIN);
    meet();
    const ptl_handle_md_t initiator = bind(descriptor(of, 3, PTL_MD_THRESH_INF, PTL_MD_IOVEC, sent), PTL_RETAIN);
    PTL(PtlPut(initiator, PTL_NO_ACK_REQ, ids[to], PORTAL, 0, 12, 0, 0));
    ptl_event_t event = NEXT(sent, SEND_START);
    CHECK(event.mlength == 1200 && event.md.length == 3);
    NEXT(sent, SEND_END);
    NEXT(came, PUT_START);
    NEXT(came, PUT_END);
    for (int n = 0; n < 4; n++)
        memcpy(got + 300 * n, in[n], 300);
    check_fill(got, 1200, from);
    /* END events come in any order: a get could read before the put's data are there. */
    meet();
    /* Across the borders of pieces, back. */
    memset(out, 0, sizeof out);
    PTL(PtlGetRegion(initiator, 390, 500, ids[to], PORTAL, 0, 12, 290));
    NEXT(sent, REPLY_START);
    NEXT(sent, REPLY_END);
    for (int n = 0; n < 3; n++)
        memcpy(got + 400 * n, out[n], 400);
    for (int i = 0; i < 1200; i++)
        CHECK(got[i] == (i >= 390 && i < 890 ? whole[i - 100] : 0));
    NEXT(came, GET_START);
    NEXT(came, GET_END);
    PTL(PtlMDUnlink(initiator));
    meet();
    PTL(PtlMDUnlink(target));
    PTL(PtlEQFree(sent));
    PTL(PtlEQFree(came));
    meet();
}

/* Section 2.2: the first entry that accepts wins; one that rejects is passed over. */
static void matching(void) {
    static unsigned char in[8][64], out[64];
    ptl_handle_eq_t came = queue(32), sent = queue(64);
    ptl_handle_me_t entry, only_other, empty;
    ptl_handle_md_t md_handle;
    fill(out, 64, me);
    const int everything = PTL_MD_OP_PUT | PTL_MD_OP_GET;
    /* 0: of somebody else (if there is somebody). 1: other bits. 2: no descriptor. 3: inactive. 4: gets only. 5: too short.
       6: takes it once. 7: takes the rest, truncated. */
    PTL(PtlMEAttach(ni, PORTAL, ids[to], 5, 0, PTL_RETAIN, PTL_INS_AFTER, &only_other));
    PTL(PtlMDAttach(only_other, descriptor(in[0], 64, PTL_MD_THRESH_INF, PTL_MD_OP_PUT, came), PTL_RETAIN, NULL));
    attach(PORTAL, 6, 0, descriptor(in[1], 64, PTL_MD_THRESH_INF, everything, came), PTL_RETAIN);
    PTL(PtlMEAttach(ni, PORTAL, anybody, 5, 0, PTL_RETAIN, PTL_INS_AFTER, &empty));
    attach(PORTAL, 5, 0, descriptor(in[3], 64, 0, everything, came), PTL_RETAIN);
    attach(PORTAL, 5, 0, descriptor(in[4], 64, PTL_MD_THRESH_INF, PTL_MD_OP_GET, came), PTL_RETAIN);
    attach(PORTAL, 5, 0, descriptor(in[5], 63, PTL_MD_THRESH_INF, everything, came), PTL_RETAIN);
    attach(PORTAL, 5, ~(ptl_match_bits_t)5, descriptor(in[6], 64, 1, PTL_MD_OP_PUT, came), PTL_RETAIN);
    PTL(PtlMEAttach(ni, PORTAL, ids[from], 0, UINT64_MAX, PTL_RETAIN, PTL_INS_AFTER, &entry));
    PTL(PtlMDAttach(entry, descriptor(in[7], 16, PTL_MD_THRESH_INF, PTL_MD_OP_PUT | PTL_MD_TRUNCATE, came), PTL_RETAIN,
                    &md_handle));
    const unsigned first = from == to ? 0 : 6;
    const ptl_sr_value_t before = status(PTL_SR_DROP_COUNT);
    meet();
    const ptl_handle_md_t initiator =
        bind(descriptor(out, 64, PTL_MD_THRESH_INF, PTL_MD_EVENT_START_DISABLE | PTL_MD_EVENT_END_DISABLE, sent), PTL_RETAIN);
    const ptl_handle_md_t with_ack = bind(descriptor(out, 64, PTL_MD_THRESH_INF, PTL_MD_EVENT_START_DISABLE, sent), PTL_RETAIN);
    PTL(PtlPut(initiator, PTL_NO_ACK_REQ, ids[to], PORTAL, 0, 5, 0, 1));
    ptl_event_t start = NEXT(came, PUT_START), stop = NEXT(came, PUT_END);
    CHECK(stop.md.start == in[first] && stop.hdr_data == 1 && start.link == stop.link);
    check_fill(in[first], 64, from);
    if (first == 6) {
        PTL(PtlPut(with_ack, PTL_ACK_REQ, ids[to], PORTAL, 0, 5, 0, 2));
        NEXT(sent, SEND_END);
        /* Truncated to 16 bytes; then to none, for the descriptor is full, and still accepted. */
        ptl_event_t acked = NEXT(sent, ACK);
        CHECK(acked.mlength == 16 && acked.rlength == 64);
        NEXT(came, PUT_START), stop = NEXT(came, PUT_END);
        CHECK(stop.md_handle == md_handle && stop.mlength == 16 && stop.rlength == 64 && stop.offset == 0);
        PTL(PtlPut(with_ack, PTL_ACK_REQ, ids[to], PORTAL, 0, 5, 0, 3));
        NEXT(sent, SEND_END);
        acked = NEXT(sent, ACK);
        CHECK(acked.mlength == 0 && acked.rlength == 64 && acked.offset == 16);
        NEXT(came, PUT_START), stop = NEXT(came, PUT_END);
        CHECK(stop.md_handle == md_handle && stop.mlength == 0 && stop.offset == 16);
        meet();
        PTL(PtlMEUnlink(entry));
        meet();
        /* Nobody takes it: dropped and counted there, no acknowledgement here. */
        PTL(PtlPut(with_ack, PTL_ACK_REQ, ids[to], PORTAL, 0, 5, 0, 4));
        NEXT(sent, SEND_END);
        until_status(PTL_SR_DROP_NO_MATCH, before + 1);
        CHECK(status(PTL_SR_DROP_COUNT) == before + 1);
    }
    NOTHING(came);
    NOTHING(sent);
    UNLINK_SILENT(initiator);
    PTL(PtlMDUnlink(with_ack));
    meet();
    /* An entry inserted before the head comes first. */
    PTL(PtlMEInsert(only_other, anybody, 5, 0, PTL_UNLINK, PTL_INS_BEFORE, &entry));
    PTL(PtlMDAttach(entry, descriptor(in[2], 64, 1, PTL_MD_OP_PUT, came), PTL_UNLINK, &md_handle));
    meet();
    const ptl_handle_md_t again = bind(descriptor(out, 64, 1, PTL_MD_EVENT_START_DISABLE, sent), PTL_UNLINK);
    PTL(PtlPut(again, PTL_NO_ACK_REQ, ids[to], PORTAL, 0, 5, 0, 5));
    NEXT(came, PUT_START), stop = NEXT(came, PUT_END);
    CHECK(stop.md_handle == md_handle);
    NEXT(came, UNLINK);
    CHECK(PtlMEUnlink(entry) == PTL_ME_INVALID);
    meet();
}

/* Section 6: an acknowledgement counts; with too small a threshold it is lost, and told so by a counter. */
static void thresholds(void) {
    static unsigned char in[64], out[64];
    ptl_handle_eq_t came = queue(32), sent = queue(64);
    const ptl_handle_md_t target = attach(
        PORTAL + 1, 0, 0, descriptor(in, 64, PTL_MD_THRESH_INF, PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE, came), PTL_RETAIN);
    const ptl_handle_md_t silent =
        attach(PORTAL + 1, 1, 0,
               descriptor(in, 64, PTL_MD_THRESH_INF, PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE | PTL_MD_ACK_DISABLE, came), PTL_RETAIN);
    const ptl_sr_value_t late = status(PTL_SR_DROP_LATE);
    meet();
    ptl_handle_md_t one = bind(descriptor(out, 8, 1, 0, sent), PTL_RETAIN);
    PTL(PtlPut(one, PTL_ACK_REQ, ids[to], PORTAL + 1, 0, 0, 0, 0));
    NEXT(sent, SEND_START);
    NEXT(sent, SEND_END);
    until_status(PTL_SR_DROP_LATE, late + 1);
    NOTHING(sent);
    INACTIVE(PtlPut(one, PTL_ACK_REQ, ids[to], PORTAL + 1, 0, 0, 0, 0));
    PTL(PtlMDUnlink(one));
    /* The target's descriptor acknowledges nothing. */
    one = bind(descriptor(out, 8, 2, 0, sent), PTL_RETAIN);
    PTL(PtlPut(one, PTL_ACK_REQ, ids[to], PORTAL + 1, 0, 1, 0, 0));
    NEXT(sent, SEND_START);
    NEXT(sent, SEND_END);
    for (int n = 0; n < 2; n++) {
        NEXT(came, PUT_START);
        NEXT(came, PUT_END);
    }
    meet();
    NOTHING(sent);
    ptl_md_t now;
    PTL(PtlMDUpdate(one, &now, NULL, PTL_EQ_NONE));
    CHECK(now.threshold == 1);
    PTL(PtlMDUnlink(one));
    /* Made with threshold 0, an auto-unlinking descriptor stays until it is unlinked. */
    one = bind(descriptor(out, 8, 0, 0, sent), PTL_UNLINK);
    PTL(PtlMDUnlink(one));
    NOTHING(sent);
    PTL(PtlMDUnlink(target));
    PTL(PtlMDUnlink(silent));
    PTL(PtlEQFree(sent));
    PTL(PtlEQFree(came));
    meet();
}

int main(void) {
    begin();
    to = (me + 1) % size, from = (me + size - 1) % size;
    const ptl_size_t lengths[] = {0, 1, 8, 9, 12, 48, 56, 100, 128, 176, 1000, 4096, 5000, 65536, LONG};
    for (unsigned n = 0; n < sizeof lengths / sizeof *lengths; n++) {
        puts_and_events(lengths[n], PTL_NO_ACK_REQ);
        puts_and_events(lengths[n], PTL_ACK_REQ);
        if (lengths[n] + 5 <= LONG)
            gets(lengths[n]);
    }
    put_regions();
    swaps();
    pieces();
    matching();
    thresholds();
    end();
    return 0;
}
