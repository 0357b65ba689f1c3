// interface: portals3
// ranks: 1 2 8
// settings: FARPOST_PORTALS=generic | FARPOST_PORTALS=accelerated | FARPOST_PORTALS_SOURCES=1
// Every call is atomic towards others and towards what arrives: four threads of each process attach, update, unlink, put, get,
// swap and take events at once, and each process sends to the next. What was acknowledged is there, what was not is counted.
#include "portals.h"
#include <pthread.h>
#include <unistd.h>

enum { STEADY = 1, PASSING = 2, SWAPPED = 3, TOTALS = 4, PUTS = 1500, LONG = 9000 };

static unsigned to, from;
static ptl_handle_eq_t came;   /* of the steady descriptor and of those that pass */
static ptl_handle_eq_t totals; /* what others say when they are done */
static unsigned char steady[LONG], passing[LONG];
static uint64_t cell;

/* Filled in by one thread, read after it has ended. */
static unsigned acked, replies, swaps, arrived, unlinked, updated;
static uint64_t token; /* the swapping thread's */
static volatile int attaching, taking;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int on(volatile int *flag) {
    pthread_mutex_lock(&lock);
    const int value = *flag;
    pthread_mutex_unlock(&lock);
    return value;
}

static void off(volatile int *flag) {
    pthread_mutex_lock(&lock);
    *flag = 0;
    pthread_mutex_unlock(&lock);
}

static void again(int rc) {
    if (rc == PTL_MD_IN_USE || rc == PTL_ME_IN_USE || rc == PTL_MD_NO_UPDATE)
        usleep(20);
    else
        CHECK(rc == PTL_OK);
}

/* Entries that come and go: some take one message, some are changed, all are unlinked if nobody was quicker. */
static void *attacher(void *nothing) {
    for (unsigned turn = 0; on(&attaching); turn++) {
        ptl_handle_me_t entry;
        ptl_handle_md_t handle;
        const int once = turn % 3 == 0;
        ptl_md_t md = descriptor(passing, LONG, once ? 1 : PTL_MD_THRESH_INF, PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE | PTL_MD_EVENT_START_DISABLE, came);
        PTL(PtlMEAttach(ni, PASSING, anybody, 0, 0, PTL_UNLINK, turn % 2 ? PTL_INS_BEFORE : PTL_INS_AFTER, &entry));
        PTL(PtlMDAttach(entry, md, once ? PTL_UNLINK : PTL_RETAIN, &handle));
        if (turn % 5 == 0)
            usleep(100);
        /* Off and on again: an update is refused while something moves, never half done. */
        for (int off_and_on = 0; !once && off_and_on < 2; off_and_on++) {
            int rc;
            md.threshold = off_and_on == 0 ? 0 : PTL_MD_THRESH_INF;
            md.length = LONG - (ptl_size_t)off_and_on;
            while ((rc = PtlMDUpdate(handle, NULL, &md, PTL_EQ_NONE)) != PTL_OK)
                again(rc);
            updated++;
        }
        for (;;) {
            const int rc = turn % 2 ? PtlMDUnlink(handle) : PtlMEUnlink(entry);
            if (rc == PTL_OK) {
                unlinked++;
                break;
            }
            /* It took its message, and went. */
            if (rc == PTL_MD_INVALID || rc == PTL_ME_INVALID) {
                CHECK(once);
                break;
            }
            again(rc);
        }
        /* The other handle is stale by now, however it went. */
        CHECK(PtlMEUnlink(entry) == PTL_ME_INVALID && PtlMDUnlink(handle) == PTL_MD_INVALID);
    }
    return nothing;
}

/* Short and long puts, half of them to what may not be there. */
static void *putter(void *nothing) {
    static unsigned char out[LONG];
    ptl_handle_eq_t sent = queue(8192);
    const ptl_handle_md_t md = bind(descriptor(out, LONG, PTL_MD_THRESH_INF, PTL_MD_EVENT_START_DISABLE, sent), PTL_RETAIN);
    ptl_event_t event;
    unsigned ends = 0;
    int which;
    for (unsigned n = 0; n < 2 * PUTS; n++) {
        const ptl_size_t bytes = n % 16 == 0 ? LONG - 1 : 8 + n % 200;
        PTL(PtlPutRegion(md, 0, bytes, PTL_ACK_REQ, ids[to], n % 2 ? PASSING : STEADY, 0, 0, 0, n));
        while (PtlEQGet(sent, &event) == PTL_OK) {
            ends += event.type == PTL_EVENT_SEND_END;
            acked += event.type == PTL_EVENT_ACK;
        }
    }
    /* All that was for the steady one is acknowledged; of the others the target says how many it took. */
    uint64_t expected = 0;
    while (ends < 2 * PUTS || acked < PUTS) {
        PTL(PtlEQPoll(&sent, 1, PATIENCE_MS, &event, &which));
        ends += event.type == PTL_EVENT_SEND_END;
        acked += event.type == PTL_EVENT_ACK;
    }
    ptl_event_t total;
    PTL(PtlEQPoll(&totals, 1, PATIENCE_MS, &total, &which));
    CHECK(total.type == PTL_EVENT_PUT_END);
    expected = total.hdr_data;
    while (acked < expected) {
        PTL(PtlEQPoll(&sent, 1, PATIENCE_MS, &event, &which));
        CHECK(event.type == PTL_EVENT_ACK);
        acked++;
    }
    CHECK(acked == expected);
    NOTHING(sent);
    PTL(PtlMDUnlink(md));
    PTL(PtlEQFree(sent));
    return nothing;
}

