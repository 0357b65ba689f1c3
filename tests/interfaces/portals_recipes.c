// interface: portals3
// ranks: 1 2 8
// settings: FARPOST_PORTALS=generic | FARPOST_PORTALS=accelerated
// Event queues, access control, and the recipes of section 6: posting receives, logging drops, filling a block with short messages.
#include "portals.h"
#include <pthread.h>
#include <unistd.h>

enum { PORTAL = 5, MANY = 100 };

static unsigned to, from;
static const unsigned silent = PTL_MD_EVENT_START_DISABLE | PTL_MD_EVENT_END_DISABLE;

/* Send one word count times to the next process. */
static void send_words(ptl_pt_index_t portal, ptl_match_bits_t bits, ptl_ac_index_t access, unsigned count) {
    uint64_t word = me;
    ptl_handle_eq_t sent = queue(64);
    const ptl_handle_md_t md =
        bind(descriptor(&word, 8, PTL_MD_THRESH_INF, PTL_MD_EVENT_START_DISABLE, sent), PTL_RETAIN);
    for (unsigned n = 0; n < count; n++) {
        PTL(PtlPut(md, PTL_NO_ACK_REQ, ids[to], portal, access, bits, 0, n));
        NEXT(sent, SEND_END);
    }
    PTL(PtlMDUnlink(md));
    PTL(PtlEQFree(sent));
}

/* Section 3.11: when the queue is full the newest events overwrite the oldest, the message is accepted all the same, and who
   reads is told. A queue of one becomes one of two. */
static void overflow(ptl_size_t count, unsigned kept) {
    uint64_t word = 0;
    ptl_handle_eq_t came = queue(count), all = queue(1024);
    ptl_event_t event;
    const ptl_handle_md_t md = attach(
        PORTAL, 1, 0, descriptor(&word, 8, PTL_MD_THRESH_INF, PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE | PTL_MD_EVENT_START_DISABLE, came),
        PTL_RETAIN);
    const ptl_handle_md_t last = attach(
        PORTAL, 2, 0, descriptor(&word, 8, PTL_MD_THRESH_INF, PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE, all), PTL_RETAIN);
    meet();
    const ptl_sr_value_t drops = status(PTL_SR_DROP_COUNT);
    send_words(PORTAL, 1, 0, MANY);
    send_words(PORTAL, 2, 0, 1);
    /* What is sent later starts later: all of the first have come. */
    NEXT(all, PUT_START);
    NEXT(all, PUT_END);
    CHECK(PtlEQGet(came, &event) == PTL_EQ_DROPPED && event.type == PTL_EVENT_PUT_END);
    CHECK(event.hdr_data == MANY - kept && event.sequence == MANY - kept);
    for (unsigned n = 1; n < kept; n++) {
        event = NEXT(came, PUT_END);
        CHECK(event.hdr_data == MANY - kept + n && event.sequence == MANY - kept + n);
    }
    NOTHING(came);
    CHECK(status(PTL_SR_DROP_COUNT) == drops && word == from);
    /* Afterwards it is as good as new; PtlEQWait and PtlEQPoll tell as PtlEQGet does. */
    meet();
    send_words(PORTAL, 1, 0, 1);
    send_words(PORTAL, 2, 0, 1);
    NEXT(all, PUT_START);
    NEXT(all, PUT_END);
    PTL(PtlEQWait(came, &event));
    NOTHING(came);
    meet();
    send_words(PORTAL, 1, 0, MANY);
    send_words(PORTAL, 2, 0, 1);
    NEXT(all, PUT_START);
    NEXT(all, PUT_END);
    int which = -1;
    CHECK(PtlEQPoll(&came, 1, 0, &event, &which) == PTL_EQ_DROPPED && which == 0 && event.hdr_data == MANY - kept);
    meet();
    PTL(PtlMDUnlink(md));
    PTL(PtlMDUnlink(last));
    PTL(PtlEQFree(came));
    PTL(PtlEQFree(all));
    meet();
}

