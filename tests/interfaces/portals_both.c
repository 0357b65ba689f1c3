// interface: portals3
// ranks: 1 2 5
// settings: FARPOST_PORTALS=generic | FARPOST_PORTALS=accelerated
// The inline interface beside the one by way of an agent, in one process: each with its number, tables, descriptors and queues; messages of each to
// each; and what others wait for on one is moved while this process waits on the other. Without agents there is one interface.
#include "portals.h"

enum { PORTAL = 9, LONG = 300000 };

static ptl_handle_ni_t nis[2];
static ptl_process_id_t names[2][MOST];
static unsigned to, from;

static ptl_handle_eq_t queue_of(int which, ptl_size_t count) {
    ni = nis[which];
    return queue(count);
}

/* From each interface to each: what is put lands in the table of the one that is named, and its event names the one that sent. */
static void each_to_each(ptl_size_t length) {
    static unsigned char out[2][LONG], in[2][2][LONG];
    ptl_handle_eq_t came[2], sent[2];
    ptl_handle_md_t md[2], there[2][2];
    memset(in, 0, sizeof in);
    for (int which = 0; which < 2; which++) {
        came[which] = queue_of(which, 64);
        sent[which] = queue_of(which, 64);
        for (int by = 0; by < 2; by++)
            there[which][by] = attach(PORTAL, (ptl_match_bits_t)by, 0, descriptor(in[which][by], length, PTL_MD_THRESH_INF,
                       PTL_MD_OP_PUT | PTL_MD_OP_GET | PTL_MD_MANAGE_REMOTE | PTL_MD_EVENT_START_DISABLE, came[which]), PTL_RETAIN);
        memset(out[which], (int)(1 + which + 2 * me), length);
        md[which] = bind(descriptor(out[which], length, PTL_MD_THRESH_INF, PTL_MD_EVENT_START_DISABLE, sent[which]), PTL_RETAIN);
    }
    meet();
    for (int by = 0; by < 2; by++)
        for (int which = 0; which < 2; which++)
            PTL(PtlPut(md[by], PTL_ACK_REQ, names[which][to], PORTAL, 0, (ptl_match_bits_t)by, 0, (ptl_hdr_data_t)(2 * which + by)));
    for (int by = 0; by < 2; by++) {
        ni = nis[by];
        for (int n = 0; n < 4; n++) {
            ptl_event_t event;
            int at;
            PTL(PtlEQPoll(&sent[by], 1, PATIENCE_MS, &event, &at));
            CHECK(event.ni_fail_type == PTL_NI_OK && (event.type == PTL_EVENT_SEND_END || event.type == PTL_EVENT_ACK));
        }
    }
    for (int which = 0; which < 2; which++) {
        ni = nis[which];
        for (int n = 0; n < 2; n++) {
            const ptl_event_t event = NEXT(came[which], PUT_END);
            const int by = (int)event.match_bits;
            CHECK(event.hdr_data == (ptl_hdr_data_t)(2 * which + by) && event.mlength == length);
            CHECK(event.initiator.nid == names[by][from].nid && event.initiator.pid == names[by][from].pid);
            for (ptl_size_t i = 0; i < length; i += 997) CHECK(in[which][by][i] == (unsigned char)(1 + by + 2 * from));
        }
        NOTHING(came[which]);
    }
    meet();
    for (int which = 0; which < 2; which++) {
        ni = nis[which];
        for (int by = 0; by < 2; by++) UNLINK_SILENT(there[which][by]);
        UNLINK_SILENT(md[which]);
        PTL(PtlEQFree(came[which]));
        PTL(PtlEQFree(sent[which]));
    }
}

