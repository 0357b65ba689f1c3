// interface: portals3
// ranks: 2 3
// settings: FARPOST_PORTALS=generic | FARPOST_PORTALS=accelerated
// A put to a process that computes lands and its event is there, without any call by the target; a get from it is answered, and
// handlers see each event.
#include "portals.h"
#include <time.h>

enum { PORTAL = 1, LONG = 200000, ROUNDS = 5 };

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static volatile unsigned handled, out_of_order;

static void handler(ptl_event_t *event) {
    out_of_order += event->sequence != handled;
    handled++;
}

int main(void) {
    static volatile unsigned char flag;
    static unsigned char in[LONG], out[LONG], done;
    begin();
    ptl_handle_eq_t came = queue(1024), sent = queue(64);
    const unsigned both = PTL_MD_OP_PUT | PTL_MD_OP_GET | PTL_MD_MANAGE_REMOTE;
    attach(PORTAL, 0, 0, descriptor(in, LONG, PTL_MD_THRESH_INF, both, came), PTL_RETAIN);
    uint64_t word = 0;
    ptl_handle_eq_t watched;
    PTL(PtlEQAlloc(ni, 1, handler, &watched));
    attach(PORTAL, 2, 0, descriptor(&word, 8, PTL_MD_THRESH_INF, both, watched), PTL_RETAIN);
    attach(PORTAL, 1, 0, descriptor((void *)(uintptr_t)&flag, 1, PTL_MD_THRESH_INF, both, PTL_EQ_NONE), PTL_RETAIN);
    ptl_handle_md_t md = bind(descriptor(out, LONG, PTL_MD_THRESH_INF, PTL_MD_EVENT_START_DISABLE, sent), PTL_RETAIN);
    ptl_handle_md_t end_md = bind(descriptor(&done, 1, PTL_MD_THRESH_INF, PTL_MD_EVENT_START_DISABLE, sent), PTL_RETAIN);
    meet();
    if (me == 0) {
        /* No call until everybody says that all was acknowledged. The program looks at memory only. */
        const double began = now();
        while (flag != size - 1 || handled != (size - 1) * ROUNDS * 2)
            if (now() - began > 60) {
                fprintf(stderr, "FAIL: nothing arrived while the process computed: flag %d, %u events\n", flag, handled);
                exit(1);
            }
        CHECK(out_of_order == 0);
        /* Every event is there already. */
        unsigned starts = 0, ends = 0, gets = 0;
        ptl_event_t event;
        while (PtlEQGet(came, &event) == PTL_OK) {
            starts += event.type == PTL_EVENT_PUT_START;
            ends += event.type == PTL_EVENT_PUT_END;
            gets += event.type == PTL_EVENT_GET_END;
        }
        CHECK(starts == (size - 1) * ROUNDS * 2 && ends == starts && gets == (size - 1) * ROUNDS);
    } else {
        /* One after the other. */
        if (me > 1) {
            const double began = now();
            while (flag != me - 1)
                CHECK(now() - began < 60);
        }
        for (int round = 0; round < ROUNDS; round++) {
            memset(out, round + 1, LONG);
            PTL(PtlPutRegion(md, 0, 8, PTL_ACK_REQ, ids[0], PORTAL, 0, 0, 0, 0));
            NEXT(sent, SEND_END);
            NEXT(sent, ACK);
            PTL(PtlPutRegion(md, 0, 8, PTL_ACK_REQ, ids[0], PORTAL, 0, 2, 0, 0));
            NEXT(sent, SEND_END);
            NEXT(sent, ACK);
            PTL(PtlPut(md, PTL_ACK_REQ, ids[0], PORTAL, 0, 0, 0, 0));
            NEXT(sent, SEND_END);
            NEXT(sent, ACK);
            memset(out, 0, LONG);
            PTL(PtlGet(md, ids[0], PORTAL, 0, 0, 0));
            NEXT(sent, REPLY_END);
            for (int i = 0; i < LONG; i++)
                CHECK(out[i] == round + 1);
        }
        done = (unsigned char)me;
        for (unsigned rank = 0; rank < size; rank++)
            if (rank == 0 ? me == size - 1 : rank == me + 1) {
                PTL(PtlPut(end_md, PTL_NO_ACK_REQ, ids[rank], PORTAL, 0, 1, 0, 0));
                NEXT(sent, SEND_END);
            }
    }
    end();
    return 0;
}