/* PtlEQPoll looks at the queues in the order of the array, and waits no longer than it is told. */
static void polling(void) {
    uint64_t word;
    ptl_handle_eq_t eqs[3] = {queue(8), queue(8), queue(8)};
    ptl_handle_md_t mds[3];
    ptl_event_t event;
    int which;
    for (int n = 0; n < 3; n++)
        mds[n] = attach(PORTAL, (ptl_match_bits_t)n, 0,
                        descriptor(&word, 8, PTL_MD_THRESH_INF, PTL_MD_OP_PUT | PTL_MD_TRUNCATE | PTL_MD_EVENT_START_DISABLE, eqs[n]),
                        PTL_RETAIN);
    meet();
    CHECK(PtlEQPoll(eqs, 3, 20, &event, &which) == PTL_EQ_EMPTY);
    meet();
    send_words(PORTAL, 2, 0, 1);
    PTL(PtlEQPoll(eqs, 3, PTL_TIME_FOREVER, &event, &which));
    CHECK(which == 2 && event.md_handle == mds[2]);
    meet();
    send_words(PORTAL, 1, 0, 2);
    send_words(PORTAL, 2, 0, 1);
    send_words(PORTAL, 0, 0, 1);
    NEXT(eqs[0], PUT_END);
    const int order[] = {1, 1, 2};
    for (int n = 0; n < 3; n++) {
        PTL(PtlEQPoll(eqs, 3, 0, &event, &which));
        CHECK(which == order[n] && event.md_handle == mds[order[n]]);
    }
    CHECK(PtlEQPoll(eqs, 3, 0, &event, &which) == PTL_EQ_EMPTY);
    meet();
    for (int n = 0; n < 3; n++) {
        PTL(PtlMDUnlink(mds[n]));
        PTL(PtlEQFree(eqs[n]));
    }
    meet();
}

/* Section 3.11.6: a handler sees each event, in order, and may call back. It answers every word with one of its own. */
static ptl_handle_md_t answer_md;
static pthread_mutex_t mine = PTHREAD_MUTEX_INITIALIZER;
static unsigned handled;
static uint64_t last_sequence;
static char handler_trouble[200];

static void handler(ptl_event_t *event) {
    ptl_event_t other;
    int which;
    ptl_handle_eq_t eq = event->md.eq_handle;
    /* The program's own lock: another thread that holds it may be in a call of the library meanwhile. */
    pthread_mutex_lock(&mine);
    if (handled > 0 && event->sequence != last_sequence + 1)
        snprintf(handler_trouble, sizeof handler_trouble, "event %u after %u", event->sequence, (unsigned)last_sequence);
    last_sequence = event->sequence;
    handled++;
    if (event->type == PTL_EVENT_PUT_END && event->match_bits == 3) {
        if (PtlPut(answer_md, PTL_NO_ACK_REQ, event->initiator, PORTAL, 0, 4, 0, event->hdr_data) != PTL_OK)
            snprintf(handler_trouble, sizeof handler_trouble, "PtlPut: %s", PtlErrorMessage());
        /* The event is in the queue as well, and it may be waited for. */
        if (PtlEQPoll(&eq, 1, PATIENCE_MS, &other, &which) != PTL_OK || other.sequence != event->sequence)
            snprintf(handler_trouble, sizeof handler_trouble, "another event in the queue, or none");
    }
    pthread_mutex_unlock(&mine);
}

/* Calls of the library with a lock in hand that the handler wants. */
static int over;

static void *locker(void *argument) {
    int stop = 0;
    while (!stop) {
        ptl_sr_value_t value;
        pthread_mutex_lock(&mine);
        if (PtlNIStatus(ni, PTL_SR_DROP_COUNT, &value) != PTL_OK)
            snprintf(handler_trouble, sizeof handler_trouble, "PtlNIStatus: %s", PtlErrorMessage());
        stop = over;
        pthread_mutex_unlock(&mine);
        usleep(50);
    }
    return argument;
}

static void handlers(void) {
    pthread_t other;
    uint64_t in = 0, answered = 0, answer = 42;
    ptl_handle_eq_t came, answers = queue(1024);
    PTL(PtlEQAlloc(ni, 1024, handler, &came));
    answer_md = bind(descriptor(&answer, 8, PTL_MD_THRESH_INF, silent, PTL_EQ_NONE), PTL_RETAIN);
    const unsigned quiet = PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE | PTL_MD_EVENT_START_DISABLE;
    const ptl_handle_md_t asked = attach(PORTAL, 3, 0, descriptor(&in, 8, PTL_MD_THRESH_INF, quiet, came), PTL_RETAIN);
    const ptl_handle_md_t back = attach(PORTAL, 4, 0, descriptor(&answered, 8, PTL_MD_THRESH_INF, quiet, answers), PTL_RETAIN);
    meet();
    CHECK(pthread_create(&other, NULL, locker, NULL) == 0);
    uint64_t word = me;
    ptl_handle_md_t md = bind(descriptor(&word, 8, PTL_MD_THRESH_INF, silent, PTL_EQ_NONE), PTL_RETAIN);
    for (unsigned n = 0; n < MANY; n++) {
        PTL(PtlPut(md, PTL_NO_ACK_REQ, ids[to], PORTAL, 0, 3, 0, n));
        ptl_event_t event = NEXT(answers, PUT_END);
        CHECK(event.hdr_data == n && answered == 42);
    }
    meet();
    pthread_mutex_lock(&mine);
    if (handler_trouble[0] != 0) {
        fprintf(stderr, "FAIL: in a handler: %s\n", handler_trouble);
        exit(1);
    }
    CHECK(handled == MANY);
    over = 1;
    pthread_mutex_unlock(&mine);
    CHECK(pthread_join(other, NULL) == 0);
    UNLINK_SILENT(md);
    UNLINK_SILENT(answer_md);
    PTL(PtlMDUnlink(asked));
    PTL(PtlMDUnlink(back));
    PTL(PtlEQFree(came));
    PTL(PtlEQFree(answers));
    meet();
}

