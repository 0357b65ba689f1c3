// interface: portals3
// ranks: 1 2
// settings: FARPOST_PORTALS=generic | FARPOST_PORTALS=accelerated
// Codes that portals_codes.c does not bring about; and handles that are stale, forged, or of something else, in every call
// that takes one.
#include "portals.h"

enum { PORTAL = 3, BYTES = 128, FORGED = 200 };

static char memory[BYTES];
static const ptl_process_id_t stranger = {0, 4711};

/* One object of each kind, and what could be taken for one of them. */
static ptl_handle_me_t entry;
static ptl_handle_md_t attached, bound;
static ptl_handle_eq_t eq;
static struct {
    ptl_handle_any_t handle;
    char of; /* 'n' 'e' 'd' 'q': what it really is; 0: nothing */
} given[FORGED];
static unsigned handles;

static void add(ptl_handle_any_t handle, char of) {
    for (unsigned n = 0; n < handles; n++)
        if (given[n].handle == handle)
            return;
    CHECK(handles < FORGED);
    given[handles].handle = handle;
    given[handles++].of = of;
}

static ptl_md_t plain(ptl_handle_eq_t queue_of_it) { return descriptor(memory, BYTES, PTL_MD_THRESH_INF, PTL_MD_OP_PUT, queue_of_it); }

static void make(void) {
    eq = queue(8);
    PTL(PtlMEAttach(ni, PORTAL, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, &entry));
    PTL(PtlMDAttach(entry, plain(eq), PTL_RETAIN, &attached));
    PTL(PtlMDBind(ni, plain(eq), PTL_RETAIN, &bound));
}

static void collect(ptl_handle_ni_t ni_of_before) {
    /* Stale ones: each has been something. */
    const ptl_handle_any_t old[] = {ni_of_before, entry, attached, bound, eq};
    PTL(PtlMEUnlink(entry));
    PTL(PtlMDUnlink(bound));
    PTL(PtlEQFree(eq));
    make();
    add(ni, 'n'), add(entry, 'e'), add(attached, 'd'), add(bound, 'd'), add(eq, 'q');
    for (unsigned n = 0; n < sizeof old / sizeof *old; n++) {
        CHECK(old[n] != ni && old[n] != entry && old[n] != attached && old[n] != bound && old[n] != eq);
        add(old[n], 0);
    }
    add(0, 0), add(1, 0), add(PTL_INVALID_HANDLE, 0), add(PTL_HANDLE_NONE, 0), add(PTL_EQ_NONE, 0), add(0x80000000u, 0);
    /* Forged ones: a bit of each is another. */
    const ptl_handle_any_t live[] = {ni, entry, attached, eq};
    for (unsigned n = 0; n < 4; n++)
        for (unsigned bit = 0; bit < 32; bit++)
            add(live[n] ^ (ptl_handle_any_t)1 << bit, 0);
}

