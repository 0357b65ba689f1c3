// interface: portals3
// ranks: 1 2
// settings: FARPOST_PORTALS=generic | FARPOST_PORTALS=accelerated
// Every call and every return code of Portals 3.3 that a program can bring about.
#include "portals.h"

enum { PORTAL = 3, BYTES = 128 };

static char memory[BYTES];

/* Section 3.4: before PtlInit and after PtlFini. */
static void uninitialised(void) {
    ptl_handle_ni_t any = 0;
    ptl_handle_me_t me_handle;
    ptl_handle_md_t md_handle;
    ptl_handle_eq_t eq = PTL_EQ_NONE;
    ptl_process_id_t id = {0, 1};
    ptl_md_t md = descriptor(memory, 1, 1, 0, PTL_EQ_NONE);
    ptl_event_t event;
    ptl_sr_value_t value;
    ptl_pt_index_t portal = 0;
    ptl_uid_t uid;
    ptl_jid_t jid;
    unsigned long distance;
    unsigned number;
    int which;
    REFUSED(PTL_NO_INIT, "PtlInit", PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &any));
    REFUSED(PTL_NO_INIT, "PtlInit", PtlNIFini(any));
    REFUSED(PTL_NO_INIT, "PtlNIStatus", PtlNIStatus(any, PTL_SR_DROP_COUNT, &value));
    REFUSED(PTL_NO_INIT, "PtlNIDist", PtlNIDist(any, id, &distance));
    REFUSED(PTL_NO_INIT, "PtlNIHandle", PtlNIHandle(any, &any));
    REFUSED(PTL_NO_INIT, "PtlGetUid", PtlGetUid(any, &uid));
    REFUSED(PTL_NO_INIT, "PtlGetId", PtlGetId(any, &id));
    REFUSED(PTL_NO_INIT, "PtlGetJid", PtlGetJid(any, &jid));
    REFUSED(PTL_NO_INIT, "PtlMEAttach", PtlMEAttach(any, 0, anybody, 0, 0, PTL_UNLINK, PTL_INS_AFTER, &me_handle));
    REFUSED(PTL_NO_INIT, "PtlMEAttachAny", PtlMEAttachAny(any, &portal, anybody, 0, 0, PTL_UNLINK, &me_handle));
    REFUSED(PTL_NO_INIT, "PtlMEInsert", PtlMEInsert(any, anybody, 0, 0, PTL_UNLINK, PTL_INS_AFTER, &me_handle));
    REFUSED(PTL_NO_INIT, "PtlMEUnlink", PtlMEUnlink(any));
    REFUSED(PTL_NO_INIT, "PtlMDAttach", PtlMDAttach(any, md, PTL_UNLINK, &md_handle));
    REFUSED(PTL_NO_INIT, "PtlMDBind", PtlMDBind(any, md, PTL_UNLINK, &md_handle));
    REFUSED(PTL_NO_INIT, "PtlMDUnlink", PtlMDUnlink(any));
    REFUSED(PTL_NO_INIT, "PtlMDUpdate", PtlMDUpdate(any, &md, NULL, PTL_EQ_NONE));
    REFUSED(PTL_NO_INIT, "PtlMEMDPost", PtlMEMDPost(any, any, anybody, 0, 0, PTL_UNLINK, PTL_INS_AFTER, md, PTL_UNLINK,
                                                    &me_handle, &md_handle, PTL_EQ_NONE));
    REFUSED(PTL_NO_INIT, "PtlEQAlloc", PtlEQAlloc(any, 4, PTL_EQ_HANDLER_NONE, &eq));
    REFUSED(PTL_NO_INIT, "PtlEQFree", PtlEQFree(eq));
    REFUSED(PTL_NO_INIT, "PtlEQGet", PtlEQGet(eq, &event));
    REFUSED(PTL_NO_INIT, "PtlEQWait", PtlEQWait(eq, &event));
    REFUSED(PTL_NO_INIT, "PtlEQPoll", PtlEQPoll(&eq, 1, 0, &event, &which));
    REFUSED(PTL_NO_INIT, "PtlACEntry", PtlACEntry(any, 0, anybody, PTL_UID_ANY, PTL_JID_ANY, PTL_PT_INDEX_ANY));
    REFUSED(PTL_NO_INIT, "PtlPut", PtlPut(any, PTL_NO_ACK_REQ, id, 0, 0, 0, 0, 0));
    REFUSED(PTL_NO_INIT, "PtlPutRegion", PtlPutRegion(any, 0, 0, PTL_NO_ACK_REQ, id, 0, 0, 0, 0, 0));
    REFUSED(PTL_NO_INIT, "PtlGet", PtlGet(any, id, 0, 0, 0, 0));
    REFUSED(PTL_NO_INIT, "PtlGetRegion", PtlGetRegion(any, 0, 0, id, 0, 0, 0, 0));
    REFUSED(PTL_NO_INIT, "PtlGetPut", PtlGetPut(any, any, id, 0, 0, 0, 0, 0));
    REFUSED(PTL_NO_INIT, "PtlGetRank", PtlGetRank(any, &number, &number));
    REFUSED(PTL_NO_INIT, "PtlGetRankId", PtlGetRankId(any, 0, &id));
    REFUSED(PTL_NO_INIT, "PtlGetNIDMap", PtlGetNIDMap(any, &id.nid, 1));
    REFUSED(PTL_NO_INIT, "PtlGetPIDMap", PtlGetPIDMap(any, &id.pid, 1));
    REFUSED(PTL_NO_INIT, "PtlJobFence", PtlJobFence(any));
}