/* The process before has what it wants of one interface of this process when it tells the other, on which this process waits. */
static void both_move(int waits_on, int call) {
    static unsigned char memory[LONG], got[LONG];
    const int asked = 1 - waits_on;
    uint64_t word = 0, one = 1;
    ptl_handle_eq_t told = queue_of(waits_on, 8), reply = queue_of(waits_on, 8), unseen = queue_of(asked, 8);
    ptl_event_t event;
    int at;
    memset(memory, (int)(me + 5), LONG);
    memset(got, 0, LONG);
    ni = nis[asked];
    const ptl_handle_md_t offered = attach(PORTAL + 1, 3, 0, descriptor(memory, LONG, PTL_MD_THRESH_INF, PTL_MD_OP_GET | PTL_MD_MANAGE_REMOTE, unseen), PTL_RETAIN);
    ni = nis[waits_on];
    const ptl_handle_md_t tell = attach(PORTAL + 2, 4, 0, descriptor(&word, 8, PTL_MD_THRESH_INF, PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE | PTL_MD_EVENT_START_DISABLE, told), PTL_RETAIN);
    const ptl_handle_md_t into = bind(descriptor(got, LONG, PTL_MD_THRESH_INF, PTL_MD_EVENT_START_DISABLE, reply), PTL_RETAIN);
    const ptl_handle_md_t says = bind(descriptor(&one, 8, PTL_MD_THRESH_INF, PTL_MD_EVENT_START_DISABLE | PTL_MD_EVENT_END_DISABLE, PTL_EQ_NONE), PTL_RETAIN);
    meet();
    PTL(PtlGet(into, names[asked][to], PORTAL + 1, 0, 3, 0));
    /* The reply of one's own get is waited for in the same way. */
    switch (call) {
    case 0: PTL(PtlEQWait(reply, &event)); break;
    case 1: PTL(PtlEQPoll(&reply, 1, PATIENCE_MS, &event, &at)); break;
    default: while (PtlEQGet(reply, &event) == PTL_EQ_EMPTY) {}
    }
    CHECK(event.type == PTL_EVENT_REPLY_END && event.mlength == LONG);
    for (int i = 0; i < LONG; i += 997) CHECK(got[i] == (unsigned char)(to + 5));
    PTL(PtlPut(says, PTL_NO_ACK_REQ, names[waits_on][to], PORTAL + 2, 0, 4, 0, 0));
    switch (call) {
    case 0: PTL(PtlEQWait(told, &event)); break;
    case 1: PTL(PtlEQPoll(&told, 1, PATIENCE_MS, &event, &at)); break;
    default: while (PtlEQGet(told, &event) == PTL_EQ_EMPTY) {}
    }
    CHECK(event.type == PTL_EVENT_PUT_END && word == 1);
    meet();
    UNLINK_SILENT(offered);
    UNLINK_SILENT(tell);
    UNLINK_SILENT(into);
    UNLINK_SILENT(says);
    PTL(PtlEQFree(told));
    PTL(PtlEQFree(reply));
    PTL(PtlEQFree(unseen));
    meet();
}