/* A handler sees every event, in order, also those that a queue too short for them has lost; and who reads the queue is told. */
static unsigned counted, out_of_order;

static void counting(ptl_event_t *event) {
    pthread_mutex_lock(&mine);
    out_of_order += event->sequence != counted || event->hdr_data != counted / 2;
    counted++;
    pthread_mutex_unlock(&mine);
}

static void overflow_with_a_handler(void) {
    uint64_t in = 0;
    ptl_handle_eq_t came;
    ptl_event_t event;
    unsigned seen = 0;
    PTL(PtlEQAlloc(ni, 1, counting, &came));
    const ptl_handle_md_t md = attach(PORTAL, 7, 0, descriptor(&in, 8, PTL_MD_THRESH_INF, PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE, came), PTL_RETAIN);
    meet();
    uint64_t word = me;
    ptl_handle_eq_t acks = queue(8);
    const ptl_handle_md_t out = bind(descriptor(&word, 8, PTL_MD_THRESH_INF, PTL_MD_EVENT_START_DISABLE, acks), PTL_RETAIN);
    for (unsigned n = 0; n < MANY; n++) {
        PTL(PtlPut(out, PTL_ACK_REQ, ids[to], PORTAL, 0, 7, 0, n));
        NEXT(acks, SEND_END);
        NEXT(acks, ACK);
    }
    meet();
    for (unsigned n = 0; n < PATIENCE_MS && seen < 2 * MANY; n++) {
        pthread_mutex_lock(&mine);
        seen = counted;
        pthread_mutex_unlock(&mine);
        if (seen < 2 * MANY)
            usleep(1000);
    }
    CHECK(seen == 2 * MANY && out_of_order == 0);
    GIVES(PTL_EQ_DROPPED, PtlEQGet(came, &event));
    CHECK(event.type == PTL_EVENT_PUT_START && event.sequence == 2 * MANY - 2 && event.hdr_data == MANY - 1);
    NEXT(came, PUT_END);
    NOTHING(came);
    PTL(PtlMDUnlink(out));
    PTL(PtlMDUnlink(md));
    PTL(PtlEQFree(came));
    PTL(PtlEQFree(acks));
    meet();
}

/* Several threads: each event goes to one of those that wait. */
static ptl_handle_eq_t shared_queue;
static unsigned taken_by[4];

static void *taker(void *argument) {
    ptl_event_t event;
    for (;;) {
        const int rc = PtlEQWait(shared_queue, &event);
        if (rc != PTL_OK || event.type != PTL_EVENT_PUT_END)
            return (void *)"a waiting thread got something else";
        if (event.hdr_data == 999999)
            return NULL;
        ++*(unsigned *)argument;
    }
}