/* Sections 3.5 to 3.8. */
static void interfaces(void) {
    ptl_handle_ni_t again = 0;
    ptl_ni_limits_t limits, asked = {4, 4, 4, 4, 4, 4, 4, 4};
    ptl_process_id_t id, stranger = {4711, 1};
    ptl_sr_value_t value;
    ptl_uid_t uid;
    ptl_jid_t jid;
    unsigned long distance;
    unsigned number;
    REFUSED(PTL_IFACE_INVALID, "iface=77", PtlNIInit(77, PTL_PID_ANY, NULL, NULL, &again));
    REFUSED(PTL_SEGV, "NULL", PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, NULL));
    REFUSED(PTL_PID_INVALID, "4711", PtlNIInit(PTL_IFACE_DEFAULT, 4711, NULL, NULL, &again));
    /* A second opening: the same handle, other limits are not looked at. */
    PTL(PtlNIInit(PTL_IFACE_DEFAULT, ids[me].pid, &asked, &limits, &again));
    CHECK(again == ni && limits.max_mes >= 1024 && limits.max_mds >= 1024 && limits.max_eqs >= 16);
    CHECK(limits.max_pt_index >= 7 && limits.max_ac_index >= 7 && limits.max_md_iovecs >= 16);
    CHECK(limits.max_me_list >= 1024 && limits.max_getput_md >= 8);
    REFUSED(PTL_NI_INVALID, "ni_handle", PtlNIFini(ni + 1));
    REFUSED(PTL_NI_INVALID, "ni_handle", PtlNIStatus(PTL_INVALID_HANDLE, PTL_SR_DROP_COUNT, &value));
    REFUSED(PTL_SR_INDEX_INVALID, "9999", PtlNIStatus(ni, 9999, &value));
    REFUSED(PTL_SEGV, "NULL", PtlNIStatus(ni, PTL_SR_DROP_COUNT, NULL));
    CHECK(status(PTL_SR_DROP_COUNT) == 0);
    REFUSED(PTL_PROCESS_INVALID, "4711", PtlNIDist(ni, stranger, &distance));
    REFUSED(PTL_PROCESS_INVALID, "4294967295", PtlNIDist(ni, anybody, &distance));
    PTL(PtlNIDist(ni, ids[me], &distance));
    CHECK(distance == 0);
    PTL(PtlNIDist(ni, ids[size - 1], &distance));
    CHECK(distance == (me == size - 1 ? 0 : ids[me].nid == ids[size - 1].nid ? 1 : 2));
    PTL(PtlGetId(ni, &id));
    CHECK(id.nid == ids[me].nid && id.pid == ids[me].pid && id.pid != 0);
    PTL(PtlGetUid(ni, &uid));
    PTL(PtlGetJid(ni, &jid));
    CHECK(uid != PTL_UID_ANY && jid != PTL_JID_ANY);
    REFUSED(PTL_FAIL, "rank", PtlGetRankId(ni, size, &id));
    REFUSED(PTL_FAIL, "size", PtlGetNIDMap(ni, &number, size + 1));
    ptl_nid_t nids[MOST];
    ptl_pid_t pids[MOST];
    PTL(PtlGetNIDMap(ni, nids, size));
    PTL(PtlGetPIDMap(ni, pids, size));
    for (unsigned rank = 0; rank < size; rank++)
        CHECK(nids[rank] == ids[rank].nid && pids[rank] == ids[rank].pid);
    PTL(PtlNIHandle(ni, &again));
    CHECK(again == ni);
    REFUSED(PTL_HANDLE_INVALID, "handle", PtlNIHandle(PTL_HANDLE_NONE, &again));
    REFUSED(PTL_HANDLE_INVALID, "handle", PtlNIHandle(PTL_EQ_NONE, &again));
    REFUSED(PTL_HANDLE_INVALID, "handle", PtlNIHandle(0, &again));
    REFUSED(PTL_SEGV, "NULL", PtlNIHandle(ni, NULL));
}

