// interface: portals3
// ranks: 1 2 8
// settings: FARPOST_PORTALS=generic | FARPOST_PORTALS=accelerated
// The situations of the Portals 4 reference implementation's basic tests that no other program here is about (portals.md lists all).
#include "portals.h"

enum { PORTAL = 6, BLOCK = 4096, PUTS = 20 };

static unsigned to, from;
static const unsigned quiet = PTL_MD_EVENT_START_DISABLE;

/* An event of a queue, whichever it is. */
static ptl_event_t any_at(int line, ptl_handle_eq_t eq) {
    ptl_event_t event;
    int which;
    if (PtlEQPoll(&eq, 1, PATIENCE_MS, &event, &which) != PTL_OK || event.ni_fail_type != PTL_NI_OK) {
        fprintf(stderr, "FAIL %s:%d: process %u: no event, or that of a failure\n", __FILE__, line, me);
        exit(1);
    }
    return event;
}
#define ANY(eq) any_at(__LINE__, eq)

/* Everybody writes to one, again and again: to a place of its own, and all to the same one. */
static void all_to_one(ptl_size_t bytes, int overlap) {
    static unsigned char in[MOST * BLOCK], out[BLOCK];
    ptl_handle_eq_t came = queue(2 * MOST * PUTS), sent = queue(4);
    const ptl_size_t all = size * bytes;
    memset(in, 42, sizeof in);
    memset(out, 61 + (int)me, sizeof out);
    const ptl_handle_md_t target = attach(PORTAL, 1, 0, descriptor(in, all, PTL_MD_THRESH_INF, PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE | quiet, came), PTL_RETAIN);
    const ptl_handle_md_t md = bind(descriptor(out, bytes, PTL_MD_THRESH_INF, quiet, sent), PTL_RETAIN);
    meet();
    for (int n = 0; n < PUTS; n++) {
        PTL(PtlPut(md, PTL_ACK_REQ, ids[0], PORTAL, 0, 1, overlap ? 0 : me * bytes, 0));
        NEXT(sent, SEND_END);
        CHECK(NEXT(sent, ACK).mlength == bytes);
    }
    meet();
    if (me == 0) {
        for (unsigned n = 0; n < size * PUTS; n++)
            NEXT(came, PUT_END);
        for (ptl_size_t at = 0; at < all; at++)
            if (!overlap)
                CHECK(in[at] == 61 + at / bytes);
            else
                CHECK(at < bytes ? in[at] >= 61 && in[at] < 61 + size : in[at] == 42);
        CHECK(all == sizeof in || in[all] == 42);
    }
    NOTHING(came);
    NOTHING(sent);
    PTL(PtlMDUnlink(md));
    PTL(PtlMDUnlink(target));
    PTL(PtlEQFree(came));
    PTL(PtlEQFree(sent));
}

/* Everybody reads one process's memory from a place of its own; each request with bits of its own. */
static void all_from_one(void) {
    static unsigned char of[256], in[256];
    ptl_handle_eq_t served = queue(4 * MOST), done = queue(4);
    for (unsigned n = 0; n < sizeof of; n++)
        of[n] = (unsigned char)(n ^ 0x5a);
    const ptl_handle_md_t source = attach(PORTAL, 0, 0xff, descriptor(of, sizeof of, PTL_MD_THRESH_INF, PTL_MD_OP_GET | PTL_MD_MANAGE_REMOTE, served), PTL_RETAIN);
    const ptl_handle_md_t md = bind(descriptor(in, sizeof in, PTL_MD_THRESH_INF, 0, done), PTL_RETAIN);
    meet();
    PTL(PtlGetRegion(md, me, 64 - me, ids[0], PORTAL, 0, me, 3 * me));
    ptl_event_t start = NEXT(done, REPLY_START), stop = NEXT(done, REPLY_END);
    CHECK(start.link == stop.link && stop.offset == me && stop.mlength == 64 - me && stop.md.user_ptr == in);
    for (unsigned n = 0; n < 64 - me; n++)
        CHECK(in[me + n] == ((3 * me + n) ^ 0x5a));
    meet();
    for (unsigned n = 0; me == 0 && n < 2 * size; n++) {
        const ptl_event_t event = ANY(served);
        CHECK(event.type == PTL_EVENT_GET_START || event.type == PTL_EVENT_GET_END);
        CHECK(event.match_bits < size && event.offset == 3 * event.match_bits && event.mlength == 64 - event.match_bits);
        CHECK(event.initiator.pid == ids[event.match_bits].pid && event.initiator.nid == ids[event.match_bits].nid);
        CHECK(event.hdr_data == 0 && event.md_handle == source && event.md.user_ptr == of && event.pt_index == PORTAL);
    }
    NOTHING(served);
    PTL(PtlMDUnlink(md));
    PTL(PtlMDUnlink(source));
    PTL(PtlEQFree(served));
    PTL(PtlEQFree(done));
}

