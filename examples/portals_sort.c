// interface: portals3
// ranks: 1 2 3 8
// settings: FARPOST_PORTALS=generic | FARPOST_PORTALS=accelerated
/* A sample sort without MPI. Every process draws numbers and sorts them; samples, put into everybody's table, cut the numbers into
 * as many ranges as there are processes; who owns a range gets its parts from all others.
 *
 *   mpicc portals_sort.c -o portals_sort && mpiexec -n 4 ./portals_sort
 */
#include <farpost/portals3.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { PORTAL = 0, NUMBERS = 20000, SAMPLES = 64 };

/* What match entries tell apart. */
enum { TABLE_OF_SAMPLES = 1, TABLE_OF_PARTS, SORTED, RESULTS };

static unsigned rank, size;
static ptl_process_id_t *ids;
static ptl_handle_ni_t ni;

static void check(int code, const char *what) {
    if (code == PTL_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, PtlErrorStr(code), PtlErrorMessage());
    exit(1);
}

static uint64_t *words(size_t count) {
    uint64_t *memory = calloc(count > 0 ? count : 1, sizeof *memory);
    if (memory == NULL) {
        fprintf(stderr, "there is no memory for %zu numbers\n", count);
        exit(1);
    }
    return memory;
}

static ptl_md_t describe(uint64_t *start, size_t count, unsigned options, ptl_handle_eq_t eq) {
    const ptl_md_t md = {start,   count * sizeof *start, PTL_MD_THRESH_INF, 0, options | PTL_MD_MANAGE_REMOTE | PTL_MD_EVENT_START_DISABLE,
                         NULL, eq};
    return md;
}

static ptl_handle_eq_t queue(void) {
    ptl_handle_eq_t eq;
    check(PtlEQAlloc(ni, 4 * (ptl_size_t)size, PTL_EQ_HANDLER_NONE, &eq), "PtlEQAlloc");
    return eq;
}

/* Lets others put into or get from memory, and counts in a queue of its own. */
static ptl_handle_eq_t expose(ptl_match_bits_t bits, uint64_t *start, size_t count, unsigned options) {
    const ptl_process_id_t anybody = {PTL_NID_ANY, PTL_PID_ANY};
    const ptl_handle_eq_t eq = queue();
    ptl_handle_me_t entry;
    check(PtlMEAttach(ni, PORTAL, anybody, bits, 0, PTL_RETAIN, PTL_INS_AFTER, &entry), "PtlMEAttach");
    check(PtlMDAttach(entry, describe(start, count, options, eq), PTL_RETAIN, NULL), "PtlMDAttach");
    return eq;
}

static ptl_handle_md_t bind(uint64_t *start, size_t count, ptl_handle_eq_t eq) {
    ptl_handle_md_t md;
    check(PtlMDBind(ni, describe(start, count, 0, eq), PTL_RETAIN, &md), "PtlMDBind");
    return md;
}

/* Until so many events of a kind have come. */
static void await(ptl_handle_eq_t eq, ptl_event_kind_t kind, unsigned count) {
    ptl_event_t event;
    while (count-- > 0) {
        check(PtlEQWait(eq, &event), "PtlEQWait");
        if (event.type != kind || event.ni_fail_type != PTL_NI_OK) {
            fprintf(stderr, "process %u: %s, %s\n", rank, PtlEventKindStr((int)event.type), PtlNIFailStr(ni, event.ni_fail_type));
            exit(1);
        }
    }
}

/* Puts width words into the tables of all, at this process's place: the same for all, or for each its own. */
static void tell_all(ptl_match_bits_t bits, uint64_t *values, size_t width, int each_its_own) {
    const ptl_handle_eq_t sent = queue();
    const ptl_handle_md_t md = bind(values, width * (each_its_own ? size : 1), sent);
    for (unsigned to = 0; to < size; to++)
        check(PtlPutRegion(md, each_its_own ? to * width * 8 : 0, width * 8, PTL_NO_ACK_REQ, ids[to], PORTAL, 0, bits,
                           rank * width * 8, 0),
              "PtlPutRegion");
    await(sent, PTL_EVENT_SEND_END, size);
}

/* Numbers of a process, different in every one. */
static void draw(unsigned of, uint64_t *numbers) {
    uint64_t state = UINT64_C(0x2545f4914f6cdd1d) ^ (of + 1);
    for (unsigned n = 0; n < NUMBERS; n++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        numbers[n] = state;
    }
}