/* Section 3.9. */
static void entries(void) {
    ptl_handle_me_t first, second, third;
    ptl_handle_ni_t of;
    ptl_pt_index_t portal = 999;
    const ptl_process_id_t stranger = {0, 4711};
    REFUSED(PTL_PT_INDEX_INVALID, "100000", PtlMEAttach(ni, 100000, anybody, 0, 0, PTL_UNLINK, PTL_INS_AFTER, &first));
    REFUSED(PTL_PT_INDEX_INVALID, "", PtlMEAttach(ni, PTL_PT_INDEX_ANY, anybody, 0, 0, PTL_UNLINK, PTL_INS_AFTER, &first));
    REFUSED(PTL_PROCESS_INVALID, "4711", PtlMEAttach(ni, PORTAL, stranger, 0, 0, PTL_UNLINK, PTL_INS_AFTER, &first));
    REFUSED(PTL_SEGV, "NULL", PtlMEAttach(ni, PORTAL, anybody, 0, 0, PTL_UNLINK, PTL_INS_AFTER, NULL));
    REFUSED(PTL_FAIL, "unlink=7", PtlMEAttach(ni, PORTAL, anybody, 0, 0, (ptl_unlink_t)7, PTL_INS_AFTER, &first));
    REFUSED(PTL_FAIL, "position=9", PtlMEAttach(ni, PORTAL, anybody, 0, 0, PTL_UNLINK, (ptl_ins_pos_t)9, &first));
    PTL(PtlMEAttach(ni, PORTAL, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, &first));
    PTL(PtlNIHandle(first, &of));
    CHECK(of == ni);
    PTL(PtlMEInsert(first, anybody, 0, 0, PTL_RETAIN, PTL_INS_BEFORE, &second));
    PTL(PtlMEAttachAny(ni, &portal, anybody, 0, 0, PTL_RETAIN, &third));
    CHECK(portal != PORTAL && portal != 999);
    REFUSED(PTL_SEGV, "NULL", PtlMEAttachAny(ni, NULL, anybody, 0, 0, PTL_RETAIN, &third));
    REFUSED(PTL_ME_INVALID, "", PtlMEInsert(ni, anybody, 0, 0, PTL_RETAIN, PTL_INS_BEFORE, &second));
    PTL(PtlMEUnlink(third));
    PTL(PtlMEUnlink(second));
    PTL(PtlMEUnlink(first));
    /* Stale, and forged. */
    REFUSED(PTL_ME_INVALID, "", PtlMEUnlink(first));
    REFUSED(PTL_ME_INVALID, "", PtlMEInsert(first, anybody, 0, 0, PTL_RETAIN, PTL_INS_BEFORE, &second));
    for (ptl_handle_any_t forged = 1; forged != 0; forged <<= 1)
        CHECK(PtlMEUnlink(forged) == PTL_ME_INVALID && PtlMDUnlink(forged) == PTL_MD_INVALID &&
              PtlEQFree(forged) == PTL_EQ_INVALID);
    /* Every portal has an entry. */
    int many = 0;
    static ptl_handle_me_t all[1000];
    while (many < 1000) {
        const int rc = PtlMEAttachAny(ni, &portal, anybody, 0, 0, PTL_RETAIN, &all[many]);
        if (rc == PTL_PT_FULL)
            break;
        CHECK(rc == PTL_OK);
        many++;
    }
    CHECK(many >= 8 && many < 1000);
    while (many > 0)
        PTL(PtlMEUnlink(all[--many]));
}