/* Everybody gathers everybody's word, at doubling distances, with one descriptor that is matched and sends; what has been used is
   unlinked without waiting for anybody. */
static void gathering(void) {
    static uint64_t words[MOST];
    ptl_handle_eq_t eq = queue(256);
    ptl_md_t md = descriptor(words, 8 * size, PTL_MD_THRESH_INF, PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE | quiet, eq);
    const ptl_handle_md_t both = attach(PORTAL, 2, 0, md, PTL_UNLINK);
    meet();
    unsigned known = 1, sends = 0, seen = 0, rounds = 0;
    words[0] = 7000 + me;
    for (unsigned distance = 1; distance < size; distance *= 2, rounds++) {
        const unsigned count = distance < size - distance ? distance : size - distance;
        PTL(PtlPutRegion(both, 0, 8 * count, PTL_NO_ACK_REQ, ids[(me + size - distance) % size], PORTAL, 0, 2, 8 * known, rounds));
        sends++;
        while (!(seen >> rounds & 1)) {
            const ptl_event_t event = ANY(eq);
            if (event.type == PTL_EVENT_SEND_END) {
                sends--;
                continue;
            }
            /* Of a later round, perhaps. */
            CHECK(event.type == PTL_EVENT_PUT_END && event.rlength == event.mlength && event.md_handle == both);
            seen |= 1u << event.hdr_data;
        }
        known += count;
    }
    while (sends > 0) {
        CHECK(NEXT(eq, SEND_END).md_handle == both);
        sends--;
    }
    PTL(PtlMDUnlink(both));
    CHECK(known == size);
    for (unsigned n = 0; n < size; n++)
        CHECK(words[n] == 7000 + (me + n) % size);
    NOTHING(eq);
    PTL(PtlEQFree(eq));
    meet();
}

/* Entries that take one message each, twice as many as messages; while those come, as many entries are unlinked. Each entry is
   either unlinked or used, never both, and every message finds one. */