static int ascending(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* How many numbers are below a limit. */
static uint64_t below(const uint64_t *numbers, uint64_t limit) {
    uint64_t low = 0, high = NUMBERS;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (numbers[middle] < limit)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int main(void) {
    int interfaces;
    check(PtlInit(&interfaces), "PtlInit");
    check(PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &ni), "PtlNIInit");
    check(PtlGetRank(ni, &rank, &size), "PtlGetRank");
    ids = calloc(size, sizeof *ids);
    for (unsigned n = 0; n < size; n++)
        check(PtlGetRankId(ni, n, &ids[n]), "PtlGetRankId");

    uint64_t *numbers = words(NUMBERS), *samples = words(SAMPLES * (size_t)size), *parts = words(2 * (size_t)size);
    uint64_t *ranges = words(2 * (size_t)size), *results = words(4 * (size_t)size), own[SAMPLES];
    draw(rank, numbers);
    qsort(numbers, NUMBERS, sizeof *numbers, ascending);
    const ptl_handle_eq_t sampled = expose(TABLE_OF_SAMPLES, samples, SAMPLES * (size_t)size, PTL_MD_OP_PUT);
    const ptl_handle_eq_t cut = expose(TABLE_OF_PARTS, parts, 2 * (size_t)size, PTL_MD_OP_PUT);
    const ptl_handle_eq_t fetched = expose(SORTED, numbers, NUMBERS, PTL_MD_OP_GET);
    const ptl_handle_eq_t ended = expose(RESULTS, results, 4 * (size_t)size, PTL_MD_OP_PUT);
    check(PtlJobFence(ni), "PtlJobFence");

    for (unsigned n = 0; n < SAMPLES; n++)
        own[n] = numbers[n * NUMBERS / SAMPLES];
    tell_all(TABLE_OF_SAMPLES, own, SAMPLES, 0);
    await(sampled, PTL_EVENT_PUT_END, size);
    qsort(samples, SAMPLES * (size_t)size, sizeof *samples, ascending);

    /* Where each one's range begins and how long it is here. */
    for (unsigned of = 0; of < size; of++) {
        const uint64_t begin = of == 0 ? 0 : below(numbers, samples[of * SAMPLES]);
        const uint64_t end = of + 1 == size ? NUMBERS : below(numbers, samples[(of + 1) * SAMPLES]);
        ranges[2 * of] = begin, ranges[2 * of + 1] = end - begin;
    }
    tell_all(TABLE_OF_PARTS, ranges, 2, 1);
    await(cut, PTL_EVENT_PUT_END, size);

    size_t count = 0;
    for (unsigned from = 0; from < size; from++)
        count += parts[2 * from + 1];
    uint64_t *range = words(count);
    const ptl_handle_eq_t came = queue();
    const ptl_handle_md_t md = bind(range, count, came);
    ptl_size_t at = 0;
    for (unsigned from = 0; from < size; from++) {
        const ptl_size_t bytes = 8 * parts[2 * from + 1];
        check(PtlGetRegion(md, at, bytes, ids[from], PORTAL, 0, SORTED, 8 * parts[2 * from]), "PtlGetRegion");
        at += bytes;
    }
    await(came, PTL_EVENT_REPLY_END, size);
    await(fetched, PTL_EVENT_GET_END, size);
    qsort(range, count, sizeof *range, ascending);

    /* Process 0 looks whether all is there and in order. */
    uint64_t result[4] = {count, 0, count > 0 ? range[0] : 0, count > 0 ? range[count - 1] : 0};
    for (size_t n = 0; n < count; n++)
        result[1] ^= range[n];
    const ptl_handle_eq_t sent = queue();
    check(PtlPut(bind(result, 4, sent), PTL_NO_ACK_REQ, ids[0], PORTAL, 0, RESULTS, 32 * (ptl_size_t)rank, 0), "PtlPut");
    await(sent, PTL_EVENT_SEND_END, 1);
    printf("process %u has %zu numbers\n", rank, count);
    int right = 1;
    if (rank == 0) {
        uint64_t all = 0, sum = 0, mixed = 0, last = 0;
        await(ended, PTL_EVENT_PUT_END, size);
        for (unsigned of = 0; of < size; of++) {
            const uint64_t *of_it = results + 4 * (size_t)of;
            sum += of_it[0], mixed ^= of_it[1];
            if (of_it[0] > 0) {
                right &= of_it[2] >= last;
                last = of_it[3];
            }
            draw(of, numbers);
            for (unsigned n = 0; n < NUMBERS; n++)
                all ^= numbers[n];
        }
        right &= sum == (uint64_t)size * NUMBERS && all == mixed;
        if (right)
            printf("%" PRIu64 " numbers are sorted\n", sum);
        else
            fprintf(stderr, "the numbers are not sorted\n");
    }
    check(PtlJobFence(ni), "PtlJobFence");
    check(PtlNIFini(ni), "PtlNIFini");
    PtlFini();
    free(numbers), free(samples), free(parts), free(ranges), free(results), free(range), free(ids);
    return right ? 0 : 1;
}