/* Section 3.10. */
static void descriptors(void) {
    ptl_handle_me_t entry;
    ptl_handle_md_t md_handle, bound;
    ptl_handle_eq_t eq = queue(4);
    ptl_md_t md = descriptor(memory, BYTES, 1, PTL_MD_OP_PUT, eq), bad = md, old;
    ptl_md_iovec_t pieces[3] = {{memory, 8}, {memory + 16, 8}, {NULL, 8}};
    PTL(PtlMEAttach(ni, PORTAL, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, &entry));
    bad.options = 1u << 30;
    REFUSED(PTL_MD_ILLEGAL, "", PtlMDAttach(entry, bad, PTL_RETAIN, &md_handle));
    bad = md, bad.threshold = -2;
    REFUSED(PTL_MD_ILLEGAL, "", PtlMDAttach(entry, bad, PTL_RETAIN, &md_handle));
    bad = md, bad.start = NULL;
    REFUSED(PTL_MD_ILLEGAL, "", PtlMDAttach(entry, bad, PTL_RETAIN, &md_handle));
    bad = md, bad.length = UINT64_MAX;
    REFUSED(PTL_MD_ILLEGAL, "", PtlMDAttach(entry, bad, PTL_RETAIN, &md_handle));
    bad = md, bad.start = (void *)(uintptr_t)-4, bad.length = 8;
    REFUSED(PTL_MD_ILLEGAL, "", PtlMDBind(ni, bad, PTL_RETAIN, &bound));
    bad = md, bad.options |= PTL_MD_IOVEC, bad.start = pieces, bad.length = 3;
    REFUSED(PTL_MD_ILLEGAL, "", PtlMDBind(ni, bad, PTL_RETAIN, &bound));
    bad.length = 1000000;
    REFUSED(PTL_MD_ILLEGAL, "", PtlMDBind(ni, bad, PTL_RETAIN, &bound));
    bad.length = 2, bad.start = NULL;
    REFUSED(PTL_MD_ILLEGAL, "", PtlMDBind(ni, bad, PTL_RETAIN, &bound));
    bad = md, bad.eq_handle = ni;
    REFUSED(PTL_EQ_INVALID, "", PtlMDAttach(entry, bad, PTL_RETAIN, &md_handle));
    REFUSED(PTL_ME_INVALID, "", PtlMDAttach(ni, md, PTL_RETAIN, &md_handle));
    REFUSED(PTL_FAIL, "unlink_op=5", PtlMDAttach(entry, md, (ptl_unlink_t)5, &md_handle));
    REFUSED(PTL_NI_INVALID, "", PtlMDBind(entry, md, PTL_RETAIN, &bound));
    REFUSED(PTL_SEGV, "NULL", PtlMDBind(ni, md, PTL_RETAIN, NULL));
    PTL(PtlMDAttach(entry, md, PTL_RETAIN, &md_handle));
    REFUSED(PTL_ME_IN_USE, "", PtlMDAttach(entry, md, PTL_RETAIN, &bound));
    /* 3.2: the handle may be left out. */
    ptl_handle_me_t other;
    PTL(PtlMEAttach(ni, PORTAL, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, &other));
    PTL(PtlMDAttach(other, md, PTL_RETAIN, NULL));
    PTL(PtlMEUnlink(other));
    /* PtlMDUpdate. */
    PTL(PtlMDUpdate(md_handle, &old, NULL, PTL_EQ_NONE));
    CHECK(old.start == memory && old.length == BYTES && old.threshold == 1 && old.options == PTL_MD_OP_PUT);
    CHECK(old.user_ptr == memory && old.eq_handle == eq);
    md.threshold = 0;
    PTL(PtlMDUpdate(md_handle, NULL, &md, eq));
    bad = md, bad.threshold = -7;
    REFUSED(PTL_MD_ILLEGAL, "", PtlMDUpdate(md_handle, &old, &bad, eq));
    CHECK(old.threshold == 0);
    REFUSED(PTL_EQ_INVALID, "", PtlMDUpdate(md_handle, NULL, &md, entry));
    REFUSED(PTL_MD_INVALID, "", PtlMDUpdate(entry, NULL, &md, PTL_EQ_NONE));
    PTL(PtlMDUnlink(md_handle));
    REFUSED(PTL_MD_INVALID, "", PtlMDUnlink(md_handle));
    /* The entry stays, and takes another one. */
    PTL(PtlMDAttach(entry, md, PTL_RETAIN, &md_handle));
    PTL(PtlMEUnlink(entry));
    REFUSED(PTL_MD_INVALID, "", PtlMDUnlink(md_handle));
    /* Unlinking by hand makes no event. */
    NOTHING(eq);
    /* An entry that goes with its descriptor. */
    PTL(PtlMEAttach(ni, PORTAL, anybody, 0, 0, PTL_UNLINK, PTL_INS_AFTER, &entry));
    PTL(PtlMDAttach(entry, md, PTL_RETAIN, &md_handle));
    PTL(PtlMDUnlink(md_handle));
    REFUSED(PTL_ME_INVALID, "", PtlMEUnlink(entry));
    PTL(PtlEQFree(eq));
}