static void unlinking_in_time(void) {
    enum { MESSAGES = 10 };
    static unsigned char in[2 * MESSAGES], out[1];
    ptl_handle_eq_t came = queue(64), sent = queue(64);
    const ptl_handle_md_t md = bind(descriptor(out, 1, PTL_MD_THRESH_INF, quiet, sent), PTL_RETAIN);
    for (int turn = 0; turn < 30; turn++) {
        ptl_handle_me_t entry[2 * MESSAGES];
        ptl_handle_md_t taking[2 * MESSAGES];
        for (int n = 0; n < 2 * MESSAGES; n++) {
            PTL(PtlMEAttach(ni, PORTAL, ids[from], 3, 0, PTL_UNLINK, PTL_INS_AFTER, &entry[n]));
            PTL(PtlMDAttach(entry[n], descriptor(&in[n], 1, 1, PTL_MD_OP_PUT | quiet, came), PTL_UNLINK, &taking[n]));
        }
        meet();
        for (int n = 0; n < MESSAGES; n++)
            PTL(PtlPut(md, PTL_ACK_REQ, ids[to], PORTAL, 0, 3, 0, (ptl_hdr_data_t)n));
        int unlinked = 0;
        unsigned gone[2 * MESSAGES] = {0};
        for (int n = 0; n < 2 * MESSAGES && unlinked < MESSAGES; n++) {
            int rc;
            do
                rc = PtlMEUnlink(entry[n]);
            while (rc == PTL_ME_IN_USE);
            CHECK(rc == PTL_OK || rc == PTL_ME_INVALID);
            unlinked += gone[n] = rc == PTL_OK;
        }
        CHECK(unlinked == MESSAGES);
        for (int n = 0; n < 2 * MESSAGES; n++) {
            const ptl_event_t event = ANY(sent);
            CHECK(event.type == PTL_EVENT_SEND_END || event.type == PTL_EVENT_ACK);
        }
        for (int n = 0; n < 2 * MESSAGES; n++) {
            const ptl_event_t event = ANY(came);
            CHECK(event.type == PTL_EVENT_PUT_END || event.type == PTL_EVENT_UNLINK);
            for (int of = 0; of < 2 * MESSAGES; of++)
                if (event.md_handle == taking[of])
                    CHECK(!gone[of]);
        }
        NOTHING(came);
        NOTHING(sent);
    }
    CHECK(status(PTL_SR_DROP_COUNT) == 0);
    meet();
    PTL(PtlMDUnlink(md));
    PTL(PtlEQFree(came));
    PTL(PtlEQFree(sent));
}

/* More events than the queue holds, from everybody at once: all messages are accepted, and who reads is told. */
static void short_of_events(void) {
    ptl_handle_eq_t came = queue(4), sent = queue(4);
    const ptl_handle_md_t target = attach(PORTAL, 4, 0, descriptor(NULL, 0, PTL_MD_THRESH_INF, PTL_MD_OP_PUT, came), PTL_RETAIN);
    /* No memory at all: the put is a word. */
    const ptl_handle_md_t md = bind(descriptor(NULL, 0, PTL_MD_THRESH_INF, quiet, sent), PTL_RETAIN);
    ptl_event_t event;
    meet();
    for (int n = 0; n < PUTS; n++) {
        PTL(PtlPut(md, PTL_ACK_REQ, ids[0], PORTAL, 0, 4, 0, (ptl_hdr_data_t)n));
        NEXT(sent, SEND_END);
        CHECK(NEXT(sent, ACK).mlength == 0);
    }
    meet();
    if (me == 0) {
        GIVES(PTL_EQ_DROPPED, PtlEQGet(came, &event));
        CHECK(event.sequence == 2 * PUTS * size - 4);
        for (int n = 0; n < 3; n++)
            PTL(PtlEQGet(came, &event));
        CHECK(event.sequence == 2 * PUTS * size - 1 && event.type == PTL_EVENT_PUT_END);
    }
    NOTHING(came);
    CHECK(status(PTL_SR_DROP_COUNT) == 0);
    meet();
    PTL(PtlMDUnlink(md));
    PTL(PtlMDUnlink(target));
    PTL(PtlEQFree(came));
    PTL(PtlEQFree(sent));
}

/* Fewer buffers than messages: those that find none are dropped and counted, nobody is told, and the next ones are taken as soon
   as there are buffers again. */
