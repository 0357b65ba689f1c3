// interface: portals3
// ranks: 2 3 8
// Pools of one: of structures for peers, of messages on their way and of packets. Everybody takes turns, backs off and comes again;
// nothing is lost, nothing is done twice, and it does not take for ever either.
#include "portals.h"
#include <stdlib.h>

enum { PORTAL = 2, TURNS = 12, LONG = 20000 };

int main(void) {
    static const char *const pools[] = {"SOURCES", "TX_PENDINGS", "RX_PENDINGS", "WINDOW", "STAGING"};
    for (int n = 0; n < 5; n++) {
        char name[64];
        snprintf(name, sizeof name, "FARPOST_PORTALS_%s", pools[n]);
        CHECK(setenv(name, "1", 1) == 0);
    }
    begin();
    static uint64_t cell, mine, other;
    static unsigned char in[LONG], out[LONG], back[LONG];
    ptl_handle_eq_t came = queue(4096), done = queue(64);
    const unsigned all = PTL_MD_OP_PUT | PTL_MD_OP_GET | PTL_MD_MANAGE_REMOTE | PTL_MD_EVENT_START_DISABLE;
    const unsigned masks = PTL_MD_EVENT_START_DISABLE | PTL_MD_EVENT_END_DISABLE;
    attach(PORTAL, 1, 0, descriptor(&cell, 8, PTL_MD_THRESH_INF, all, PTL_EQ_NONE), PTL_RETAIN);
    attach(PORTAL, 2, 0, descriptor(in, LONG, PTL_MD_THRESH_INF, all, came), PTL_RETAIN);
    cell = me == 0 ? 77 : 0;
    memset(out, (int)me + 1, LONG);
    memset(in, 9, LONG);
    meet();
    const ptl_handle_md_t give = bind(descriptor(&mine, 8, PTL_MD_THRESH_INF, masks, PTL_EQ_NONE), PTL_RETAIN);
    const ptl_handle_md_t take = bind(descriptor(&other, 8, PTL_MD_THRESH_INF, PTL_MD_EVENT_START_DISABLE, done), PTL_RETAIN);
    const ptl_handle_md_t from = bind(descriptor(out, LONG, PTL_MD_THRESH_INF, PTL_MD_EVENT_START_DISABLE, done), PTL_RETAIN);
    const ptl_handle_md_t into = bind(descriptor(back, LONG, PTL_MD_THRESH_INF, PTL_MD_EVENT_START_DISABLE, done), PTL_RETAIN);
    const unsigned to = (me + 1) % size, before = (me + size - 1) % size;
    uint64_t token = 1000 + me;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        /* With one: all at once. */
        mine = token;
        PTL(PtlGetPut(take, give, ids[0], PORTAL, 0, 1, 0, turn));
        NEXT(done, REPLY_END);
        token = other;
        /* With a neighbour. */
        const ptl_size_t bytes = turn % 3 == 0 ? LONG : 8;
        PTL(PtlPutRegion(from, 0, bytes, PTL_ACK_REQ, ids[to], PORTAL, 0, 2, 0, turn));
        NEXT(done, SEND_END);
        CHECK(NEXT(done, ACK).mlength == bytes);
        PTL(PtlGetRegion(into, 0, bytes, ids[to], PORTAL, 0, 2, 0));
        NEXT(done, REPLY_END);
        for (ptl_size_t at = 0; at < bytes; at++)
            CHECK(back[at] == me + 1);
    }
    for (unsigned n = 0; n < 2 * TURNS; n++) {
        ptl_event_t event;
        int which;
        PTL(PtlEQPoll(&came, 1, PATIENCE_MS, &event, &which));
        CHECK(event.type == PTL_EVENT_PUT_END || event.type == PTL_EVENT_GET_END);
    }
    NOTHING(came);
    CHECK(in[0] == before + 1 && in[LONG - 1] == before + 1 && status(PTL_SR_DROP_COUNT) == 0);
    /* Tokens of all and what is in the cell: each once. */
    meet();
    static uint64_t sums[MOST];
    const ptl_handle_md_t table = attach(PORTAL, 3, 0, descriptor(sums, sizeof sums, PTL_MD_THRESH_INF, all, came), PTL_RETAIN);
    meet();
    mine = token;
    PTL(PtlPut(give, PTL_NO_ACK_REQ, ids[0], PORTAL, 0, 3, 8 * me, 0));
    if (me == 0) {
        uint64_t sum = cell, expected = 77;
        for (unsigned n = 0; n < size; n++)
            CHECK(NEXT(came, PUT_END).md_handle == table);
        for (unsigned n = 0; n < size; n++)
            sum += sums[n], expected += 1000 + n;
        CHECK(sum == expected);
    }
    end();
    return 0;
}