/* Sections 3.11, 3.12. */
static void queues_and_access(void) {
    ptl_handle_eq_t eq, none = 0, two[2];
    ptl_event_t event;
    int which;
    const ptl_process_id_t stranger = {4711, 1};
    PTL(PtlEQAlloc(ni, 0, PTL_EQ_HANDLER_NONE, &none));
    CHECK(none == PTL_EQ_NONE);
    REFUSED(PTL_NO_SPACE, "", PtlEQAlloc(ni, UINT64_MAX, PTL_EQ_HANDLER_NONE, &eq));
    REFUSED(PTL_SEGV, "NULL", PtlEQAlloc(ni, 4, PTL_EQ_HANDLER_NONE, NULL));
    REFUSED(PTL_NI_INVALID, "", PtlEQAlloc(none, 4, PTL_EQ_HANDLER_NONE, &eq));
    eq = queue(1);
    CHECK(PtlEQGet(eq, &event) == PTL_EQ_EMPTY);
    REFUSED(PTL_SEGV, "NULL", PtlEQGet(eq, NULL));
    REFUSED(PTL_EQ_INVALID, "", PtlEQGet(ni, &event));
    REFUSED(PTL_EQ_INVALID, "", PtlEQWait(none, &event));
    REFUSED(PTL_EQ_INVALID, "size=0", PtlEQPoll(&eq, 0, 0, &event, &which));
    REFUSED(PTL_EQ_INVALID, "size=-3", PtlEQPoll(&eq, -3, 0, &event, &which));
    two[0] = eq, two[1] = ni;
    REFUSED(PTL_EQ_INVALID, "", PtlEQPoll(two, 2, 0, &event, &which));
    REFUSED(PTL_SEGV, "NULL", PtlEQPoll(NULL, 1, 0, &event, &which));
    REFUSED(PTL_SEGV, "NULL", PtlEQPoll(&eq, 1, 0, NULL, &which));
    REFUSED(PTL_SEGV, "NULL", PtlEQPoll(&eq, 1, 0, &event, NULL));
    CHECK(PtlEQPoll(&eq, 1, 0, &event, &which) == PTL_EQ_EMPTY);
    CHECK(PtlEQPoll(&eq, 1, 3, &event, &which) == PTL_EQ_EMPTY);
    PTL(PtlEQFree(eq));
    REFUSED(PTL_EQ_INVALID, "", PtlEQFree(eq));
    REFUSED(PTL_EQ_INVALID, "", PtlEQGet(eq, &event));

    REFUSED(PTL_AC_INDEX_INVALID, "100000", PtlACEntry(ni, 100000, anybody, PTL_UID_ANY, PTL_JID_ANY, PTL_PT_INDEX_ANY));
    REFUSED(PTL_PROCESS_INVALID, "4711", PtlACEntry(ni, 1, stranger, PTL_UID_ANY, PTL_JID_ANY, PTL_PT_INDEX_ANY));
    REFUSED(PTL_PT_INDEX_INVALID, "100000", PtlACEntry(ni, 1, anybody, PTL_UID_ANY, PTL_JID_ANY, 100000));
    REFUSED(PTL_NI_INVALID, "", PtlACEntry(0, 1, anybody, PTL_UID_ANY, PTL_JID_ANY, PTL_PT_INDEX_ANY));
    PTL(PtlACEntry(ni, 1, anybody, PTL_UID_ANY, PTL_JID_ANY, PTL_PT_INDEX_ANY));
}