/* Gets of what others write meanwhile, and a swap that hands a token on. */
static void *getter(void *nothing) {
    static unsigned char in[LONG];
    uint64_t mine, other = 0;
    ptl_handle_eq_t done = queue(64);
    ptl_md_t md = descriptor(in, LONG, PTL_MD_THRESH_INF, PTL_MD_EVENT_START_DISABLE, done);
    const ptl_handle_md_t into = bind(md, PTL_RETAIN);
    const unsigned masks = PTL_MD_EVENT_START_DISABLE | PTL_MD_EVENT_END_DISABLE;
    const ptl_handle_md_t give = bind(descriptor(&mine, 8, PTL_MD_THRESH_INF, masks, PTL_EQ_NONE), PTL_RETAIN);
    const ptl_handle_md_t take = bind(descriptor(&other, 8, PTL_MD_THRESH_INF, PTL_MD_EVENT_START_DISABLE, done), PTL_RETAIN);
    token = 1000 + me;
    for (unsigned n = 0; n < PUTS; n++) {
        if (n % 4 == 0) {
            PTL(PtlGetRegion(into, 0, n % 8 ? 64 : LONG, ids[to], STEADY, 0, 0, 0));
            CHECK(NEXT(done, REPLY_END).md_handle == into);
            replies++;
        } else {
            mine = token;
            PTL(PtlGetPut(take, give, ids[0], SWAPPED, 0, 0, 0, n));
            CHECK(NEXT(done, REPLY_END).md_handle == take);
            token = other;
            swaps++;
        }
    }
    int rc;
    while ((rc = PtlMDUnlink(give)) != PTL_OK)
        again(rc);
    PTL(PtlMDUnlink(take));
    PTL(PtlMDUnlink(into));
    PTL(PtlEQFree(done));
    return nothing;
}

/* Takes events in each of the three ways, and counts what has arrived or was dropped; tells the initiator when that is all. */
static void *taker(void *nothing) {
    ptl_event_t event;
    uint64_t word = 0;
    int which;
    const ptl_handle_md_t md = bind(descriptor(&word, 8, 1, PTL_MD_EVENT_START_DISABLE, PTL_EQ_NONE), PTL_UNLINK);
    for (unsigned turn = 0;; turn++) {
        const int rc = turn % 2 ? PtlEQGet(came, &event) : PtlEQPoll(&came, 1, 1, &event, &which);
        if (rc == PTL_OK) {
            /* A descriptor that went by itself says so. */
            CHECK(event.type == PTL_EVENT_PUT_END || event.type == PTL_EVENT_UNLINK);
            CHECK(event.ni_fail_type == PTL_NI_OK);
            arrived += event.type == PTL_EVENT_PUT_END;
            continue;
        }
        CHECK(rc == PTL_EQ_EMPTY);
        if (arrived + status(PTL_SR_DROP_COUNT) == 2 * PUTS && PtlEQGet(came, &event) == PTL_EQ_EMPTY)
            break;
    }
    off(&taking);
    PTL(PtlPut(md, PTL_NO_ACK_REQ, ids[from], TOTALS, 0, 0, 0, arrived));
    return nothing;
}

/* Who waits for a queue that goes, or for one of several, is told. */
static ptl_handle_eq_t doomed;

static void *waiter(void *how) {
    ptl_event_t event;
    int which;
    return (void *)(intptr_t)(how == NULL ? PtlEQWait(doomed, &event) : PtlEQPoll(&doomed, 1, PTL_TIME_FOREVER, &event, &which));
}

/* It is freed, its interface is closed, or the library is ended. */
static void gone_while_waited_for(int how) {
    pthread_t each[2];
    void *rc;
    doomed = queue(2);
    CHECK(pthread_create(&each[0], NULL, waiter, NULL) == 0 && pthread_create(&each[1], NULL, waiter, &doomed) == 0);
    /* Most often they wait by then; if not, they are told all the same. */
    usleep(2000);
    if (how == 0)
        PTL(PtlEQFree(doomed));
    else if (how == 1)
        PTL(PtlNIFini(ni));
    else
        PtlFini();
    for (int n = 0; n < 2; n++) {
        CHECK(pthread_join(each[n], &rc) == 0);
        CHECK((int)(intptr_t)rc == PTL_EQ_INVALID || (how == 2 && (int)(intptr_t)rc == PTL_NO_INIT));
    }
}

