/* Streams puts of Portals between pairs of processes on different hosts and looks at every byte; for tests that break the network
 * in the middle. Not run by itself: tests/net/faults.py runs it on emulated hosts.
 *
 *   portals_stream SECONDS      an operation that fails is told, and ends the process with code 3
 *
 * Process i talks to process i + size / 2. Process 0 says "moving" when all is under way, and at the end what stream.c says. */
#include <farpost/portals3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SIZES = 4, PUTS = 4, MOST = 1 << 18, DATA = 0, ANSWERS = 1, RESULTS = 2, SILENCE_MS = 200 };
static const unsigned words_of[SIZES] = {4, 1024, 64 << 10, MOST};

static ptl_handle_ni_t ni;
static unsigned rank, size;
static double began;
static unsigned out[2][MOST], in[2][MOST];

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static void check(int code, const char *what) {
    if (code == PTL_OK)
        return;
    printf("process %u: %s: %s: %s\n", rank, what, PtlErrorStr(code), PtlErrorMessage());
    fflush(stdout);
    _exit(1);
}

static void good(const ptl_event_t *event) {
    if (event->ni_fail_type == PTL_NI_OK)
        return;
    printf("process %u: %s failed after %.3f s: %s\n", rank, PtlEventKindStr((int)event->type), now() - began,
           PtlNIFailStr(ni, event->ni_fail_type));
    fflush(stdout);
    _exit(3);
}

/* What word i of exchange `number` of a process holds. */
static unsigned word(unsigned who, unsigned number, unsigned i) { return (who * 2654435761u) ^ (number * 40503u) ^ (i * 97u); }

static ptl_md_t descriptor(void *start, size_t length, unsigned options, ptl_handle_eq_t eq) {
    ptl_md_t md;
    memset(&md, 0, sizeof md);
    md.start = start;
    md.length = length;
    md.threshold = PTL_MD_THRESH_INF;
    md.options = options | PTL_MD_EVENT_START_DISABLE;
    md.eq_handle = eq;
    return md;
}

static void expose(void *start, size_t length, unsigned portal, unsigned bits, unsigned options, ptl_handle_eq_t eq) {
    const ptl_process_id_t anybody = {PTL_NID_ANY, PTL_PID_ANY};
    ptl_handle_me_t entry;
    check(PtlMEAttach(ni, portal, anybody, bits, 0, PTL_RETAIN, PTL_INS_AFTER, &entry), "PtlMEAttach");
    check(PtlMDAttach(entry, descriptor(start, length, options | PTL_MD_MANAGE_REMOTE, eq), PTL_RETAIN, NULL), "PtlMDAttach");
}

static ptl_handle_md_t bind(void *start, size_t length, ptl_handle_eq_t eq) {
    ptl_handle_md_t md;
    check(PtlMDBind(ni, descriptor(start, length, 0, eq), PTL_RETAIN, &md), "PtlMDBind");
    return md;
}

int main(int argc, char **argv) {
    const double seconds = argc > 1 ? atof(argv[1]) : 1;
    int interfaces, which;
    ptl_event_t event;
    ptl_process_id_t partner, first;
    ptl_handle_eq_t eq;
    check(PtlInit(&interfaces), "PtlInit");
    check(PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &ni), "PtlNIInit");
    check(PtlGetRank(ni, &rank, &size), "PtlGetRank");
    const unsigned other = (rank + size / 2) % size;
    check(PtlGetRankId(ni, other, &partner), "PtlGetRankId");
    check(PtlGetRankId(ni, 0, &first), "PtlGetRankId");
    check(PtlEQAlloc(ni, 256, PTL_EQ_HANDLER_NONE, &eq), "PtlEQAlloc");
    static double results[256][2], mine[2];
    char there, asked;
    for (unsigned n = 0; n < 2; n++)
        expose(in[n], sizeof in[n], DATA, n, PTL_MD_OP_PUT, eq);
    expose(&there, 0, ANSWERS, 0, PTL_MD_OP_GET | PTL_MD_EVENT_END_DISABLE, PTL_EQ_NONE);
    expose(results, sizeof results, RESULTS, 0, PTL_MD_OP_PUT, eq);
    const ptl_handle_md_t mds[2] = {bind(out[0], sizeof out[0], eq), bind(out[1], sizeof out[1], eq)};
    const ptl_handle_md_t question = bind(&asked, 0, eq), result = bind(mine, sizeof mine, eq);
    began = now();
    check(PtlJobFence(ni), "PtlJobFence");
    double longest = 0, bytes = 0;
    const double start = now();
    unsigned wrong = 0, number = 0, last = 0, came[2] = {0, 0}, asking = 0;
    for (; !last; number++) {
        const unsigned words = words_of[number % SIZES], part = words / PUTS * sizeof(unsigned), at = number % 2;
        for (unsigned i = 0; i < words; i++)
            out[at][i] = word(rank, number, i);
        if (rank < other)
            last = now() - start > seconds;
        out[at][0] = number;
        out[at][1] = last;
        began = now();
        for (unsigned n = 0; n < PUTS; n++)
            check(PtlPutRegion(mds[at], n * part, part, PTL_ACK_REQ, partner, DATA, 0, at, n * part, number), "PtlPutRegion");
        /* Two ends of each of our puts, and the other's puts, of which the next exchange's may come early. */
        for (unsigned ended = 0; ended < 2 * PUTS || came[at] < PUTS;) {
            const int code = PtlEQPoll(&eq, 1, SILENCE_MS, &event, &which);
            if (code == PTL_EQ_EMPTY) {
                /* Nobody tells of a process that merely sends nothing: ask it. */
                if (!asking)
                    check(PtlGet(question, partner, ANSWERS, 0, 0, 0), "PtlGet");
                asking = 1;
                continue;
            }
            check(code, "PtlEQPoll");
            good(&event);
            if (event.type == PTL_EVENT_PUT_END)
                came[event.hdr_data % 2]++;
            else if (event.type == PTL_EVENT_REPLY_END)
                asking = 0;
            else
                ended++;
        }
        came[at] = 0;
        if (now() - began > longest)
            longest = now() - began;
        bytes += (double)words * sizeof(unsigned);
        wrong += in[at][0] != number;
        for (unsigned i = 2; i < words; i++)
            wrong += in[at][i] != word(other, number, i);
        if (rank > other)
            last = in[at][1];
        if (number == 2 * SIZES && rank == 0) {
            printf("moving\n");
            fflush(stdout);
        }
    }
    check(PtlJobFence(ni), "PtlJobFence");
    mine[0] = longest, mine[1] = wrong;
    check(PtlPut(result, PTL_NO_ACK_REQ, first, RESULTS, 0, 0, rank * sizeof mine, 0), "PtlPut");
    for (unsigned ends = rank == 0 ? size + 1 : 1; ends > 0;) {
        check(PtlEQWait(eq, &event), "PtlEQWait");
        good(&event);
        ends -= event.type != PTL_EVENT_REPLY_END;
    }
    for (unsigned n = 1; n < size && rank == 0; n++) {
        longest = results[n][0] > longest ? results[n][0] : longest;
        wrong += (unsigned)results[n][1];
    }
    if (rank == 0)
        printf("moved %.0f MB, longest exchange %.3f s, %u wrong\n", bytes * size / 1e6, longest, wrong);
    fflush(stdout);
    check(PtlJobFence(ni), "PtlJobFence");
    check(PtlNIFini(ni), "PtlNIFini");
    PtlFini();
    return wrong != 0;
}