/* Section 3.13. */
static void moves(void) {
    const ptl_process_id_t stranger = {0, 4711};
    ptl_handle_eq_t eq = queue(4);
    ptl_md_t md = descriptor(memory, BYTES, PTL_MD_THRESH_INF, 0, eq);
    ptl_handle_md_t active = bind(md, PTL_RETAIN), other = bind(md, PTL_RETAIN), inactive, small;
    md.threshold = 0;
    inactive = bind(md, PTL_RETAIN);
    md.threshold = 1, md.length = 8;
    small = bind(md, PTL_RETAIN);
    REFUSED(PTL_MD_INVALID, "", PtlPut(ni, PTL_ACK_REQ, ids[me], 0, 0, 0, 0, 0));
    /* Section 3.10.1 leaves it open; a silent no-op would hide the mistake. */
    INACTIVE(PtlPut(inactive, PTL_ACK_REQ, ids[me], 0, 0, 0, 0, 0));
    INACTIVE(PtlGet(inactive, ids[me], 0, 0, 0, 0));
    INACTIVE(PtlGetPut(inactive, small, ids[me], 0, 0, 0, 0, 0));
    REFUSED(PTL_PROCESS_INVALID, "4711", PtlPut(active, PTL_ACK_REQ, stranger, 0, 0, 0, 0, 0));
    REFUSED(PTL_PROCESS_INVALID, "", PtlPut(active, PTL_ACK_REQ, anybody, 0, 0, 0, 0, 0));
    REFUSED(PTL_PROCESS_INVALID, "4711", PtlGet(active, stranger, 0, 0, 0, 0));
    REFUSED(PTL_PROCESS_INVALID, "4711", PtlGetPut(small, small, stranger, 0, 0, 0, 0, 0));
    REFUSED(PTL_FAIL, "ack_req=3", PtlPut(active, (ptl_ack_req_t)3, ids[me], 0, 0, 0, 0, 0));
    REFUSED(PTL_MD_ILLEGAL, "129", PtlPutRegion(active, 0, BYTES + 1, PTL_ACK_REQ, ids[me], 0, 0, 0, 0, 0));
    REFUSED(PTL_MD_ILLEGAL, "", PtlPutRegion(active, BYTES, 1, PTL_ACK_REQ, ids[me], 0, 0, 0, 0, 0));
    REFUSED(PTL_MD_ILLEGAL, "", PtlPutRegion(active, UINT64_MAX, 2, PTL_ACK_REQ, ids[me], 0, 0, 0, 0, 0));
    REFUSED(PTL_MD_ILLEGAL, "", PtlGetRegion(active, 1, BYTES, ids[me], 0, 0, 0, 0));
    REFUSED(PTL_MD_ILLEGAL, "", PtlGetRegion(active, 1, UINT64_MAX, ids[me], 0, 0, 0, 0));
    /* Longer than max_getput_md. */
    REFUSED(PTL_MD_ILLEGAL, "", PtlGetPut(active, other, ids[me], 0, 0, 0, 0, 0));
    NOTHING(eq);
    PTL(PtlMDUnlink(small));
    PTL(PtlMDUnlink(inactive));
    PTL(PtlMDUnlink(other));
    PTL(PtlMDUnlink(active));
    PTL(PtlEQFree(eq));
}

