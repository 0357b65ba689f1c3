/* What the programs about Portals share: opening and closing, and events that must come in time. */
#ifndef PORTALS_H
#define PORTALS_H

#include "check.h"
#include <farpost/portals3.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 64, PATIENCE_MS = 30000 };

#define PTL(call)                                                                                                       \
    do {                                                                                                                \
        const int rc_ = (call);                                                                                         \
        if (rc_ != PTL_OK) {                                                                                            \
            fprintf(stderr, "FAIL %s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call, PtlErrorStr(rc_), PtlErrorMessage()); \
            exit(1);                                                                                                    \
        }                                                                                                               \
    } while (0)

/* Unlinks a descriptor whose operations log no end, and so may be in progress for a moment longer. */
#define UNLINK_SILENT(md)                                                                                               \
    do {                                                                                                                \
        int in_use_ = PtlMDUnlink(md);                                                                                  \
        for (int n_ = 0; in_use_ == PTL_MD_IN_USE && n_ < 100000; n_++, in_use_ = PtlMDUnlink(md))                      \
            usleep(100);                                                                                                \
        PTL(in_use_);                                                                                                   \
    } while (0)

/* The code, and a sentence with these words. */
#define REFUSED(code, words, call)                                                                                      \
    do {                                                                                                                \
        const int rc_ = (call);                                                                                         \
        if (rc_ != (code) || strstr(PtlErrorMessage(), words) == NULL) {                                                \
            fprintf(stderr, "FAIL %s:%d: %s: %s, not %s with \"%s\": %s\n", __FILE__, __LINE__, #call, PtlErrorStr(rc_), \
                    PtlErrorStr(code), words, PtlErrorMessage());                                                       \
            exit(1);                                                                                                    \
        }                                                                                                               \
    } while (0)

/* A code of the ordinary kind, which has no sentence. */
#define GIVES(code, call)                                                                                               \
    do {                                                                                                                \
        const int rc_ = (call);                                                                                         \
        if (rc_ != (code)) {                                                                                            \
            fprintf(stderr, "FAIL %s:%d: %s: %s, not %s\n", __FILE__, __LINE__, #call, PtlErrorStr(rc_), PtlErrorStr(code)); \
            exit(1);                                                                                                    \
        }                                                                                                               \
    } while (0)

/* From a descriptor that is inactive, which an agent that keeps the objects is not asked about: nothing happens. */
#define INACTIVE(call)                                                                                                  \
    do {                                                                                                                \
        const char *where_ = getenv("FARPOST_PORTALS");                                                                 \
        if (where_ != NULL && strcmp(where_, "accelerated") == 0)                                                       \
            PTL(call);                                                                                                  \
        else                                                                                                            \
            REFUSED(PTL_MD_INVALID, "active", call);                                                                    \
    } while (0)

static ptl_handle_ni_t ni;
static unsigned me, size;
static ptl_process_id_t ids[MOST];
static const ptl_process_id_t anybody = {PTL_NID_ANY, PTL_PID_ANY};

static inline void begin(void) {
    int interfaces = 0;
    PTL(PtlInit(&interfaces));
    CHECK(interfaces >= 1);
    PTL(PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &ni));
    PTL(PtlGetRank(ni, &me, &size));
    CHECK(me < size && size <= MOST);
    for (unsigned rank = 0; rank < size; rank++)
        PTL(PtlGetRankId(ni, rank, &ids[rank]));
}

static inline void meet(void) { PTL(PtlJobFence(ni)); }

static inline void end(void) {
    meet();
    PTL(PtlNIFini(ni));
    PtlFini();
}

/* The next event of a queue, which is of this kind. */
static inline ptl_event_t next_at(const char *file, int line, ptl_handle_eq_t eq, ptl_event_kind_t kind) {
    ptl_event_t event;
    int which = -1;
    memset(&event, 0, sizeof event);
    const int rc = PtlEQPoll(&eq, 1, PATIENCE_MS, &event, &which);
    if (rc != PTL_OK || which != 0 || event.type != kind) {
        fprintf(stderr, "FAIL %s:%d: process %u: %s with %s, where %s should come: %s\n", file, line, me, PtlErrorStr(rc),
                rc == PTL_EQ_EMPTY ? "nothing" : PtlEventKindStr((int)event.type), PtlEventKindStr((int)kind),
                PtlErrorMessage());
        exit(1);
    }
    if (event.ni_fail_type != PTL_NI_OK) {
        fprintf(stderr, "FAIL %s:%d: %s failed: %s\n", file, line, PtlEventKindStr((int)kind),
                PtlNIFailStr(ni, event.ni_fail_type));
        exit(1);
    }
    return event;
}
#define NEXT(eq, kind) next_at(__FILE__, __LINE__, eq, PTL_EVENT_##kind)

static inline void nothing_at(const char *file, int line, ptl_handle_eq_t eq) {
    ptl_event_t event;
    const int rc = PtlEQGet(eq, &event);
    if (rc != PTL_EQ_EMPTY) {
        fprintf(stderr, "FAIL %s:%d: process %u: %s, %s, where nothing should be\n", file, line, me, PtlErrorStr(rc),
                PtlEventKindStr((int)event.type));
        exit(1);
    }
}
#define NOTHING(eq) nothing_at(__FILE__, __LINE__, eq)

static inline ptl_handle_eq_t queue(ptl_size_t count) {
    ptl_handle_eq_t eq;
    PTL(PtlEQAlloc(ni, count, PTL_EQ_HANDLER_NONE, &eq));
    return eq;
}

static inline ptl_md_t descriptor(void *start, ptl_size_t length, int threshold, unsigned options, ptl_handle_eq_t eq) {
    ptl_md_t md;
    memset(&md, 0, sizeof md);
    md.start = start;
    md.length = length;
    md.threshold = threshold;
    md.options = options;
    md.user_ptr = start;
    md.eq_handle = eq;
    return md;
}

/* A match entry at the tail of a portal's list with a descriptor. */
static inline ptl_handle_md_t attach(ptl_pt_index_t portal, ptl_match_bits_t bits, ptl_match_bits_t ignore, ptl_md_t md,
                                     ptl_unlink_t unlink) {
    ptl_handle_me_t entry;
    ptl_handle_md_t handle;
    PTL(PtlMEAttach(ni, portal, anybody, bits, ignore, unlink, PTL_INS_AFTER, &entry));
    PTL(PtlMDAttach(entry, md, unlink, &handle));
    return handle;
}

static inline ptl_handle_md_t bind(ptl_md_t md, ptl_unlink_t unlink) {
    ptl_handle_md_t handle;
    PTL(PtlMDBind(ni, md, unlink, &handle));
    return handle;
}

static inline ptl_sr_value_t status(ptl_sr_index_t which) {
    ptl_sr_value_t value = 12345;
    PTL(PtlNIStatus(ni, which, &value));
    return value;
}

/* Until a register has that value: what is dropped makes no event. */
static inline void until_status(ptl_sr_index_t which, ptl_sr_value_t value) {
    ptl_event_t event;
    int at;
    ptl_handle_eq_t eq = queue(2);
    for (int n = 0; n < PATIENCE_MS && status(which) < value; n++)
        CHECK(PtlEQPoll(&eq, 1, 1, &event, &at) == PTL_EQ_EMPTY);
    CHECK(status(which) == value);
    PTL(PtlEQFree(eq));
}

#endif