/* Every call that takes a handle, with everything that is none of its kind. */
static void handles_of_other_things(void) {
    ptl_process_id_t id, self = ids[me];
    ptl_handle_any_t made;
    ptl_pt_index_t portal;
    ptl_event_t event;
    ptl_sr_value_t value;
    ptl_uid_t uid;
    unsigned long distance;
    unsigned number, more;
    ptl_nid_t map[MOST];
    int which;
    for (unsigned n = 0; n < handles; n++) {
        const ptl_handle_any_t bad = given[n].handle;
        const char of = given[n].of;
        if (of == 0)
            REFUSED(PTL_HANDLE_INVALID, "handle", PtlNIHandle(bad, &made));
        if (of != 'n') {
            REFUSED(PTL_NI_INVALID, "ni_handle", PtlNIFini(bad));
            REFUSED(PTL_NI_INVALID, "ni_handle", PtlNIStatus(bad, PTL_SR_DROP_COUNT, &value));
            REFUSED(PTL_NI_INVALID, "ni_handle", PtlNIDist(bad, self, &distance));
            REFUSED(PTL_NI_INVALID, "ni_handle", PtlGetUid(bad, &uid));
            REFUSED(PTL_NI_INVALID, "ni_handle", PtlGetId(bad, &id));
            REFUSED(PTL_NI_INVALID, "ni_handle", PtlGetJid(bad, &uid));
            REFUSED(PTL_NI_INVALID, "ni_handle", PtlMEAttach(bad, PORTAL, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, &made));
            REFUSED(PTL_NI_INVALID, "ni_handle", PtlMEAttachAny(bad, &portal, anybody, 0, 0, PTL_RETAIN, &made));
            REFUSED(PTL_NI_INVALID, "ni_handle", PtlMDBind(bad, plain(eq), PTL_RETAIN, &made));
            REFUSED(PTL_NI_INVALID, "ni_handle",
                    PtlMEMDPost(bad, entry, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, plain(eq), PTL_RETAIN, &made, &made, eq));
            REFUSED(PTL_NI_INVALID, "ni_handle", PtlEQAlloc(bad, 8, PTL_EQ_HANDLER_NONE, &made));
            REFUSED(PTL_NI_INVALID, "ni_handle", PtlACEntry(bad, 1, anybody, PTL_UID_ANY, PTL_JID_ANY, PTL_PT_INDEX_ANY));
            REFUSED(PTL_NI_INVALID, "ni_handle", PtlGetRank(bad, &number, &more));
            REFUSED(PTL_NI_INVALID, "ni_handle", PtlGetRankId(bad, 0, &id));
            REFUSED(PTL_NI_INVALID, "ni_handle", PtlGetNIDMap(bad, map, size));
            REFUSED(PTL_NI_INVALID, "ni_handle", PtlGetPIDMap(bad, map, size));
            REFUSED(PTL_NI_INVALID, "ni_handle", PtlJobFence(bad));
        }
        if (of != 'e') {
            REFUSED(PTL_ME_INVALID, "", PtlMEUnlink(bad));
            REFUSED(PTL_ME_INVALID, "", PtlMEInsert(bad, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, &made));
            REFUSED(PTL_ME_INVALID, "", PtlMDAttach(bad, plain(eq), PTL_RETAIN, &made));
            REFUSED(PTL_ME_INVALID, "",
                    PtlMEMDPost(ni, bad, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, plain(eq), PTL_RETAIN, &made, &made, eq));
        }
        if (of != 'd') {
            ptl_md_t md = plain(eq);
            REFUSED(PTL_MD_INVALID, "", PtlMDUnlink(bad));
            REFUSED(PTL_MD_INVALID, "", PtlMDUpdate(bad, NULL, &md, PTL_EQ_NONE));
            REFUSED(PTL_MD_INVALID, "", PtlPut(bad, PTL_ACK_REQ, self, PORTAL, 0, 0, 0, 0));
            REFUSED(PTL_MD_INVALID, "", PtlPutRegion(bad, 0, 1, PTL_ACK_REQ, self, PORTAL, 0, 0, 0, 0));
            REFUSED(PTL_MD_INVALID, "", PtlGet(bad, self, PORTAL, 0, 0, 0));
            REFUSED(PTL_MD_INVALID, "", PtlGetRegion(bad, 0, 1, self, PORTAL, 0, 0, 0));
            REFUSED(PTL_MD_INVALID, "", PtlGetPut(bad, bound, self, PORTAL, 0, 0, 0, 0));
            REFUSED(PTL_MD_INVALID, "", PtlGetPut(bound, bad, self, PORTAL, 0, 0, 0, 0));
        }
        if (of != 'q') {
            ptl_handle_eq_t two[2] = {eq, bad};
            ptl_md_t md = plain(eq);
            REFUSED(PTL_EQ_INVALID, "", PtlEQFree(bad));
            REFUSED(PTL_EQ_INVALID, "", PtlEQGet(bad, &event));
            REFUSED(PTL_EQ_INVALID, "", PtlEQWait(bad, &event));
            REFUSED(PTL_EQ_INVALID, "", PtlEQPoll(two, 2, 0, &event, &which));
            REFUSED(PTL_EQ_INVALID, "", PtlEQPoll(two + 1, 1, PTL_TIME_FOREVER, &event, &which));
            if (bad != PTL_EQ_NONE) {
                REFUSED(PTL_EQ_INVALID, "", PtlMDUpdate(bound, NULL, &md, bad));
                /* An event queue's handle of another interface makes an illegal descriptor; anything else is no queue. */
                md = plain(bad);
                const int rc = PtlMDBind(ni, md, PTL_RETAIN, &made), again = PtlMDUpdate(bound, NULL, &md, PTL_EQ_NONE);
                CHECK(rc == again && (rc == PTL_EQ_INVALID || (rc == PTL_MD_ILLEGAL && bad >> 30 == eq >> 30)));
            }
        }
    }
    /* Nothing has come of it. */
    CHECK(PtlNIHandle(entry, &made) == PTL_OK && made == ni && PtlNIHandle(bound, &made) == PTL_OK && made == ni);
    CHECK(PtlNIHandle(eq, &made) == PTL_OK && made == ni && PtlNIHandle(attached, &made) == PTL_OK && made == ni);
    NOTHING(eq);
}