/* Limits that are asked for hold (section 3.5). */
static void limits(void) {
    ptl_ni_limits_t asked = {3, 2, 1, 1, 2, 2, 2, 8}, actual;
    ptl_handle_ni_t old = ni;
    ptl_handle_me_t entry[4];
    ptl_handle_md_t md_handle[3];
    ptl_handle_eq_t eq, more;
    PTL(PtlNIFini(ni));
    REFUSED(PTL_NI_INVALID, "", PtlNIFini(ni));
    PTL(PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, &asked, &actual, &ni));
    CHECK(ni != old && memcmp(&asked, &actual, sizeof asked) == 0);
    PTL(PtlEQAlloc(ni, 4, PTL_EQ_HANDLER_NONE, &eq));
    REFUSED(PTL_NO_SPACE, "", PtlEQAlloc(ni, 4, PTL_EQ_HANDLER_NONE, &more));
    PTL(PtlMEAttach(ni, 0, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, &entry[0]));
    PTL(PtlMEAttach(ni, 0, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, &entry[1]));
    REFUSED(PTL_ME_LIST_TOO_LONG, "", PtlMEAttach(ni, 0, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, &entry[2]));
    PTL(PtlMEAttach(ni, 2, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, &entry[2]));
    REFUSED(PTL_NO_SPACE, "", PtlMEAttach(ni, 2, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, &entry[3]));
    REFUSED(PTL_PT_INDEX_INVALID, "", PtlMEAttach(ni, 3, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, &entry[3]));
    ptl_md_t md = descriptor(memory, 8, 1, PTL_MD_OP_PUT, eq);
    PTL(PtlMDAttach(entry[0], md, PTL_RETAIN, &md_handle[0]));
    PTL(PtlMDBind(ni, md, PTL_RETAIN, &md_handle[1]));
    REFUSED(PTL_NO_SPACE, "", PtlMDBind(ni, md, PTL_RETAIN, &md_handle[2]));
    REFUSED(PTL_AC_INDEX_INVALID, "", PtlACEntry(ni, 2, anybody, PTL_UID_ANY, PTL_JID_ANY, PTL_PT_INDEX_ANY));
    ptl_md_iovec_t pieces[3] = {{memory, 8}, {memory + 16, 8}, {memory + 32, 8}};
    PTL(PtlMDUnlink(md_handle[1]));
    md = descriptor(pieces, 3, 1, PTL_MD_OP_PUT | PTL_MD_IOVEC, eq);
    REFUSED(PTL_MD_ILLEGAL, "", PtlMDBind(ni, md, PTL_RETAIN, &md_handle[1]));
    /* Objects of before are gone with their interface, those of now go with it. */
    REFUSED(PTL_NI_INVALID, "", PtlNIFini(old));
}

