/* Two interfaces of one process: the job's, wherever its library runs, and the host's. With processes of a job or alone.
 * Run by tests/interfaces/portals_hosts.sh: both FIRST, the first pid that the processes choose. */
#include "../portals.h"
#include <stdlib.h>

enum { PORTAL = 3, BYTES = 100000 };

static ptl_handle_ni_t host;
static unsigned char in[2][BYTES], out[2][BYTES], back[BYTES];

/* An entry of an interface that takes everything, its queue, and a descriptor to send from. */
struct side {
    ptl_handle_ni_t ni;
    ptl_handle_eq_t came, done;
    ptl_handle_md_t from, into;
    ptl_process_id_t next;
};

static ptl_md_t memory(void *start, ptl_size_t length, ptl_handle_eq_t eq) {
    const ptl_md_t md = {.start = start,
                         .length = length,
                         .threshold = PTL_MD_THRESH_INF,
                         .options = PTL_MD_OP_PUT | PTL_MD_OP_GET | PTL_MD_MANAGE_REMOTE | PTL_MD_EVENT_START_DISABLE,
                         .eq_handle = eq};
    return md;
}

static struct side side(ptl_handle_ni_t of, int which) {
    struct side side = {.ni = of};
    ptl_handle_me_t me_handle;
    ptl_handle_md_t md;
    PTL(PtlEQAlloc(of, 64, PTL_EQ_HANDLER_NONE, &side.came));
    PTL(PtlEQAlloc(of, 64, PTL_EQ_HANDLER_NONE, &side.done));
    PTL(PtlMEAttach(of, PORTAL, anybody, 5, 0, PTL_RETAIN, PTL_INS_AFTER, &me_handle));
    PTL(PtlMDAttach(me_handle, memory(in[which], BYTES, side.came), PTL_RETAIN, &md));
    PTL(PtlMDBind(of, memory(out[which], BYTES, side.done), PTL_RETAIN, &side.from));
    PTL(PtlMDBind(of, memory(back, BYTES, side.done), PTL_RETAIN, &side.into));
    /* Each object belongs to the interface that it was made of. */
    ptl_handle_ni_t whose;
    PTL(PtlNIHandle(md, &whose));
    CHECK(whose == of);
    PTL(PtlNIHandle(side.done, &whose));
    CHECK(whose == of);
    return side;
}

static ptl_event_t next(ptl_handle_eq_t eq, ptl_event_kind_t kind) {
    ptl_event_t event;
    int which;
    PTL(PtlEQPoll(&eq, 1, PATIENCE_MS, &event, &which));
    CHECK(event.type == kind && event.ni_fail_type == PTL_NI_OK);
    return event;
}

static volatile int seen;
static void count(ptl_event_t *event) { seen += event->type == PTL_EVENT_PUT_END; }