static void null_pointers(void) {
    ptl_handle_any_t made;
    ptl_event_t event;
    unsigned number;
    REFUSED(PTL_SEGV, "distance", PtlNIDist(ni, ids[me], NULL));
    REFUSED(PTL_SEGV, "uid", PtlGetUid(ni, NULL));
    REFUSED(PTL_SEGV, "id", PtlGetId(ni, NULL));
    REFUSED(PTL_SEGV, "jid", PtlGetJid(ni, NULL));
    REFUSED(PTL_SEGV, "me_handle", PtlMEAttachAny(ni, &number, anybody, 0, 0, PTL_RETAIN, NULL));
    REFUSED(PTL_SEGV, "me_handle", PtlMEInsert(entry, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, NULL));
    REFUSED(PTL_SEGV, "me_handle",
            PtlMEMDPost(ni, entry, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, plain(eq), PTL_RETAIN, NULL, &made, eq));
    REFUSED(PTL_SEGV, "md_handle",
            PtlMEMDPost(ni, entry, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, plain(eq), PTL_RETAIN, &made, NULL, eq));
    REFUSED(PTL_SEGV, "event", PtlEQWait(eq, NULL));
    REFUSED(PTL_SEGV, "rank", PtlGetRank(ni, NULL, &number));
    REFUSED(PTL_SEGV, "size", PtlGetRank(ni, &number, NULL));
    REFUSED(PTL_SEGV, "id", PtlGetRankId(ni, 0, NULL));
    REFUSED(PTL_SEGV, "map", PtlGetNIDMap(ni, NULL, size));
    REFUSED(PTL_SEGV, "map", PtlGetPIDMap(ni, NULL, size));
    CHECK(PtlEQGet(eq, &event) == PTL_EQ_EMPTY);
}