/* Values are those of the reference implementation: programs may have them compiled in, or print them. */
static void numbers(void) {
    const int codes[] = {PTL_OK, PTL_AC_INDEX_INVALID, PTL_EQ_DROPPED, PTL_EQ_EMPTY, PTL_EQ_INVALID, PTL_FAIL, PTL_HANDLE_INVALID,
                         PTL_IFACE_INVALID, PTL_MD_ILLEGAL, PTL_MD_INVALID, PTL_MD_IN_USE, PTL_MD_NO_UPDATE, PTL_ME_INVALID,
                         PTL_ME_IN_USE, PTL_ME_LIST_TOO_LONG, PTL_NI_INVALID, PTL_NO_INIT, PTL_NO_SPACE, PTL_PID_INVALID,
                         PTL_PROCESS_INVALID, PTL_PT_FULL, PTL_PT_INDEX_INVALID, PTL_SEGV, PTL_SR_INDEX_INVALID, PTL_UNKNOWN_ERROR};
    const int kinds[] = {PTL_EVENT_GET_START, PTL_EVENT_GET_END, PTL_EVENT_PUT_START, PTL_EVENT_PUT_END, PTL_EVENT_GETPUT_START,
                         PTL_EVENT_GETPUT_END, PTL_EVENT_REPLY_START, PTL_EVENT_REPLY_END, PTL_EVENT_SEND_START, PTL_EVENT_SEND_END,
                         PTL_EVENT_ACK, PTL_EVENT_UNLINK};
    const unsigned options[] = {PTL_MD_OP_PUT, PTL_MD_OP_GET, PTL_MD_MANAGE_REMOTE, PTL_MD_TRUNCATE, PTL_MD_ACK_DISABLE, PTL_MD_IOVEC,
                                PTL_MD_MAX_SIZE, PTL_MD_EVENT_START_DISABLE, PTL_MD_EVENT_END_DISABLE};
    for (int n = 0; n < 25; n++)
        CHECK(codes[n] == n);
    for (int n = 0; n < 12; n++)
        CHECK(kinds[n] == n);
    for (unsigned n = 0; n < 9; n++)
        CHECK(options[n] == 1u << n);
    CHECK(PTL_RETAIN == 0 && PTL_UNLINK == 1 && PTL_INS_BEFORE == 0 && PTL_INS_AFTER == 1 && PTL_ACK_REQ == 0 && PTL_NO_ACK_REQ == 1);
    CHECK(PTL_INVALID_HANDLE == 0xffffffffu && PTL_HANDLE_NONE == 0x7fffffffu && PTL_EQ_NONE == 0xbfffffffu);
    CHECK(PTL_NID_ANY == UINT32_MAX && PTL_PID_ANY == UINT32_MAX && PTL_UID_ANY == UINT32_MAX && PTL_JID_ANY == UINT32_MAX);
    CHECK(PTL_PT_INDEX_ANY == UINT32_MAX && PTL_TIME_FOREVER == UINT32_MAX && PTL_MD_THRESH_INF == -1 && PTL_SR_DROP_COUNT == 0);
    CHECK(PTL_NI_OK == 0 && PTL_EQ_HANDLER_NONE == NULL && sizeof(ptl_size_t) == 8 && sizeof(ptl_handle_any_t) == 4);
}

static void words(void) {
    CHECK(strcmp(PtlErrorStr(PTL_OK), "PTL_OK") == 0 && strcmp(PtlErrorStr(PTL_SEGV), "PTL_SEGV") == 0);
    CHECK(strcmp(PtlErrorStr(4711), "PTL_UNKNOWN_ERROR") == 0 && strcmp(PtlErrorStr(-1), "PTL_UNKNOWN_ERROR") == 0);
    CHECK(strcmp(PtlEventKindStr(PTL_EVENT_UNLINK), "PTL_EVENT_UNLINK") == 0);
    CHECK(strcmp(PtlEventKindStr(99), "unknown event") == 0);
    CHECK(strcmp(PtlNIFailStr(ni, PTL_NI_OK), "PTL_NI_OK") == 0 && strcmp(PtlNIFailStr(ni, 99), "unknown failure") == 0);
    /* Other spellings. */
    CHECK(PTL_NOACK_REQ == PTL_NO_ACK_REQ && PTL_INV_PTINDEX == PTL_PT_INDEX_INVALID && PTL_NOINIT == PTL_NO_INIT);
}

int main(void) {
    /* One job of several processes: nobody opens what others have left. */
    uninitialised();
    REFUSED(PTL_SEGV, "NULL", PtlInit(NULL));
    begin();
    numbers();
    words();
    interfaces();
    entries();
    descriptors();
    queues_and_access();
    moves();
    meet();
    limits();
    end();
    uninitialised();
    return 0;
}
