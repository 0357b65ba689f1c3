// interface: portals3
// ranks: 1 2 4
// settings: FARPOST_PORTALS=generic | FARPOST_PORTALS=accelerated
/* A key-value store without servers: every process keeps a part of the buckets, and others read and change them by get, put and
 * get-put alone. Whoever swaps 0 for the 1 in a bucket's lock may change the bucket.
 *
 *   mpicc portals_store.c -o portals_store && mpiexec -n 4 ./portals_store
 */
#include <farpost/portals3.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { PORTAL = 1, BUCKETS = 64, ENTRIES = 15, KEYS = 50 };

struct bucket {
    uint64_t lock; /* 1: free */
    uint64_t used;
    struct {
        uint64_t key, value;
    } entry[ENTRIES];
};

static struct bucket mine[BUCKETS], copy;
static uint64_t word, old;
static unsigned rank, size;
static ptl_process_id_t *ids;
static ptl_handle_ni_t ni;
static ptl_handle_eq_t eq;
static ptl_handle_md_t copy_md, word_md, old_md;

static void check(int code, const char *what) {
    if (code == PTL_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, PtlErrorStr(code), PtlErrorMessage());
    exit(1);
}

/* Until an operation of ours has ended. */
static void await(ptl_event_kind_t kind) {
    ptl_event_t event;
    do
        check(PtlEQWait(eq, &event), "PtlEQWait");
    while (event.type != kind);
}

struct place {
    ptl_process_id_t owner;
    ptl_size_t offset;
};

static struct place place_of(uint64_t key) {
    const uint64_t hash = (key * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
    const struct place place = {ids[hash % size], hash / size % BUCKETS * sizeof(struct bucket)};
    return place;
}

static void swap(struct place at, uint64_t value) {
    word = value;
    check(PtlGetPut(old_md, word_md, at.owner, PORTAL, 0, 0, at.offset, 0), "PtlGetPut");
    await(PTL_EVENT_REPLY_END);
}

static void fetch(struct place at) {
    check(PtlGet(copy_md, at.owner, PORTAL, 0, 0, at.offset), "PtlGet");
    await(PTL_EVENT_REPLY_END);
}

static void set(uint64_t key, uint64_t value) {
    const struct place at = place_of(key);
    do
        swap(at, 0);
    while (old != 1);
    fetch(at);
    unsigned n = 0;
    while (n < copy.used && copy.entry[n].key != key)
        n++;
    if (n == ENTRIES) {
        fprintf(stderr, "a bucket is full\n");
        exit(1);
    }
    if (n == copy.used)
        copy.used++;
    copy.entry[n].key = key;
    copy.entry[n].value = value;
    /* Everything behind the lock; it is there when the acknowledgement has come. */
    const ptl_size_t from = sizeof copy.lock;
    check(PtlPutRegion(copy_md, from, sizeof copy - from, PTL_ACK_REQ, at.owner, PORTAL, 0, 0, at.offset + from, 0),
          "PtlPutRegion");
    await(PTL_EVENT_ACK);
    swap(at, 1);
}

static int lookup(uint64_t key, uint64_t *value) {
    fetch(place_of(key));
    for (unsigned n = 0; n < copy.used && n < ENTRIES; n++)
        if (copy.entry[n].key == key) {
            *value = copy.entry[n].value;
            return 1;
        }
    return 0;
}

static ptl_md_t describe(void *start, ptl_size_t length, unsigned options, ptl_handle_eq_t queue) {
    const ptl_md_t md = {start, length, PTL_MD_THRESH_INF, 0, options | PTL_MD_EVENT_START_DISABLE, NULL, queue};
    return md;
}

int main(void) {
    int interfaces;
    ptl_handle_me_t entry;
    const ptl_process_id_t anybody = {PTL_NID_ANY, PTL_PID_ANY};
    check(PtlInit(&interfaces), "PtlInit");
    check(PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &ni), "PtlNIInit");
    check(PtlGetRank(ni, &rank, &size), "PtlGetRank");
    ids = calloc(size, sizeof *ids);
    for (unsigned n = 0; n < size; n++)
        check(PtlGetRankId(ni, n, &ids[n]), "PtlGetRankId");

    for (unsigned n = 0; n < BUCKETS; n++)
        mine[n].lock = 1;
    const unsigned open = PTL_MD_OP_PUT | PTL_MD_OP_GET | PTL_MD_MANAGE_REMOTE;
    check(PtlMEAttach(ni, PORTAL, anybody, 0, 0, PTL_RETAIN, PTL_INS_AFTER, &entry), "PtlMEAttach");
    check(PtlMDAttach(entry, describe(mine, sizeof mine, open, PTL_EQ_NONE), PTL_RETAIN, NULL), "PtlMDAttach");
    check(PtlEQAlloc(ni, 64, PTL_EQ_HANDLER_NONE, &eq), "PtlEQAlloc");
    check(PtlMDBind(ni, describe(&copy, sizeof copy, 0, eq), PTL_RETAIN, &copy_md), "PtlMDBind");
    check(PtlMDBind(ni, describe(&word, sizeof word, 0, PTL_EQ_NONE), PTL_RETAIN, &word_md), "PtlMDBind");
    check(PtlMDBind(ni, describe(&old, sizeof old, 0, eq), PTL_RETAIN, &old_md), "PtlMDBind");
    check(PtlJobFence(ni), "PtlJobFence");

    /* Everybody writes its own keys, and one that all write. */
    for (unsigned n = 0; n < KEYS; n++) {
        set(1000000 * (rank + 1) + n, 7 * n + rank);
        set(42, rank);
    }
    check(PtlJobFence(ni), "PtlJobFence");
    /* Everybody reads all. */
    uint64_t value;
    unsigned found = 0;
    for (unsigned of = 0; of < size; of++)
        for (unsigned n = 0; n < KEYS; n++) {
            if (!lookup(1000000 * (of + 1) + n, &value) || value != 7 * n + of) {
                fprintf(stderr, "process %u: key %u of process %u is wrong\n", rank, n, of);
                return 1;
            }
            found++;
        }
    if (!lookup(42, &value) || value >= size || lookup(43, &value)) {
        fprintf(stderr, "process %u: a key that all wrote, or nobody, is wrong\n", rank);
        return 1;
    }
    printf("process %u found %u keys\n", rank, found);
    check(PtlJobFence(ni), "PtlJobFence");
    check(PtlNIFini(ni), "PtlNIFini");
    PtlFini();
    free(ids);
    return 0;
}