static void values(void) {
    ptl_handle_any_t made, other;
    ptl_pt_index_t portal;
    ptl_md_t md = plain(eq), bad = md, old;
    ptl_pid_t map[MOST + 1];
    REFUSED(PTL_FAIL, "unlink=2", PtlMEAttachAny(ni, &portal, anybody, 0, 0, (ptl_unlink_t)2, &made));
    REFUSED(PTL_FAIL, "unlink=2", PtlMEInsert(entry, anybody, 0, 0, (ptl_unlink_t)2, PTL_INS_AFTER, &made));
    REFUSED(PTL_FAIL, "position=2", PtlMEInsert(entry, anybody, 0, 0, PTL_RETAIN, (ptl_ins_pos_t)2, &made));
    REFUSED(PTL_FAIL, "unlink_op=2", PtlMDBind(ni, md, (ptl_unlink_t)2, &made));
    REFUSED(PTL_FAIL, "unlink_op=2",
            PtlMEMDPost(ni, entry, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, md, (ptl_unlink_t)2, &made, &other, eq));
    REFUSED(PTL_FAIL, "position=2",
            PtlMEMDPost(ni, entry, anybody, 0, 0, PTL_RETAIN, (ptl_ins_pos_t)2, md, PTL_RETAIN, &made, &other, eq));
    REFUSED(PTL_FAIL, "ack_req=2", PtlPutRegion(bound, 0, 1, (ptl_ack_req_t)2, ids[me], PORTAL, 0, 0, 0, 0));
    REFUSED(PTL_FAIL, "size", PtlGetPIDMap(ni, map, size + 1));
    REFUSED(PTL_PROCESS_INVALID, "4711", PtlMEAttachAny(ni, &portal, stranger, 0, 0, PTL_RETAIN, &made));
    REFUSED(PTL_PROCESS_INVALID, "4711", PtlMEInsert(entry, stranger, 0, 0, PTL_RETAIN, PTL_INS_AFTER, &made));
    REFUSED(PTL_PROCESS_INVALID, "4711",
            PtlMEMDPost(ni, entry, stranger, 0, 0, PTL_RETAIN, PTL_INS_AFTER, md, PTL_RETAIN, &made, &other, eq));
    REFUSED(PTL_PROCESS_INVALID, "4711", PtlPutRegion(bound, 0, 1, PTL_ACK_REQ, stranger, PORTAL, 0, 0, 0, 0));
    REFUSED(PTL_PROCESS_INVALID, "4711", PtlGetRegion(bound, 0, 1, stranger, PORTAL, 0, 0, 0));
    bad.eq_handle = entry;
    REFUSED(PTL_EQ_INVALID, "", PtlMDBind(ni, bad, PTL_RETAIN, &made));
    REFUSED(PTL_EQ_INVALID, "",
            PtlMEMDPost(ni, entry, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, bad, PTL_RETAIN, &made, &other, eq));
    REFUSED(PTL_EQ_INVALID, "",
            PtlMEMDPost(ni, entry, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, md, PTL_RETAIN, &made, &other, entry));
    bad = md, bad.threshold = -2;
    REFUSED(PTL_MD_ILLEGAL, "",
            PtlMEMDPost(ni, entry, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, bad, PTL_RETAIN, &made, &other, eq));
    /* Section 3.10: the old value is told in any case, also where the new one cannot even be read. */
    bad = md, bad.options |= PTL_MD_IOVEC, bad.length = UINT64_MAX;
    memset(&old, 0, sizeof old);
    REFUSED(PTL_MD_ILLEGAL, "", PtlMDUpdate(bound, &old, &bad, PTL_EQ_NONE));
    CHECK(old.start == memory && old.length == BYTES && old.eq_handle == eq);
    /* Huge and other thresholds that are legal. */
    const int thresholds[] = {0, 1, INT32_MAX, PTL_MD_THRESH_INF};
    for (int n = 0; n < 4; n++) {
        md.threshold = thresholds[n];
        PTL(PtlMDUpdate(bound, NULL, &md, PTL_EQ_NONE));
        PTL(PtlMDUpdate(bound, &old, NULL, PTL_EQ_NONE));
        CHECK(old.threshold == thresholds[n]);
    }
}