static void threads(void) {
    uint64_t in = 0;
    pthread_t each[4];
    memset(taken_by, 0, sizeof taken_by);
    shared_queue = queue(1024);
    const ptl_handle_md_t md = attach(
        PORTAL, 5, 0, descriptor(&in, 8, PTL_MD_THRESH_INF, PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE | PTL_MD_EVENT_START_DISABLE, shared_queue),
        PTL_RETAIN);
    for (int n = 0; n < 4; n++)
        CHECK(pthread_create(&each[n], NULL, taker, &taken_by[n]) == 0);
    meet();
    send_words(PORTAL, 5, 0, MANY);
    uint64_t word = 0;
    ptl_handle_md_t out = bind(descriptor(&word, 8, PTL_MD_THRESH_INF, silent, PTL_EQ_NONE), PTL_RETAIN);
    for (int n = 0; n < 4; n++)
        PTL(PtlPut(out, PTL_NO_ACK_REQ, ids[to], PORTAL, 0, 5, 0, 999999));
    unsigned sum = 0;
    for (int n = 0; n < 4; n++) {
        void *trouble;
        CHECK(pthread_join(each[n], &trouble) == 0);
        if (trouble != NULL) {
            fprintf(stderr, "FAIL: %s\n", (char *)trouble);
            exit(1);
        }
        sum += taken_by[n];
    }
    CHECK(sum == MANY);
    NOTHING(shared_queue);
    UNLINK_SILENT(out);
    PTL(PtlMDUnlink(md));
    PTL(PtlEQFree(shared_queue));
    meet();
}

/* Section 3.12: each field of an entry denies. */
static void access_control(void) {
    uint64_t in = 0;
    ptl_handle_eq_t came = queue(64);
    ptl_uid_t uid;
    ptl_jid_t jid;
    PTL(PtlGetUid(ni, &uid));
    PTL(PtlGetJid(ni, &jid));
    const ptl_handle_md_t md = attach(
        PORTAL, 6, 0, descriptor(&in, 8, PTL_MD_THRESH_INF, PTL_MD_OP_PUT | PTL_MD_MANAGE_REMOTE | PTL_MD_EVENT_START_DISABLE, came),
        PTL_RETAIN);
    ptl_process_id_t of_host = {ids[from].nid, PTL_PID_ANY}, of_number = {PTL_NID_ANY, ids[from].pid};
    PTL(PtlACEntry(ni, 1, ids[from], uid, jid, PORTAL));
    PTL(PtlACEntry(ni, 2, anybody, uid + 1, PTL_JID_ANY, PTL_PT_INDEX_ANY));
    PTL(PtlACEntry(ni, 3, anybody, uid, jid + 1, PTL_PT_INDEX_ANY));
    PTL(PtlACEntry(ni, 4, anybody, uid, jid, PORTAL + 1));
    PTL(PtlACEntry(ni, 5, ids[me], uid, jid, PORTAL));
    PTL(PtlACEntry(ni, 6, of_host, PTL_UID_ANY, PTL_JID_ANY, PTL_PT_INDEX_ANY));
    PTL(PtlACEntry(ni, 7, of_number, PTL_UID_ANY, PTL_JID_ANY, PTL_PT_INDEX_ANY));
    const ptl_sr_value_t pid = status(PTL_SR_DROP_AC_PID), nid = status(PTL_SR_DROP_AC_NID);
    const ptl_sr_value_t users = status(PTL_SR_DROP_AC_UID), jobs = status(PTL_SR_DROP_AC_JID);
    const ptl_sr_value_t portals = status(PTL_SR_DROP_AC_PT), index = status(PTL_SR_DROP_AC_INDEX);
    const ptl_sr_value_t no_portal = status(PTL_SR_DROP_PT_INDEX), all = status(PTL_SR_DROP_COUNT);
    meet();
    const ptl_ac_index_t admitted[] = {0, 1, 6, 7};
    for (int n = 0; n < 4; n++)
        send_words(PORTAL, 6, admitted[n], 1);
    for (int n = 0; n < 4; n++)
        NEXT(came, PUT_END);
    send_words(PORTAL, 6, 2, 1);
    send_words(PORTAL, 6, 3, 2);
    send_words(PORTAL, 6, 4, 3);
    send_words(PORTAL, 6, 200, 4);
    send_words(200, 6, 0, 5);
    until_status(PTL_SR_DROP_AC_UID, users + 1);
    until_status(PTL_SR_DROP_AC_JID, jobs + 2);
    until_status(PTL_SR_DROP_AC_PT, portals + 3);
    until_status(PTL_SR_DROP_AC_INDEX, index + 4);
    until_status(PTL_SR_DROP_PT_INDEX, no_portal + 5);
    CHECK(status(PTL_SR_DROP_COUNT) == all + 15);
    meet();
    send_words(PORTAL, 6, 5, 1);
    if (size == 1) {
        NEXT(came, PUT_END);
    } else {
        until_status(PTL_SR_DROP_COUNT, all + 16);
        CHECK(status(PTL_SR_DROP_AC_PID) - pid + status(PTL_SR_DROP_AC_NID) - nid == 1);
    }
    NOTHING(came);
    meet();
    PTL(PtlMDUnlink(md));
    PTL(PtlEQFree(came));
    meet();
}

