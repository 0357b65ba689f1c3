// interface: portals3
// ranks: 1 2 8
// args: own | 700 | 1
// settings: FARPOST_PORTALS=generic | FARPOST_PORTALS=accelerated
// Processes that choose their numbers on their nodes: each another one, all the same one, all the first one's. What is taken is refused, everybody
// knows who has what, and events tell it.
#include "portals.h"
#include <stdlib.h>

enum { PORTAL = 7, MOST_PID = 65535 };

int main(int argc, char **argv) {
    const unsigned asked = argc > 1 && strcmp(argv[1], "own") != 0 ? (unsigned)atoi(argv[1]) : 2048 + (unsigned)getpid() % 60000;
    int interfaces = 0;
    PTL(PtlInit(&interfaces));
    const int rc = PtlNIInit(PTL_IFACE_DEFAULT, asked, NULL, NULL, &ni);
    if (rc != PTL_OK) {
        REFUSED(PTL_PID_INUSE, "pid=", PtlNIInit(PTL_IFACE_DEFAULT, asked, NULL, NULL, &ni));
        PTL(PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &ni));
    }
    PTL(PtlGetRank(ni, &me, &size));
    CHECK(me < size && size <= MOST);
    // Given numbers do as well, before everybody has come.
    for (unsigned rank = 0; rank < size; rank++) PTL(PtlGetRankId(ni, rank, &ids[rank]));
    ptl_handle_eq_t came = queue(256);
    uint64_t word[MOST] = {0};
    attach(PORTAL, 0, 0, descriptor(word, sizeof word, PTL_MD_THRESH_INF, PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE | PTL_MD_EVENT_START_DISABLE, came), PTL_RETAIN);
    ptl_process_id_t own;
    PTL(PtlGetId(ni, &own));
    CHECK((rc == PTL_OK) == (own.pid == asked));
    meet();
    ptl_process_id_t now[MOST];
    for (unsigned rank = 0; rank < size; rank++) PTL(PtlGetRankId(ni, rank, &now[rank]));
    CHECK(now[me].nid == own.nid && now[me].pid == own.pid);
    for (unsigned a = 0; a < size; a++) {
        unsigned lowest = a;
        for (unsigned b = 0; b < size; b++) {
            if (now[a].nid != now[b].nid) continue;
            CHECK(a == b || now[a].pid != now[b].pid);
            if (b < lowest) lowest = b;
        }
        if (argc > 1 && strcmp(argv[1], "own") == 0) CHECK(now[a].pid >= 2048);
        if (argc > 1 && strcmp(argv[1], "700") == 0) CHECK((now[a].pid == 700) == (a == lowest));
    }
    // To each by the number that it has now, and by that which it was given, which may be the same.
    uint64_t mine = own.pid;
    ptl_handle_eq_t sent = queue(16);
    const ptl_handle_md_t md = bind(descriptor(&mine, 8, PTL_MD_THRESH_INF, PTL_MD_EVENT_START_DISABLE, sent), PTL_RETAIN);
    for (unsigned rank = 0; rank < size; rank++)
        for (int way = 0; way < 2; way++) {
            PTL(PtlPut(md, PTL_NO_ACK_REQ, way ? ids[rank] : now[rank], PORTAL, 0, 0, 8 * me, me));
            NEXT(sent, SEND_END);
        }
    for (unsigned n = 0; n < 2 * size; n++) {
        const ptl_event_t event = NEXT(came, PUT_END);
        const unsigned from = (unsigned)event.hdr_data;
        CHECK(from < size && event.initiator.nid == now[from].nid && event.initiator.pid == now[from].pid);
        CHECK(word[from] == now[from].pid);
    }
    meet();
    // Only who is meant by its number gets in.
    ptl_handle_me_t only;
    ptl_process_id_t nobody = {own.nid, MOST_PID};
    REFUSED(PTL_PROCESS_INVALID, "", PtlMEAttach(ni, PORTAL + 1, nobody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, &only));
    PTL(PtlMEAttach(ni, PORTAL + 1, now[(me + 1) % size], 0, 0, PTL_RETAIN, PTL_INS_AFTER, &only));
    ptl_handle_md_t for_one;
    PTL(PtlMDAttach(only, descriptor(word, 8, PTL_MD_THRESH_INF, PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE | PTL_MD_EVENT_START_DISABLE, came), PTL_RETAIN, &for_one));
    meet();
    const unsigned to = (me + size - 1) % size;
    PTL(PtlPut(md, PTL_NO_ACK_REQ, now[to], PORTAL + 1, 0, 0, 0, me));
    NEXT(sent, SEND_END);
    const ptl_event_t event = NEXT(came, PUT_END);
    CHECK(event.hdr_data == (me + 1) % size && event.initiator.pid == now[(me + 1) % size].pid);
    // What cannot be had.
    ptl_handle_ni_t again;
    PTL(PtlNIInit(PTL_IFACE_DEFAULT, own.pid, NULL, NULL, &again));
    CHECK(again == ni);
    REFUSED(PTL_PID_INVALID, "pid=", PtlNIInit(PTL_IFACE_DEFAULT, own.pid + 1, NULL, NULL, &again));
    meet();
    PTL(PtlNIFini(ni));
    PTL(PtlNIInit(PTL_IFACE_DEFAULT, own.pid, NULL, NULL, &ni));
    ptl_process_id_t still;
    PTL(PtlGetId(ni, &still));
    CHECK(still.nid == own.nid && still.pid == own.pid);
    end();
    return 0;
}