/* The ordinary codes: nothing there, something lost, not now. */
static void ordinary(void) {
    ptl_handle_any_t made, other;
    ptl_handle_me_t all[300];
    ptl_pt_index_t portal;
    ptl_handle_eq_t few = queue(1);
    ptl_md_t md = plain(few);
    ptl_event_t event;
    int which, count = 0;
    GIVES(PTL_EQ_EMPTY, PtlEQGet(few, &event));
    GIVES(PTL_EQ_EMPTY, PtlEQPoll(&few, 1, 0, &event, &which));
    const ptl_handle_md_t into = attach(PORTAL, 9, 0, descriptor(memory, 1, PTL_MD_THRESH_INF, PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE, few), PTL_RETAIN);
    /* Three puts of two events each, one after the other: only the last two events stay. Whoever reads is told of the others. */
    for (int reader = 0; reader < 3; reader++) {
        ptl_handle_eq_t done = queue(8);
        for (ptl_hdr_data_t n = 0; n < 3; n++) {
            const ptl_handle_md_t source = bind(descriptor(memory, 1, 2, PTL_MD_EVENT_START_DISABLE, done), PTL_UNLINK);
            PTL(PtlPut(source, PTL_ACK_REQ, ids[me], PORTAL, 0, 9, 0, n));
            NEXT(done, SEND_END);
            NEXT(done, ACK);
            NEXT(done, UNLINK);
        }
        if (reader == 0)
            GIVES(PTL_EQ_DROPPED, PtlEQGet(few, &event));
        else if (reader == 1)
            GIVES(PTL_EQ_DROPPED, PtlEQWait(few, &event));
        else
            GIVES(PTL_EQ_DROPPED, PtlEQPoll(&few, 1, PTL_TIME_FOREVER, &event, &which));
        CHECK(event.type == PTL_EVENT_PUT_START && event.hdr_data == 2);
        /* An event waits, and a test of this queue says so. */
        GIVES(PTL_MD_NO_UPDATE, PtlMDUpdate(bound, NULL, &md, few));
        GIVES(PTL_MD_NO_UPDATE,
              PtlMEMDPost(ni, entry, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, md, PTL_RETAIN, &made, &other, few));
        NEXT(few, PUT_END);
        GIVES(PTL_EQ_EMPTY, PtlEQGet(few, &event));
        PTL(PtlEQFree(done));
    }
    PTL(PtlMDUnlink(into));
    PTL(PtlEQFree(few));
    while (count < 300 && PtlMEAttachAny(ni, &portal, anybody, 0, 0, PTL_RETAIN, &all[count]) == PTL_OK)
        count++;
    REFUSED(PTL_PT_FULL, "", PtlMEAttachAny(ni, &portal, anybody, 0, 0, PTL_RETAIN, &all[0]));
    while (count > 0)
        PTL(PtlMEUnlink(all[--count]));
}

/* Section 3.5: the limits of each kind of object, in each call that makes one. */
static void limits(void) {
    ptl_ni_limits_t asked = {3, 1, 1, 1, 2, 2, 2, 8}, actual;
    ptl_handle_me_t first, second, third;
    ptl_handle_any_t made, other;
    ptl_pt_index_t portal;
    PTL(PtlNIFini(ni));
    PTL(PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, &asked, &actual, &ni));
    const ptl_md_t md = plain(PTL_EQ_NONE);
    PTL(PtlMEAttach(ni, 0, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, &first));
    PTL(PtlMEMDPost(ni, first, anybody, 0, 0, PTL_UNLINK, PTL_INS_AFTER, md, PTL_RETAIN, &second, &made, PTL_EQ_NONE));
    REFUSED(PTL_ME_LIST_TOO_LONG, "", PtlMEInsert(first, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, &third));
    REFUSED(PTL_ME_LIST_TOO_LONG, "",
            PtlMEMDPost(ni, first, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, md, PTL_RETAIN, &third, &other, PTL_EQ_NONE));
    PTL(PtlMEAttach(ni, 1, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, &third));
    REFUSED(PTL_NO_SPACE, "", PtlMEAttachAny(ni, &portal, anybody, 0, 0, PTL_RETAIN, &other));
    REFUSED(PTL_NO_SPACE, "", PtlMEInsert(third, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, &other));
    REFUSED(PTL_NO_SPACE, "", PtlMDAttach(first, md, PTL_RETAIN, &other));
    PTL(PtlMEUnlink(third));
    PTL(PtlMEAttach(ni, 1, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, &third));
    REFUSED(PTL_NO_SPACE, "",
            PtlMEMDPost(ni, third, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, md, PTL_RETAIN, &made, &other, PTL_EQ_NONE));
    /* What could not be made whole has left nothing: the entry has room for another. */
    PTL(PtlMEUnlink(second));
    PTL(PtlMEMDPost(ni, first, anybody, 0, 0, PTL_UNLINK, PTL_INS_AFTER, md, PTL_RETAIN, &second, &made, PTL_EQ_NONE));
    PTL(PtlMEUnlink(second));
    PTL(PtlMEUnlink(first));
    PTL(PtlMEUnlink(third));
}

int main(void) {
    begin();
    const ptl_handle_ni_t before = ni;
    PTL(PtlNIFini(ni));
    PTL(PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &ni));
    CHECK(ni != before);
    make();
    collect(before);
    handles_of_other_things();
    null_pointers();
    values();
    ordinary();
    meet();
    limits();
    end();
    return 0;
}