/* A receive as MPI posts it: an entry before the one for unexpected messages, a descriptor with threshold 0, and an update
   that is refused while unexpected messages wait. */
static void posting(int in_one_call) {
    enum { UNEXPECTED = 4096 };
    static char block[UNEXPECTED];
    uint64_t in = 0;
    ptl_handle_eq_t expected = queue(64), unexpected = queue(64);
    ptl_handle_me_t last, entry;
    ptl_handle_md_t md_handle;
    ptl_event_t event;
    unsigned refused = 0;
    PTL(PtlMEAttach(ni, PORTAL + 1, anybody, 0, UINT64_MAX, PTL_RETAIN, PTL_INS_AFTER, &last));
    PTL(PtlMDAttach(last, descriptor(block, UNEXPECTED, PTL_MD_THRESH_INF, PTL_MD_OP_PUT | PTL_MD_EVENT_START_DISABLE, unexpected),
                    PTL_RETAIN, NULL));
    uint64_t mark;
    ptl_handle_eq_t marked = queue(8);
    const ptl_handle_md_t marker = attach(PORTAL + 4, 0, 0, descriptor(&mark, 8, 1, PTL_MD_OP_PUT, marked), PTL_UNLINK);
    meet();
    /* One message is there before the receive is posted: what was sent after it has come. */
    send_words(PORTAL + 1, 77, 0, 1);
    send_words(PORTAL + 4, 0, 0, 1);
    CHECK(NEXT(marked, PUT_START).md_handle == marker);
    NEXT(marked, PUT_END);
    PTL(PtlEQFree(marked));
    ptl_md_t md = descriptor(&in, 8, 1, PTL_MD_OP_PUT | PTL_MD_TRUNCATE | PTL_MD_EVENT_START_DISABLE, expected);
    for (;;) {
        int rc;
        if (in_one_call) {
            rc = PtlMEMDPost(ni, last, anybody, 77, 0, PTL_UNLINK, PTL_INS_BEFORE, md, PTL_UNLINK, &entry, &md_handle, unexpected);
        } else {
            md.threshold = 0;
            PTL(PtlMEInsert(last, anybody, 77, 0, PTL_UNLINK, PTL_INS_BEFORE, &entry));
            PTL(PtlMDAttach(entry, md, PTL_UNLINK, &md_handle));
            md.threshold = 1;
            rc = PtlMDUpdate(md_handle, NULL, &md, unexpected);
            if (rc == PTL_MD_NO_UPDATE)
                PTL(PtlMEUnlink(entry));
        }
        if (rc == PTL_OK)
            break;
        CHECK(rc == PTL_MD_NO_UPDATE);
        refused++;
        /* The message that was in the way is drained; it would be the receive's in MPI. */
        event = NEXT(unexpected, PUT_END);
        CHECK(event.match_bits == 77 && event.mlength == 8);
    }
    CHECK(refused == 1);
    meet();
    send_words(PORTAL + 1, 77, 0, 2);
    event = NEXT(expected, PUT_END);
    CHECK(event.hdr_data == 0 && event.md_handle == md_handle && in == from);
    NEXT(expected, UNLINK);
    event = NEXT(unexpected, PUT_END);
    CHECK(event.hdr_data == 1 && event.offset == 8);
    CHECK(PtlMEUnlink(entry) == PTL_ME_INVALID);
    /* An update begins the running offset again. */
    meet();
    NOTHING(unexpected);
    PTL(PtlMEUnlink(last));
    PTL(PtlMEAttach(ni, PORTAL + 1, anybody, 0, UINT64_MAX, PTL_RETAIN, PTL_INS_AFTER, &last));
    md = descriptor(block, 16, PTL_MD_THRESH_INF, PTL_MD_OP_PUT | PTL_MD_EVENT_START_DISABLE, expected);
    PTL(PtlMDAttach(last, md, PTL_RETAIN, &md_handle));
    meet();
    send_words(PORTAL + 1, 1, 0, 2);
    event = NEXT(expected, PUT_END);
    CHECK(event.offset == 0);
    event = NEXT(expected, PUT_END);
    CHECK(event.offset == 8);
    PTL(PtlMDUpdate(md_handle, NULL, &md, expected));
    meet();
    send_words(PORTAL + 1, 1, 0, 1);
    event = NEXT(expected, PUT_END);
    CHECK(event.offset == 0);
    meet();
    PTL(PtlMEUnlink(last));
    PTL(PtlEQFree(expected));
    PTL(PtlEQFree(unexpected));
    meet();
}