/* The sentence of an error is its thread's. */
static void *mistaken(void *words) {
    ptl_handle_me_t entry;
    ptl_sr_value_t value;
    for (unsigned n = 0; n < 200; n++)
        if (words != NULL)
            REFUSED(PTL_PT_INDEX_INVALID, "pt_index=4711", PtlMEAttach(ni, 4711, anybody, 0, 0, PTL_UNLINK, PTL_INS_AFTER, &entry));
        else
            REFUSED(PTL_SR_INDEX_INVALID, "status_register=815", PtlNIStatus(ni, 815, &value));
    return NULL;
}

int main(void) {
    begin();
    to = (me + 1) % size, from = (me + size - 1) % size;
    gone_while_waited_for(0);
    gone_while_waited_for(1);
    PTL(PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &ni));
    static uint64_t unread;
    came = queue(8192), totals = queue(8);
    cell = 77;
    const unsigned both = PTL_MD_OP_PUT | PTL_MD_OP_GET | PTL_MD_MANAGE_REMOTE | PTL_MD_EVENT_START_DISABLE;
    /* Gets of it make no events: a descriptor of its own takes them. */
    const ptl_handle_md_t of_puts = attach(STEADY, 0, 0, descriptor(steady, LONG, PTL_MD_THRESH_INF, both & ~(unsigned)PTL_MD_OP_GET, came), PTL_RETAIN);
    const ptl_handle_md_t of_gets = attach(STEADY, 0, 0, descriptor(steady, LONG, PTL_MD_THRESH_INF, both & ~(unsigned)PTL_MD_OP_PUT, PTL_EQ_NONE), PTL_RETAIN);
    const ptl_handle_md_t of_cell = attach(SWAPPED, 0, 0, descriptor(&cell, 8, PTL_MD_THRESH_INF, both, PTL_EQ_NONE), PTL_RETAIN);
    const ptl_handle_md_t of_totals = attach(TOTALS, 0, 0, descriptor(&unread, 8, PTL_MD_THRESH_INF, both, totals), PTL_RETAIN);
    CHECK(status(PTL_SR_DROP_COUNT) == 0);
    meet();
    attaching = taking = 1;
    pthread_t each[4];
    void *(*const what[4])(void *) = {attacher, putter, getter, taker};
    for (int n = 0; n < 4; n++)
        CHECK(pthread_create(&each[n], NULL, what[n], NULL) == 0);
    for (int n = 1; n < 4; n++)
        CHECK(pthread_join(each[n], NULL) == 0);
    off(&attaching);
    CHECK(pthread_join(each[0], NULL) == 0);
    CHECK(arrived >= PUTS && arrived + status(PTL_SR_DROP_NO_MATCH) == 2 * PUTS);
    CHECK(replies + swaps == PUTS && !on(&taking));
    meet();
    /* Tokens are swapped, never lost and never doubled: those of all and the cell's make the same sum. */
    static uint64_t sums[MOST];
    ptl_handle_eq_t summed = queue(2 * MOST);
    attach(TOTALS, 1, 0, descriptor(sums, sizeof sums, PTL_MD_THRESH_INF, both, summed), PTL_RETAIN);
    meet();
    const ptl_handle_md_t mine = bind(descriptor(&token, 8, 1, PTL_MD_EVENT_START_DISABLE, PTL_EQ_NONE), PTL_UNLINK);
    PTL(PtlPut(mine, PTL_NO_ACK_REQ, ids[0], TOTALS, 0, 1, 8 * me, 0));
    if (me == 0) {
        uint64_t sum = cell, expected = 77;
        for (unsigned n = 0; n < size; n++)
            NEXT(summed, PUT_END);
        for (unsigned n = 0; n < size; n++)
            sum += sums[n], expected += 1000 + n;
        CHECK(sum == expected);
    }
    for (int n = 0; n < 4; n++)
        CHECK(pthread_create(&each[n], NULL, mistaken, n % 2 ? &sums : NULL) == 0);
    for (int n = 0; n < 4; n++)
        CHECK(pthread_join(each[n], NULL) == 0);
    meet();
    PTL(PtlMDUnlink(of_puts));
    PTL(PtlMDUnlink(of_gets));
    PTL(PtlMDUnlink(of_cell));
    PTL(PtlMDUnlink(of_totals));
    meet();
    gone_while_waited_for(2);
    return 0;
}