static void short_of_buffers(void) {
    enum { BUFFERS = 5 };
    static unsigned char in[BUFFERS], out[1];
    ptl_handle_eq_t came = queue(64), sent = queue(64);
    const ptl_handle_md_t md = bind(descriptor(out, 1, PTL_MD_THRESH_INF, quiet, sent), PTL_RETAIN);
    const ptl_sr_value_t before = status(PTL_SR_DROP_NO_MATCH);
    for (int round = 1; round <= 2; round++) {
        for (int n = 0; n < BUFFERS; n++)
            attach(PORTAL, 5, 0, descriptor(&in[n], 1, 1, PTL_MD_OP_PUT | quiet, came), PTL_UNLINK);
        meet();
        for (int n = 0; n < 2 * BUFFERS; n++)
            PTL(PtlPut(md, PTL_ACK_REQ, ids[to], PORTAL, 0, 5, 0, (ptl_hdr_data_t)n));
        until_status(PTL_SR_DROP_NO_MATCH, before + (ptl_sr_value_t)(round * BUFFERS));
        unsigned ends = 0, gone = 0, sends = 0, acks = 0;
        while (ends + gone < 2 * BUFFERS) {
            const ptl_event_t event = ANY(came);
            /* The first ones that were sent. */
            CHECK(event.hdr_data < BUFFERS);
            ends += event.type == PTL_EVENT_PUT_END, gone += event.type == PTL_EVENT_UNLINK;
        }
        CHECK(ends == BUFFERS && gone == BUFFERS);
        while (sends + acks < 3 * BUFFERS) {
            const ptl_event_t event = ANY(sent);
            sends += event.type == PTL_EVENT_SEND_END, acks += event.type == PTL_EVENT_ACK;
        }
        CHECK(sends == 2 * BUFFERS && acks == BUFFERS);
        meet();
        NOTHING(came);
        NOTHING(sent);
    }
    PTL(PtlMDUnlink(md));
    PTL(PtlEQFree(came));
    PTL(PtlEQFree(sent));
}

/* Twice as much is put or asked for as there is. */
static void truncated(void) {
    static unsigned char there[512], here[1024], constant_copy[4096];
    static const unsigned char constant[4096] = {1, 2, 3, 4, 5};
    ptl_handle_eq_t came = queue(8), sent = queue(8);
    memset(there, 61, sizeof there);
    memset(here, 42, sizeof here);
    ptl_md_t both = descriptor(there, 512, PTL_MD_THRESH_INF, PTL_MD_OP_PUT | PTL_MD_OP_GET | PTL_MD_MANAGE_REMOTE | PTL_MD_TRUNCATE | quiet, came);
    const ptl_handle_md_t target = attach(PORTAL, 6, 0, both, PTL_RETAIN);
    const ptl_handle_md_t md = bind(descriptor(here, 1024, PTL_MD_THRESH_INF, quiet, sent), PTL_RETAIN);
    meet();
    PTL(PtlGet(md, ids[to], PORTAL, 0, 6, 0));
    ptl_event_t event = NEXT(sent, REPLY_END);
    CHECK(event.mlength == 512);
    for (int n = 0; n < 1024; n++)
        CHECK(here[n] == (n < 512 ? 61 : 42));
    event = NEXT(came, GET_END);
    CHECK(event.rlength == 1024 && event.mlength == 512);
    meet();
    PTL(PtlPut(md, PTL_ACK_REQ, ids[to], PORTAL, 0, 6, 12, 0));
    NEXT(sent, SEND_END);
    event = NEXT(sent, ACK);
    CHECK(event.rlength == 1024 && event.mlength == 500 && event.offset == 12);
    event = NEXT(came, PUT_END);
    CHECK(event.rlength == 1024 && event.mlength == 500 && event.offset == 12);
    CHECK(there[11] == 61 && there[12] == 61 && there[12 + 511 - 12] == 61 && there[511] == 61);
    /* From memory that can only be read. */
    const ptl_handle_md_t copy = attach(PORTAL, 7, 0, descriptor(constant_copy, 4096, 1, PTL_MD_OP_PUT | quiet, came), PTL_UNLINK);
    meet();
    const ptl_handle_md_t fixed = bind(descriptor((void *)(uintptr_t)constant, 4096, 1, quiet, sent), PTL_UNLINK);
    PTL(PtlPut(fixed, PTL_NO_ACK_REQ, ids[to], PORTAL, 0, 7, 0, 0));
    NEXT(sent, SEND_END);
    NEXT(sent, UNLINK);
    CHECK(NEXT(came, PUT_END).md_handle == copy);
    NEXT(came, UNLINK);
    CHECK(memcmp(constant, constant_copy, 4096) == 0);
    meet();
    PTL(PtlMDUnlink(md));
    PTL(PtlMDUnlink(target));
    PTL(PtlEQFree(came));
    PTL(PtlEQFree(sent));
}

