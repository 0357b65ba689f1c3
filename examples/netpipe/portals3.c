/* A module of NetPIPE 3.x for Portals 3.3, as section 5.2 of the Cray XT3 paper (Brightwell et al., 2005) describes theirs: messages are received
 * by a memory descriptor on a portal with a single match entry, which is made once for each round of messages, so that making it is not timed.
 *
 * NetPIPE's own files stay as they are. The module is compiled with what they declare for MPI's one-sided module, whose option -g means the same
 * here: get instead of put. See README.md.
 *
 *   put   SendData puts, RecvData waits for the PUT_END.
 *   get   RecvData gets and waits for the reply, SendData waits until the other has got: each message takes the way there and back.
 *
 * A queue that is full loses events, so who streams runs ahead of its receiver by less than a queue: the receiver says how far it is.
 */
#include "netpipe.h"

#include <farpost/portals3.h>

enum {
    DATA = 4,         /* portal of the messages, */
    CONTROL = 5,      /* of what NetPIPE's two processes tell each other besides, each in the 64 bits of a header, */
    CREDITS = 6,      /* and of receipts */
    BITS = 7,         /* match bits of everything */
    EVENTS = 4096,    /* of a queue */
    RECEIPT = 1024,   /* messages that a receipt is for */
    OUTSTANDING = 64, /* puts whose memory has not been given back */
};

static ptl_handle_ni_t ni;
static ptl_process_id_t other;
/* What has come, what has left or come back, what was told, receipts. */
static ptl_handle_eq_t came, own, told, receipts;
/* Nothing: what is put to tell something. */
static ptl_handle_md_t nothing;
/* Of a round: the entry that others reach, its descriptor's memory and that of what is done with others'. */
static ptl_handle_me_t shown;
static ptl_handle_md_t used;
static int rounds;
/* Puts that have not left; messages without a receipt; those received since the last receipt. */
static int leaving, ahead, owed;

static void check(int code, const char *what) {
    if (code == PTL_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, PtlErrorStr(code), PtlErrorMessage());
    exit(1);
}

/* The next event of a queue, which is the end of something. */
static ptl_event_t await(ptl_handle_eq_t eq, const char *what) {
    ptl_event_t event;
    check(PtlEQWait(eq, &event), what);
    if (event.ni_fail_type != PTL_NI_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, PtlEventKindStr(event.type), PtlNIFailStr(ni, event.ni_fail_type));
        exit(1);
    }
    return event;
}

static ptl_md_t memory(void *start, ptl_size_t length, unsigned options, ptl_handle_eq_t eq) {
    ptl_md_t md;
    memset(&md, 0, sizeof md);
    md.start = start;
    md.length = length;
    md.threshold = PTL_MD_THRESH_INF;
    md.options = options | PTL_MD_EVENT_START_DISABLE;
    md.eq_handle = eq;
    return md;
}

/* The one entry of a portal. */
static ptl_handle_me_t show(ptl_pt_index_t portal, ptl_md_t md) {
    const ptl_process_id_t anybody = {PTL_NID_ANY, PTL_PID_ANY};
    ptl_handle_me_t me;
    check(PtlMEAttach(ni, portal, anybody, BITS, 0, PTL_RETAIN, PTL_INS_AFTER, &me), "PtlMEAttach");
    check(PtlMDAttach(me, md, PTL_RETAIN, NULL), "PtlMDAttach");
    return me;
}

static void tell(ptl_pt_index_t portal, ptl_hdr_data_t what) {
    check(PtlPut(nothing, PTL_NOACK_REQ, other, portal, 0, BITS, 0, what), "PtlPut");
}

static ptl_hdr_data_t hear(void) { return await(told, "waiting for the other process").hdr_data; }

/* Until all that was put has left. */
static void drain(int most) {
    for (; leaving > most; leaving--)
        await(own, "waiting for a put to leave");
}

/* Release something as soon as nothing of it is under way. */
static void end_round(void) {
    int code;
    drain(0);
    if (rounds == 0)
        return;
    while ((code = PtlMEUnlink(shown)) == PTL_ME_IN_USE)
        ;
    check(code, "PtlMEUnlink");
    while ((code = PtlMDUnlink(used)) == PTL_MD_IN_USE)
        ;
    check(code, "PtlMDUnlink");
}

void Init(ArgStruct *p, int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    p->prot.use_get = 0;
    p->prot.no_fence = 0;
}