int main(int argc, char **argv) {
    CHECK(argc > 1);
    const unsigned first = (unsigned)atoi(argv[1]);
    int most = 0;
    PTL(PtlInit(&most));
    CHECK(most == 3);
    begin();
    ptl_handle_ni_t again;
    REFUSED(PTL_PID_INVALID, "pids 1 to 1023", PtlNIInit(PTL_IFACE_HOST, 0, NULL, NULL, &again));
    REFUSED(PTL_PID_INVALID, "pids 1 to 1023", PtlNIInit(PTL_IFACE_HOST, 1024, NULL, NULL, &again));
    /* All want the first number: one gets it, which is the first process; the others are told whose it is. */
    if (me == 0)
        PTL(PtlNIInit(PTL_IFACE_HOST, first, NULL, NULL, &host));
    meet();
    if (me > 0) {
        REFUSED(PTL_PID_INUSE, "is that of process", PtlNIInit(PTL_IFACE_HOST, first, NULL, NULL, &host));
        PTL(PtlNIInit(PTL_IFACE_HOST, first + me, NULL, NULL, &host));
    }
    ptl_process_id_t own, other;
    PTL(PtlGetId(host, &own));
    CHECK(own.nid == 0 && own.pid == first + me && host != ni);
    PTL(PtlGetId(ni, &other));
    CHECK(other.nid == ids[me].nid && other.pid == ids[me].pid);
    PTL(PtlNIInit(PTL_IFACE_HOST, PTL_PID_ANY, NULL, NULL, &again));
    CHECK(again == host);
    PTL(PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &again));
    CHECK(again == ni);
    REFUSED(PTL_PID_INVALID, "this interface is number", PtlNIInit(PTL_IFACE_HOST, first + me + 1, NULL, NULL, &again));
    uint32_t numbers[MOST];
    REFUSED(PTL_FAIL, "host's interface", PtlGetPIDMap(host, numbers, size));
    REFUSED(PTL_FAIL, "host's interface", PtlGetNIDMap(host, numbers, size));
    REFUSED(PTL_FAIL, "host's interface", PtlGetRankId(host, 0, &other));
    CHECK(PtlJobFence(host) == PTL_FAIL);

    struct side sides[2] = {side(ni, 0), side(host, 1)};
    sides[0].next = ids[(me + 1) % size];
    sides[1].next = own;
    sides[1].next.pid = first + (me + 1) % size;
    unsigned long far = 9;
    PTL(PtlNIDist(host, own, &far));
    CHECK(far == 0);
    for (int which = 0; which < 2; which++)
        for (unsigned n = 0; n < BYTES; n++)
            out[which][n] = (unsigned char)(n * 7 + me + 100 * which);
    meet();
    /* Both at once, in lengths that go different ways: the same numbers mean other things on the other interface. */
    const ptl_size_t lengths[] = {0, 8, 3000, BYTES};
    for (unsigned turn = 0; turn < 4; turn++) {
        for (int which = 0; which < 2; which++)
            PTL(PtlPutRegion(sides[which].from, 0, lengths[turn], PTL_ACK_REQ, sides[which].next, PORTAL, 0, 5, 0, turn + 10 * which));
        for (int which = 0; which < 2; which++) {
            const ptl_event_t event = next(sides[which].came, PTL_EVENT_PUT_END);
            CHECK(event.hdr_data == turn + 10 * which && event.mlength == lengths[turn]);
            CHECK(event.initiator.pid == (which == 0 ? ids[(me + size - 1) % size].pid : first + (me + size - 1) % size));
            next(sides[which].done, PTL_EVENT_SEND_END);
            CHECK(next(sides[which].done, PTL_EVENT_ACK).mlength == lengths[turn]);
        }
    }
    for (int which = 0; which < 2; which++) {
        const unsigned before = (me + size - 1) % size;
        for (unsigned n = 0; n < BYTES; n++)
            CHECK(in[which][n] == (unsigned char)(n * 7 + before + 100 * which));
        PTL(PtlGet(sides[which].into, sides[which].next, PORTAL, 0, 5, 0));
        next(sides[which].done, PTL_EVENT_REPLY_END);
        for (unsigned n = 0; n < BYTES; n++)
            CHECK(back[n] == (unsigned char)(n * 7 + me + 100 * which));
        next(sides[which].came, PTL_EVENT_GET_END);
    }
    /* Queues of two interfaces are not waited for together. */
    ptl_handle_eq_t both[] = {sides[0].came, sides[1].came};
    ptl_event_t event;
    int which;
    CHECK(PtlEQPoll(both, 2, 0, &event, &which) == PTL_EQ_INVALID);
    CHECK(PtlEQGet(sides[1].came, &event) == PTL_EQ_EMPTY);
    CHECK(PtlMDUpdate(sides[1].from, NULL, NULL, sides[0].came) == PTL_EQ_INVALID || size > 0);
    /* Whom nobody is. */
    const ptl_process_id_t nobody = {0, first + 200};
    PTL(PtlPut(sides[1].from, PTL_ACK_REQ, nobody, PORTAL, 0, 5, 0, 0));
    PTL(PtlEQWait(sides[1].done, &event));
    CHECK(event.type == PTL_EVENT_SEND_END && event.ni_fail_type == PTL_NI_UNDELIVERABLE);
    const ptl_process_id_t elsewhere = {1, first};
    CHECK(PtlPut(sides[1].from, PTL_ACK_REQ, elsewhere, PORTAL, 0, 5, 0, 0) == PTL_PROCESS_INVALID);
    /* A handler sees what comes while the program computes. */
    ptl_handle_eq_t handled;
    ptl_handle_me_t entry;
    ptl_handle_md_t md;
    static uint64_t cell;
    PTL(PtlEQAlloc(host, 8, count, &handled));
    PTL(PtlMEAttach(host, PORTAL, anybody, 6, 0, PTL_RETAIN, PTL_INS_AFTER, &entry));
    PTL(PtlMDAttach(entry, memory(&cell, 8, handled), PTL_RETAIN, &md));
    meet();
    PTL(PtlPutRegion(sides[1].from, 0, 8, PTL_NO_ACK_REQ, sides[1].next, PORTAL, 0, 6, 0, 0));
    for (int n = 0; n < 3000 && seen == 0; n++)
        usleep(10000);
    CHECK(seen == 1);
    meet();
    /* Closed and opened again, with another number; what was before is stale, and the job's interface has not noticed. */
    PTL(PtlNIFini(host));
    CHECK(PtlEQGet(sides[1].came, &event) == PTL_EQ_INVALID && PtlNIFini(host) == PTL_NI_INVALID);
    CHECK(PtlMDUnlink(sides[1].from) == PTL_MD_INVALID);
    meet();
    const ptl_handle_ni_t stale = host;
    PTL(PtlNIInit(PTL_IFACE_HOST, first + 100 + me, NULL, NULL, &host));
    PTL(PtlGetId(host, &own));
    CHECK(own.pid == first + 100 + me);
    PTL(PtlNIFini(host));
    PTL(PtlNIInit(PTL_IFACE_HOST, first + 100 + me, NULL, NULL, &host));
    CHECK(host != stale);
    PTL(PtlPutRegion(sides[0].from, 0, 8, PTL_ACK_REQ, sides[0].next, PORTAL, 0, 5, 0, 77));
    CHECK(next(sides[0].came, PTL_EVENT_PUT_END).hdr_data == 77);
    next(sides[0].done, PTL_EVENT_SEND_END);
    next(sides[0].done, PTL_EVENT_ACK);
    meet();
    PtlFini();
    if (me == 0)
        printf("both interfaces of %u processes\n", size);
    return 0;
}
