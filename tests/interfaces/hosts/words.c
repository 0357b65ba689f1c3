/* Who sends is the host's word. Run by tests/interfaces/portals_hosts.sh.
 *   words serve PID: waits for two messages of the first job and one of another, then has access entries that admit one of them
 *   words say PID NUMBER: one process of a job, which says that it is NUMBER
 *   words hold PID: stays there until it is killed
 *   words wait PID: waits for a message that never comes
 *   words stranger PID: is refused, or says what was said to it */
#include "../portals.h"
#include <stdlib.h>

enum { PORTAL = 4, HELLO = 1, OF_JOB = 2, OF_USER = 3, GO = 4 };

static ptl_handle_ni_t host;
static uint64_t words[8];

static ptl_md_t memory(ptl_handle_eq_t eq) {
    const ptl_md_t md = {.start = words,
                         .length = sizeof words,
                         .threshold = PTL_MD_THRESH_INF,
                         .options = PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE | PTL_MD_EVENT_START_DISABLE,
                         .eq_handle = eq};
    return md;
}

static ptl_handle_eq_t open_at(ptl_pid_t pid) {
    int most;
    ptl_handle_eq_t eq;
    ptl_handle_me_t entry;
    ptl_handle_md_t md;
    PTL(PtlInit(&most));
    const int code = PtlNIInit(PTL_IFACE_HOST, pid, NULL, NULL, &host);
    if (code != PTL_OK) {
        printf("%s: %s\n", PtlErrorStr(code), PtlErrorMessage());
        PtlFini();
        exit(4);
    }
    PTL(PtlEQAlloc(host, 64, PTL_EQ_HANDLER_NONE, &eq));
    PTL(PtlMEAttach(host, PORTAL, anybody, 0, ~UINT64_C(0), PTL_RETAIN, PTL_INS_AFTER, &entry));
    PTL(PtlMDAttach(entry, memory(eq), PTL_RETAIN, &md));
    return eq;
}

static ptl_event_t next(ptl_handle_eq_t eq, ptl_event_kind_t kind) {
    ptl_event_t event;
    int which;
    do {
        PTL(PtlEQPoll(&eq, 1, PATIENCE_MS, &event, &which));
    } while (event.type != kind);
    return event;
}

static uint64_t dropped(ptl_sr_index_t why) {
    ptl_sr_value_t value;
    PTL(PtlNIStatus(host, why, &value));
    return value;
}

/* The member says its jid, and the kernel's word is the same. */
static int serve(ptl_pid_t pid) {
    const ptl_handle_eq_t eq = open_at(pid);
    ptl_event_t hello[3];
    printf("ready\n");
    fflush(stdout);
    for (int n = 0; n < 3; n++) {
        hello[n] = next(eq, PTL_EVENT_PUT_END);
        CHECK(hello[n].match_bits == HELLO && hello[n].uid == geteuid());
        CHECK((hello[n].hdr_data & UINT32_MAX) == hello[n].jid);
    }
    /* Two of one job, one of another; who is the other one, its number says. */
    int other = -1;
    for (int n = 0; n < 3; n++)
        if (hello[n].hdr_data >> 32 == 2)
            other = n;
    CHECK(other >= 0);
    const int a = (other + 1) % 3, b = (other + 2) % 3;
    CHECK(hello[a].jid == hello[b].jid && hello[a].jid != hello[other].jid);
    ptl_jid_t own;
    PTL(PtlGetJid(host, &own));
    CHECK(own != hello[a].jid && own != hello[other].jid);
    /* Entry 1: that job alone. Entry 2: another user alone, of any job. */
    PTL(PtlACEntry(host, 1, anybody, PTL_UID_ANY, hello[a].jid, PTL_PT_INDEX_ANY));
    PTL(PtlACEntry(host, 2, anybody, geteuid() + 1, PTL_JID_ANY, PTL_PT_INDEX_ANY));
    ptl_handle_md_t md;
    PTL(PtlMDBind(host, memory(PTL_EQ_NONE), PTL_RETAIN, &md));
    for (int n = 0; n < 3; n++)
        PTL(PtlPutRegion(md, 0, 8, PTL_NO_ACK_REQ, hello[n].initiator, PORTAL, 0, GO, 0, 0));
    /* Six come: those of the job pass entry 1, and nobody passes entry 2. */
    int passed = 0;
    for (int n = 0; n < 20000 && (passed < 2 || dropped(PTL_SR_DROP_COUNT) < 4); n++) {
        ptl_event_t event;
        if (PtlEQGet(eq, &event) == PTL_OK) {
            CHECK(event.match_bits == OF_JOB && event.jid == hello[a].jid);
            passed++;
        }
    }
    CHECK(passed == 2 && dropped(PTL_SR_DROP_AC_JID) == 1 && dropped(PTL_SR_DROP_AC_UID) == 3 && dropped(PTL_SR_DROP_COUNT) == 4);
    for (int n = 0; n < 3; n++)
        PTL(PtlPutRegion(md, 0, 8, PTL_NO_ACK_REQ, hello[n].initiator, PORTAL, 0, GO, 0, 0));
    PtlFini();
    printf("the host's word\n");
    return 0;
}