/* A last entry that takes nothing of everything: what would be dropped is logged with its length. */
static void logging_drops(void) {
    ptl_handle_eq_t log = queue(64);
    ptl_handle_me_t last;
    static unsigned char out[5000];
    PTL(PtlMEAttach(ni, PORTAL + 2, anybody, 0, UINT64_MAX, PTL_RETAIN, PTL_INS_AFTER, &last));
    PTL(PtlMDAttach(last, descriptor(NULL, 0, PTL_MD_THRESH_INF, PTL_MD_OP_PUT | PTL_MD_TRUNCATE, log), PTL_RETAIN, NULL));
    const ptl_sr_value_t drops = status(PTL_SR_DROP_COUNT);
    meet();
    ptl_handle_eq_t sent = queue(8);
    ptl_handle_md_t md = bind(descriptor(out, sizeof out, 2, PTL_MD_EVENT_START_DISABLE, sent), PTL_UNLINK);
    PTL(PtlPut(md, PTL_ACK_REQ, ids[to], PORTAL + 2, 0, 0xabcdef, 0, 31));
    NEXT(sent, SEND_END);
    ptl_event_t event = NEXT(sent, ACK);
    CHECK(event.mlength == 0 && event.rlength == sizeof out);
    NEXT(sent, UNLINK);
    NEXT(log, PUT_START);
    event = NEXT(log, PUT_END);
    CHECK(event.match_bits == 0xabcdef && event.rlength == sizeof out && event.mlength == 0 && event.hdr_data == 31);
    CHECK(status(PTL_SR_DROP_COUNT) == drops);
    meet();
    PTL(PtlMEUnlink(last));
    PTL(PtlEQFree(log));
    PTL(PtlEQFree(sent));
    meet();
}

/* Blocks for unexpected short messages: each fills with messages in a row and retires itself when the next one might not fit. */
static void filling_blocks(void) {
    enum { BLOCK = 1000, MOST_BYTES = 100, BLOCKS = 3 };
    static unsigned char blocks[BLOCKS][BLOCK], out[MOST_BYTES];
    ptl_handle_eq_t came = queue(256), sent = queue(8);
    for (int n = 0; n < BLOCKS; n++) {
        ptl_md_t md = descriptor(blocks[n], BLOCK, PTL_MD_THRESH_INF, PTL_MD_OP_PUT | PTL_MD_MAX_SIZE | PTL_MD_EVENT_START_DISABLE, came);
        md.max_size = MOST_BYTES;
        attach(PORTAL + 3, 0, UINT64_MAX, md, PTL_UNLINK);
    }
    meet();
    memset(out, (int)me + 1, sizeof out);
    const ptl_handle_md_t md =
        bind(descriptor(out, MOST_BYTES, PTL_MD_THRESH_INF, PTL_MD_EVENT_START_DISABLE, sent), PTL_RETAIN);
    int block = 0, offset = 0;
    for (int n = 0; n < 25; n++) {
        const ptl_size_t bytes = n % 3 == 0 ? 100 : n % 3 == 1 ? 70 : 30;
        PTL(PtlPutRegion(md, 0, bytes, PTL_NO_ACK_REQ, ids[to], PORTAL + 3, 0, (ptl_match_bits_t)n, 0, (ptl_hdr_data_t)n));
        NEXT(sent, SEND_END);
        ptl_event_t event = NEXT(came, PUT_END);
        CHECK(event.hdr_data == (ptl_hdr_data_t)n && event.mlength == bytes);
        CHECK(event.md.start == blocks[block] && event.offset == (ptl_size_t)offset);
        CHECK(blocks[block][offset] == (unsigned char)(from + 1));
        offset += (int)bytes;
        if (BLOCK - offset < MOST_BYTES) {
            NEXT(came, UNLINK);
            block++, offset = 0;
        }
    }
    CHECK(block >= 1 && block < BLOCKS);
    meet();
    PTL(PtlMDUnlink(md));
    PTL(PtlEQFree(came));
    PTL(PtlEQFree(sent));
}

int main(void) {
    begin();
    to = (me + 1) % size, from = (me + size - 1) % size;
    overflow(1, 2);
    overflow(2, 2);
    overflow(7, 8);
    overflow(64, 64);
    polling();
    handlers();
    overflow_with_a_handler();
    threads();
    access_control();
    posting(0);
    posting(1);
    logging_drops();
    filling_blocks();
    end();
    return 0;
}