/* Objects belong to one of them. */
static void apart(void) {
    static uint64_t word;
    ptl_handle_eq_t eqs[2] = {queue_of(0, 8), queue_of(1, 8)};
    ptl_handle_ni_t of;
    ptl_handle_md_t md;
    ptl_handle_me_t only;
    ptl_event_t event;
    int at;
    for (int which = 0; which < 2; which++) {
        PTL(PtlNIHandle(eqs[which], &of));
        CHECK(of == nis[which]);
        REFUSED(PTL_MD_ILLEGAL, "PtlMDBind", PtlMDBind(nis[which], descriptor(&word, 8, 1, 0, eqs[1 - which]), PTL_RETAIN, &md));
    }
    REFUSED(PTL_EQ_INVALID, "PtlEQPoll", PtlEQPoll(eqs, 2, 10, &event, &at));
    /* An entry for the next one's second interface lets nothing of its first one in. */
    ni = nis[0];
    PTL(PtlMEAttach(nis[0], PORTAL + 3, names[1][from], 0, 0, PTL_RETAIN, PTL_INS_AFTER, &only));
    PTL(PtlMDAttach(only, descriptor(&word, 8, PTL_MD_THRESH_INF, PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE | PTL_MD_EVENT_START_DISABLE, eqs[0]), PTL_RETAIN, &md));
    meet();
    for (int by = 0; by < 2; by++) {
        ptl_handle_md_t mine;
        PTL(PtlMDBind(nis[by], descriptor(&word, 8, PTL_MD_THRESH_INF, PTL_MD_EVENT_START_DISABLE | PTL_MD_EVENT_END_DISABLE, PTL_EQ_NONE), PTL_RETAIN, &mine));
        PTL(PtlPut(mine, PTL_NO_ACK_REQ, names[0][to], PORTAL + 3, 0, 0, 0, (ptl_hdr_data_t)by));
        UNLINK_SILENT(mine);
    }
    event = NEXT(eqs[0], PUT_END);
    CHECK(event.hdr_data == 1 && event.initiator.pid == names[1][from].pid);
    meet();
    NOTHING(eqs[0]);
    PTL(PtlMEUnlink(only));
    for (int which = 0; which < 2; which++) PTL(PtlEQFree(eqs[which]));
    /* One is closed and opened again; the other keeps its own. */
    ptl_handle_eq_t kept = queue_of(0, 8), gone = queue_of(1, 8);
    PTL(PtlNIFini(nis[1]));
    REFUSED(PTL_EQ_INVALID, "PtlEQGet", PtlEQGet(gone, &event));
    GIVES(PTL_EQ_EMPTY, PtlEQGet(kept, &event));
    PTL(PtlNIInit(PTL_IFACE_INLINE, PTL_PID_ANY, NULL, NULL, &of));
    CHECK(of != nis[1]);
    nis[1] = of;
    REFUSED(PTL_EQ_INVALID, "PtlEQGet", PtlEQGet(gone, &event));
    ni = nis[0];
    PTL(PtlEQFree(kept));
    meet();
}

int main(void) {
    const char *where = getenv("FARPOST_PORTALS");
    begin();
    to = (me + 1) % size;
    from = (me + size - 1) % size;
    nis[0] = ni;
    PTL(PtlNIInit(PTL_IFACE_INLINE, PTL_PID_ANY, NULL, NULL, &nis[1]));
    if (where == NULL) {
        CHECK(nis[0] == nis[1]);
        end();
        return 0;
    }
    CHECK(nis[0] != nis[1]);
    ptl_handle_ni_t again;
    PTL(PtlNIInit(PTL_IFACE_INLINE, PTL_PID_ANY, NULL, NULL, &again));
    CHECK(again == nis[1]);
    PTL(PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &again));
    CHECK(again == nis[0]);
    const int generic = strcmp(where, "generic") == 0;
    REFUSED(PTL_IFACE_INVALID, "opened as", PtlNIInit(generic ? PTL_IFACE_ACCELERATED : PTL_IFACE_GENERIC, PTL_PID_ANY, NULL, NULL, &again));
    for (int which = 0; which < 2; which++)
        for (unsigned rank = 0; rank < size; rank++) PTL(PtlGetRankId(nis[which], rank, &names[which][rank]));
    for (unsigned a = 0; a < 2 * size; a++)
        for (unsigned b = 0; b < a; b++) {
            const ptl_process_id_t x = names[a % 2][a / 2], y = names[b % 2][b / 2];
            CHECK(x.nid != y.nid || x.pid != y.pid);
        }
    REFUSED(PTL_PID_INVALID, "pid=", PtlNIInit(PTL_IFACE_INLINE, names[0][me].pid, NULL, NULL, &again));
    each_to_each(8);
    each_to_each(3000);
    each_to_each(LONG);
    for (int call = 0; call < 3; call++)
        for (int waits_on = 0; waits_on < 2; waits_on++) both_move(waits_on, call);
    apart();
    each_to_each(8);
    meet();
    PTL(PtlNIFini(nis[1]));
    ni = nis[0];
    end();
    return 0;
}