void Setup(ArgStruct *p) {
    unsigned rank, size;
    int most;
    check(PtlInit(&most), "PtlInit");
    check(PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &ni), "PtlNIInit");
    check(PtlGetRank(ni, &rank, &size), "PtlGetRank");
    if (size != 2) {
        fprintf(stderr, "NetPIPE over Portals takes two processes, not %u: mpiexec -n 2\n", size);
        exit(1);
    }
    check(PtlGetRankId(ni, 1 - rank, &other), "PtlGetRankId");
    p->prot.iproc = (int)rank;
    p->prot.nbor = 1 - (int)rank;
    p->tr = rank == 0;
    p->rcv = rank == 1;
    check(PtlEQAlloc(ni, EVENTS, NULL, &came), "PtlEQAlloc");
    check(PtlEQAlloc(ni, EVENTS, NULL, &own), "PtlEQAlloc");
    check(PtlEQAlloc(ni, EVENTS, NULL, &told), "PtlEQAlloc");
    check(PtlEQAlloc(ni, EVENTS, NULL, &receipts), "PtlEQAlloc");
    show(CONTROL, memory(NULL, 0, PTL_MD_OP_PUT, told));
    show(CREDITS, memory(NULL, 0, PTL_MD_OP_PUT, receipts));
    check(PtlMDBind(ni, memory(NULL, 0, 0, PTL_EQ_NONE), PTL_RETAIN, &nothing), "PtlMDBind");
    /* Nobody puts to a portal that is not there yet. */
    check(PtlJobFence(ni), "PtlJobFence");
}

void Sync(ArgStruct *p) {
    (void)p;
    drain(0);
    tell(CONTROL, 0);
    hear();
}

/* A round begins: both sides describe their memory. NetPIPE synchronises before it sends. */
void AfterAlignmentInit(ArgStruct *p) {
    const ptl_size_t most = (ptl_size_t)MAX(p->soffset, p->roffset);
    /* The first round comes before the pools of those that leave the cache out. */
    const ptl_size_t length = rounds == 0 ? (ptl_size_t)p->bufflen : (p->cache ? (ptl_size_t)p->bufflen : MEMSIZE) + most;
    char *const from = p->cache ? p->r_buff : p->s_buff;
    end_round();
    if (p->prot.use_get)
        shown = show(DATA, memory(from, length, PTL_MD_OP_GET | PTL_MD_MANAGE_REMOTE, came));
    else
        shown = show(DATA, memory(p->r_buff, length, PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE, came));
    check(PtlMDBind(ni, memory(p->prot.use_get ? p->r_buff : from, length, 0, own), PTL_RETAIN, &used), "PtlMDBind");
    rounds++;
}

/* Receives are there from the beginning of a round. */
void PrepareToReceive(ArgStruct *p) { (void)p; }

/* Where the other's pointer is, of which ours, `at` behind the start of its buffer, is the counterpart: both advance alike. */
static ptl_size_t theirs(const ArgStruct *p, long at, int ours, int others) {
    if (rounds == 1)
        return 0;
    if (p->cache)
        return (ptl_size_t)others;
    return at == 0 ? 0 : (ptl_size_t)(at - ours + others);
}

static void put(ArgStruct *p) {
    const long at = p->s_ptr - (p->cache ? p->r_buff : p->s_buff);
    const ptl_size_t to = theirs(p, at, p->soffset, p->roffset);
    if (ahead == EVENTS - RECEIPT) {
        await(receipts, "waiting for a receipt");
        ahead -= RECEIPT;
    }
    drain(OUTSTANDING - 1);
    check(PtlPutRegion(used, (ptl_size_t)at, (ptl_size_t)p->bufflen, PTL_NOACK_REQ, other, DATA, 0, BITS, to, 0), "PtlPutRegion");
    leaving++;
    ahead++;
}

static void take(void) {
    await(came, "waiting for a message");
    if (++owed == RECEIPT) {
        tell(CREDITS, 0);
        owed = 0;
    }
}

static void get(ArgStruct *p) {
    const long at = (char *)p->r_ptr - p->r_buff;
    const ptl_size_t from = theirs(p, at, p->roffset, p->soffset);
    check(PtlGetRegion(used, (ptl_size_t)at, (ptl_size_t)p->bufflen, other, DATA, 0, BITS, from), "PtlGetRegion");
    await(own, "waiting for a reply");
}

void SendData(ArgStruct *p) {
    if (!p->prot.use_get)
        put(p);
    else if (!p->bidir)
        await(came, "waiting until a message is fetched");
}

void RecvData(ArgStruct *p) {
    if (!p->prot.use_get) {
        take();
        return;
    }
    get(p);
    /* Where both get at the same time neither waits for the other first. */
    if (p->bidir)
        await(came, "waiting until a message is fetched");
}

void SendTime(ArgStruct *p, double *t) {
    ptl_hdr_data_t bits;
    (void)p;
    memcpy(&bits, t, sizeof bits);
    tell(CONTROL, bits);
}

void RecvTime(ArgStruct *p, double *t) {
    const ptl_hdr_data_t bits = hear();
    (void)p;
    memcpy(t, &bits, sizeof bits);
}

void SendRepeat(ArgStruct *p, int rpt) {
    (void)p;
    tell(CONTROL, (ptl_hdr_data_t)rpt);
}

void RecvRepeat(ArgStruct *p, int *rpt) {
    (void)p;
    *rpt = (int)hear();
}

/* A trial is over, and NetPIPE may free its memory: what was put last may not have left. */
void Reset(ArgStruct *p) {
    (void)p;
    drain(0);
}

void CleanUp(ArgStruct *p) {
    Sync(p);
    end_round();
    check(PtlNIFini(ni), "PtlNIFini");
    PtlFini();
}