static int say(ptl_pid_t pid, uint64_t number) {
    const ptl_handle_eq_t eq = open_at(PTL_PID_ANY);
    const ptl_process_id_t service = {0, pid};
    ptl_handle_md_t md;
    ptl_jid_t own;
    PTL(PtlGetJid(host, &own));
    PTL(PtlMDBind(host, memory(PTL_EQ_NONE), PTL_RETAIN, &md));
    PTL(PtlPutRegion(md, 0, 8, PTL_NO_ACK_REQ, service, PORTAL, 0, HELLO, 0, number << 32 | own));
    next(eq, PTL_EVENT_PUT_END);
    PTL(PtlPutRegion(md, 0, 8, PTL_NO_ACK_REQ, service, PORTAL, 1, OF_JOB, 0, 0));
    PTL(PtlPutRegion(md, 0, 8, PTL_NO_ACK_REQ, service, PORTAL, 2, OF_USER, 0, 0));
    next(eq, PTL_EVENT_PUT_END);
    PtlFini();
    return 0;
}

int main(int argc, char **argv) {
    CHECK(argc > 2);
    const ptl_pid_t pid = (ptl_pid_t)atoi(argv[2]);
    ptl_event_t event;
    if (strcmp(argv[1], "serve") == 0)
        return serve(pid);
    if (strcmp(argv[1], "say") == 0)
        return say(pid, (uint64_t)atoi(argv[3]));
    if (strcmp(argv[1], "hold") == 0) {
        open_at(pid);
        printf("held\n");
        fflush(stdout);
        for (;;)
            pause();
    }
    if (strcmp(argv[1], "wait") == 0) {
        const ptl_handle_eq_t eq = open_at(pid);
        printf("waits\n");
        fflush(stdout);
        const int code = PtlEQWait(eq, &event);
        printf("%s: %s\n", PtlErrorStr(code), PtlErrorMessage());
        PtlFini();
        return code == PTL_FAIL ? 0 : 5;
    }
    /* stranger: the service sees who it is. */
    const ptl_handle_eq_t eq = open_at(PTL_PID_ANY);
    const ptl_process_id_t service = {0, pid};
    ptl_handle_md_t md;
    PTL(PtlMDBind(host, memory(eq), PTL_RETAIN, &md));
    PTL(PtlPutRegion(md, 0, 8, PTL_ACK_REQ, service, PORTAL, 0, HELLO, 0, 0));
    event = next(eq, PTL_EVENT_SEND_END);
    printf("sent: %s\n", PtlNIFailStr(host, event.ni_fail_type));
    PtlFini();
    return 0;
}