/* A put to oneself of nothing, acknowledged. */
static void nothing_to_oneself(void) {
    ptl_handle_eq_t eq = queue(8);
    const ptl_handle_md_t target = attach(PORTAL, 8, 0, descriptor(NULL, 0, 1, PTL_MD_OP_PUT, PTL_EQ_NONE), PTL_RETAIN);
    const ptl_handle_md_t md = bind(descriptor(NULL, 0, 2, PTL_MD_EVENT_START_DISABLE, eq), PTL_UNLINK);
    PTL(PtlPut(md, PTL_ACK_REQ, ids[me], PORTAL, 0, 8, 0, 0));
    NEXT(eq, SEND_END);
    CHECK(NEXT(eq, ACK).mlength == 0);
    NEXT(eq, UNLINK);
    PTL(PtlMDUnlink(target));
    PTL(PtlEQFree(eq));
}

/* Section 5: what one process begins for another starts there in this order, whatever it is and however long. */
static void order(void) {
    enum { MIXED = 60 };
    static unsigned char in[100000], out[100000], back[MIXED][64];
    ptl_handle_eq_t came = queue(4 * MIXED), sent = queue(4 * MIXED);
    const unsigned all = PTL_MD_OP_PUT | PTL_MD_OP_GET | PTL_MD_MANAGE_REMOTE;
    const ptl_handle_md_t target = attach(PORTAL, 0, UINT64_MAX, descriptor(in, sizeof in, PTL_MD_THRESH_INF, all, came), PTL_RETAIN);
    const ptl_handle_md_t md = bind(descriptor(out, sizeof out, PTL_MD_THRESH_INF, quiet, sent), PTL_RETAIN);
    const ptl_handle_md_t into = bind(descriptor(back, sizeof back, PTL_MD_THRESH_INF, quiet, sent), PTL_RETAIN);
    meet();
    for (ptl_match_bits_t n = 0; n < MIXED; n++)
        if (n % 3 == 2)
            PTL(PtlGetRegion(into, 64 * n, 64, ids[to], PORTAL, 0, n, 0));
        else
            PTL(PtlPutRegion(md, 0, n % 7 == 0 ? sizeof out : n % 5 == 0 ? 3000 : 8, PTL_NO_ACK_REQ, ids[to], PORTAL, 0, n, 0, n));
    ptl_match_bits_t starts = 0;
    for (int n = 0; n < 2 * MIXED; n++) {
        const ptl_event_t event = ANY(came);
        if (event.type == PTL_EVENT_PUT_START || event.type == PTL_EVENT_GET_START)
            CHECK(event.match_bits == starts++);
        else
            CHECK(event.match_bits < starts);
    }
    for (int n = 0; n < MIXED; n++)
        ANY(sent);
    meet();
    NOTHING(came);
    NOTHING(sent);
    PTL(PtlMDUnlink(md));
    PTL(PtlMDUnlink(into));
    PTL(PtlMDUnlink(target));
    PTL(PtlEQFree(came));
    PTL(PtlEQFree(sent));
}

/* Begun and ended several times over, interfaces and the library. */
static void begun_twice(void) {
    int interfaces;
    ptl_handle_ni_t again;
    PTL(PtlInit(&interfaces));
    PTL(PtlInit(&interfaces));
    PTL(PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &again));
    CHECK(again == ni);
    meet();
    for (int n = 0; n < 3; n++) {
        PTL(PtlNIFini(ni));
        PTL(PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &ni));
        CHECK(ni != again);
        REFUSED(PTL_NI_INVALID, "", PtlNIFini(again));
    }
    meet();
}

int main(void) {
    begin();
    to = (me + 1) % size, from = (me + size - 1) % size;
    begun_twice();
    const ptl_size_t lengths[] = {8, 256, BLOCK};
    for (int n = 0; n < 3; n++) {
        all_to_one(lengths[n], 0);
        all_to_one(lengths[n], 1);
    }
    all_from_one();
    gathering();
    unlinking_in_time();
    short_of_events();
    short_of_buffers();
    truncated();
    nothing_to_oneself();
    order();
    end();
    PtlFini();
    return 0;
}
