// What generated programs share: numbered buffers, requests and statuses, what buffers must hold, and a watchdog.
//
// LEGAL_SECONDS  how long one program may take, default 60: then each rank says where it is
// LEGAL_SEED     of several programs, only that of this seed
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define helper __attribute__((unused)) static
#define GUARD 0xA5
#define CANARY 0x5C
#define EDGE 64

struct layout { const long (*runs)[2]; long n, size, extent, basics; };
struct request { MPI_Request request; int slot, done, cancelled, truncates; };
struct part { long at; int type; long count; unsigned id; };
struct sent { int source, tag; long bytes; unsigned id; };
struct got { int slot, buf; long len; int type; long count; int source, tag, truncated; unsigned long long may; };

static int me, ranks, seconds = 60;
static unsigned long long program;
static MPI_Datatype *type, two_numbers;
static MPI_Op compose;
static struct layout *layout;
static MPI_Comm *c, no_comm;
static MPI_Status *status;
static struct request *r;
static char **b;
static long *room_of, *skew_of;
static int types, comms, bufs, requests;
static void *attached;
// Buffers of sends that were let go before they were complete: nobody is told when they are read for the last time, but by the end of MPI.
static struct kept { char *memory; struct kept *next; } *kept;
static volatile int keeps;
static __thread int thread;
static __thread MPI_Message message;
static __thread MPI_Group some;

// --- where everybody is --------------------------------------------------------------------------------------------
static struct { volatile int line; const char *volatile call; } where[16];

helper void at(int line, const char *call) {
    where[thread].line = line;
    where[thread].call = call;
}

static void late(int signal) {
    (void)signal;
    char text[400];
    for (int t = 0; t < 16; t++)
        if (where[t].line) {
            int n = snprintf(text, sizeof text, "HANG program %llu rank %d thread %d line %d: %.200s\n", program, me, t, where[t].line, where[t].call);
            if (write(2, text, (size_t)n) < 0) break;
        }
    // The others say it too before the job ends.
    sleep(2);
    _exit(99);
}

#define FAIL(...)                                                                                                     \
    do {                                                                                                              \
        fprintf(stderr, "FAIL program %llu rank %d thread %d line %d: ", program, me, thread, where[thread].line);    \
        fprintf(stderr, __VA_ARGS__);                                                                                 \
        fprintf(stderr, "; last call %s\n", where[thread].call);                                                      \
        fflush(stderr);                                                                                               \
        MPI_Abort(MPI_COMM_WORLD, 3);                                                                                 \
        _exit(3);                                                                                                     \
    } while (0)

helper int class_of(int error) {
    int class = 0;
    if (error != MPI_SUCCESS) MPI_Error_class(error, &class);
    return class;
}

helper void must_be(int class, int error) {
    if (class_of(error) == class) return;
    char text[MPI_MAX_ERROR_STRING] = "success";
    int n;
    if (error != MPI_SUCCESS) MPI_Error_string(error, text, &n);
    FAIL("error %s, expected class %d", text, class);
}

#define OK(call) (at(__LINE__, #call), must_be(MPI_SUCCESS, call))
#define TRUNCATES(call) (at(__LINE__, #call), must_be(MPI_ERR_TRUNCATE, call))

// --- types that are gone while what was started with them is under way ---------------------------------------------
static __thread MPI_Datatype lent[4];
static __thread int lent_now;

helper MPI_Datatype brief(MPI_Datatype t) {
    if (MPI_Type_dup(t, &lent[lent_now]) != MPI_SUCCESS) FAIL("MPI_Type_dup");
    return lent[lent_now++];
}

helper void give_back(void) {
    while (lent_now > 0) OK(MPI_Type_free(&lent[--lent_now]));
}

// --- buffers -------------------------------------------------------------------------------------------------------
helper unsigned char pattern(unsigned id, unsigned long k) {
    return (unsigned char)(((unsigned long)id * 151 + k * 7 + (k >> 8) * 29 + (k >> 16) * 53) ^ (id >> 7));
}

helper void clear(char *at, long len) { memset(at, GUARD, (size_t)len); }

helper void room(int i, long len) {
    // Some are not aligned.
    long seed = (long)(program & 0xffff), skew = (i * 7l + seed) % 8 < 3 ? (i * 5l + seed) % 16 : 0;
    char *memory = malloc((size_t)(len + skew) + 2 * EDGE);
    if (!memory) FAIL("no memory");
    memset(memory, CANARY, (size_t)(len + skew) + 2 * EDGE);
    b[i] = memory + skew + EDGE;
    room_of[i] = len;
    skew_of[i] = skew;
    clear(b[i], len);
}

// The first `bytes` of a pattern, as elements of a type.
helper void place_bytes(char *to, int t, long bytes, unsigned id) {
    const struct layout *l = &layout[t];
    unsigned long k = 0;
    for (long i = 0; (long)k < bytes; i++)
        for (long run = 0; run < l->n; run++)
            for (long j = 0; j < l->runs[run][1] && (long)k < bytes; j++, k++)
                to[i * l->extent + l->runs[run][0] + j] = (char)pattern(id, k);
}

helper void place(char *to, struct part p) { place_bytes(to + p.at, p.type, p.count * layout[p.type].size, p.id); }

helper void same(const char *what, const char *have, const char *want, long len) {
    if (memcmp(have, want, (size_t)len) == 0) return;
    long at = 0, wrong = 0;
    for (long i = len - 1; i >= 0; i--)
        if (have[i] != want[i]) at = i, wrong++;
    FAIL("%s: byte %ld of %ld is 0x%02x, expected 0x%02x (%ld wrong)", what, at, len, have[at] & 255, want[at] & 255, wrong);
}

helper char *image(long len) {
    char *want = malloc((size_t)len + 1);
    if (!want) FAIL("no memory");
    clear(want, len);
    return want;
}

helper void expect(const char *what, const char *have, long len, int n, const struct part *parts) {
    char *want = image(len);
    for (int i = 0; i < n; i++) place(want, parts[i]);
    same(what, have, want, len);
    free(want);
}

// --- numbers to be reduced -----------------------------------------------------------------------------------------
enum numbers { SumU32, ProdU32, MaxI32, MinI64, SumF64, BxorI64, BandI32, BorByte, Maxloc, Compose };
struct value { uint32_t a, b; };

helper struct value value_of(enum numbers kind, unsigned id, int who, long i) {
    uint32_t x = id * 2654435761u + (uint32_t)who * 40503u + (uint32_t)i * 977u;
    x ^= x >> 15;
    switch (kind) {
    case MaxI32: case BandI32: return (struct value){x & 0x7fffffff, 0};
    case SumF64: return (struct value){x & 0xffff, 0};
    case BorByte: return (struct value){x & (0x15u << (who & 3)), 0};
    case Maxloc: return (struct value){x >> 8 & 15, (uint32_t)who};
    case Compose: return (struct value){x | 1, x >> 7};
    case SumU32: case ProdU32: return (struct value){x | 1, 0};
    default: return (struct value){x, 0};
    }
}

helper struct value combined(enum numbers kind, struct value x, struct value y) {
    switch (kind) {
    case SumU32: case SumF64: x.a += y.a; break;
    case ProdU32: x.a *= y.a; break;
    case MaxI32: if (y.a > x.a) x = y; break;
    case MinI64: if (y.a < x.a) x = y; break;
    case BxorI64: x.a ^= y.a; break;
    case BandI32: x.a &= y.a; break;
    case BorByte: x.a |= y.a; break;
    case Maxloc: if (y.a > x.a || (y.a == x.a && y.b < x.b)) x = y; break;
    case Compose: x = (struct value){x.a * y.a, x.b * y.a + y.b}; break;
    }
    return x;
}

helper void composes(void *in, void *inout, int *len, MPI_Datatype *t) {
    (void)t;
    for (int i = 0; i < *len; i++) {
        struct value x, y;
        memcpy(&x, (char *)in + 8 * (long)i, 8);
        memcpy(&y, (char *)inout + 8 * (long)i, 8);
        y = combined(Compose, x, y);
        memcpy((char *)inout + 8 * (long)i, &y, 8);
    }
}

// Elements `first` to `first + n` of the reduction of contributions `who`.
helper void numbers(char *to, enum numbers kind, long first, long n, unsigned id, int contributions, const int *who) {
    for (long i = 0; i < n; i++) {
        struct value v = value_of(kind, id, who[0], first + i);
        for (int k = 1; k < contributions; k++) v = combined(kind, v, value_of(kind, id, who[k], first + i));
        int64_t wide = v.a;
        double real = v.a;
        switch (kind) {
        case SumU32: case ProdU32: case MaxI32: case BandI32: memcpy(to + 4 * i, &v.a, 4); break;
        case MinI64: case BxorI64: memcpy(to + 8 * i, &wide, 8); break;
        case SumF64: memcpy(to + 8 * i, &real, 8); break;
        case BorByte: to[i] = (char)v.a; break;
        default: memcpy(to + 8 * i, &v, 8);
        }
    }
}

helper void expect_numbers(const char *what, const char *have, long len, long at, enum numbers kind, long first, long n, unsigned id, int contributions, const int *who) {
    char *want = image(len);
    numbers(want + at, kind, first, n, id, contributions, who);
    same(what, have, want, len);
    free(want);
}

// --- requests ------------------------------------------------------------------------------------------------------
helper MPI_Request *new_request(int i, int slot, int inactive) {
    r[i] = (struct request){MPI_REQUEST_NULL, slot, inactive, 0, 0};
    return &r[i].request;
}

helper void truncates(int i) { r[i].truncates = 1; }

helper MPI_Request *started(int i) {
    r[i].done = 0;
    return &r[i].request;
}

helper void took(int i, const MPI_Status *s, int error) {
    if (r[i].done) FAIL("request %d is complete twice", i);
    r[i].done = 1;
    must_be(r[i].truncates ? MPI_ERR_TRUNCATE : MPI_SUCCESS, error);
    if (r[i].slot < 0) return;
    status[r[i].slot] = *s;
    if (!r[i].truncates) MPI_Test_cancelled(s, &r[i].cancelled);
}

helper int all_done(int n, const int *list) {
    for (int k = 0; k < n; k++)
        if (!r[list[k]].done) return 0;
    return 1;
}

helper MPI_Request *taken_from(int n, const int *list) {
    MPI_Request *handles = malloc(sizeof *handles * (size_t)n);
    for (int k = 0; k < n; k++) handles[k] = r[list[k]].request;
    return handles;
}

helper void back(int n, const int *list, MPI_Request *handles) {
    for (int k = 0; k < n; k++) r[list[k]].request = handles[k];
    free(handles);
}

helper void start_all(int n, const int *list) {
    MPI_Request *handles = taken_from(n, list);
    for (int k = 0; k < n; k++) r[list[k]].done = 0;
    OK(MPI_Startall(n, handles));
    back(n, list, handles);
}

// One call about all of the list. wait: the call that waits.
helper void all_of(int n, const int *list, int wait) {
    MPI_Request *handles = taken_from(n, list);
    MPI_Status *s = malloc(sizeof *s * (size_t)n);
    int flag = 1;
    int error = wait ? MPI_Waitall(n, handles, s) : MPI_Testall(n, handles, &flag, s);
    int each = class_of(error) == MPI_ERR_IN_STATUS;
    if (!each) must_be(MPI_SUCCESS, error);
    back(n, list, handles);
    for (int k = 0; (flag || each) && k < n; k++) {
        int own = each ? s[k].MPI_ERROR : MPI_SUCCESS;
        if (!r[list[k]].done && class_of(own) != MPI_ERR_PENDING) took(list[k], &s[k], own);
    }
    free(s);
}

helper void any_of(int n, const int *list, int wait) {
    MPI_Request *handles = taken_from(n, list);
    MPI_Status s;
    int flag = 1, index = MPI_UNDEFINED, left = !all_done(n, list);
    int error = wait ? MPI_Waitany(n, handles, &index, &s) : MPI_Testany(n, handles, &index, &flag, &s);
    back(n, list, handles);
    if (index != MPI_UNDEFINED && index >= 0 && index < n) {
        took(list[index], &s, error);
        return;
    }
    must_be(MPI_SUCCESS, error);
    if (left && flag) FAIL("no request is active, but one was");
}

helper void some_of(int n, const int *list, int wait) {
    MPI_Request *handles = taken_from(n, list);
    MPI_Status *s = malloc(sizeof *s * (size_t)n);
    int *indices = malloc(sizeof *indices * (size_t)n), count = 0, left = !all_done(n, list);
    int error = wait ? MPI_Waitsome(n, handles, &count, indices, s) : MPI_Testsome(n, handles, &count, indices, s);
    int each = class_of(error) == MPI_ERR_IN_STATUS;
    if (!each) must_be(MPI_SUCCESS, error);
    back(n, list, handles);
    if (count == MPI_UNDEFINED && left) FAIL("no request is active, but one was");
    for (int k = 0; count != MPI_UNDEFINED && k < count; k++) took(list[indices[k]], &s[k], each ? s[k].MPI_ERROR : MPI_SUCCESS);
    free(indices);
    free(s);
}

helper int test(int i) {
    MPI_Status s;
    int flag = 0, done = r[i].done;
    int error = MPI_Test(&r[i].request, &flag, &s);
    if (flag && !done) took(i, &s, error);
    else must_be(MPI_SUCCESS, error);
    if (done && !flag) FAIL("a request that is not active is not complete");
    return flag;
}

helper int there_is(int i) {
    MPI_Status s;
    int flag = 0;
    int error = MPI_Request_get_status(r[i].request, &flag, &s);
    if (!r[i].truncates) must_be(MPI_SUCCESS, error);
    return flag || error;
}

#define by(name) at(__LINE__, name)
helper void complete_by_wait(int n, const int *list) {
    for (int k = 0; k < n; k++) {
        int i = list[k], done = r[i].done;
        MPI_Status s;
        by("MPI_Wait");
        int error = MPI_Wait(&r[i].request, &s);
        if (!done) took(i, &s, error);
        else must_be(MPI_SUCCESS, error);
    }
}
helper void complete_by_waitall(int n, const int *list) { do by("MPI_Waitall"), all_of(n, list, 1); while (!all_done(n, list)); }
helper void complete_by_waitany(int n, const int *list) { do by("MPI_Waitany"), any_of(n, list, 1); while (!all_done(n, list)); }
helper void complete_by_waitsome(int n, const int *list) { do by("MPI_Waitsome"), some_of(n, list, 1); while (!all_done(n, list)); }
helper void complete_by_test(int n, const int *list) { for (int k = 0; k < n; k++) do by("MPI_Test"); while (!test(list[k])); }
helper void complete_by_testall(int n, const int *list) { do by("MPI_Testall"), all_of(n, list, 0); while (!all_done(n, list)); }
helper void complete_by_testany(int n, const int *list) { do by("MPI_Testany"), any_of(n, list, 0); while (!all_done(n, list)); }
helper void complete_by_testsome(int n, const int *list) { do by("MPI_Testsome"), some_of(n, list, 0); while (!all_done(n, list)); }
helper void complete_by_getstatus(int n, const int *list) {
    for (int k = 0; k < n; k++) {
        do by("MPI_Request_get_status"); while (!there_is(list[k]));
        by("MPI_Test after MPI_Request_get_status");
        if (!test(list[k])) FAIL("MPI_Request_get_status said that the request is complete, MPI_Test did not");
    }
}
helper void look_by_test(int n, const int *list) { for (int k = 0; k < n; k++) by("one MPI_Test"), test(list[k]); }
helper void look_by_testall(int n, const int *list) { by("one MPI_Testall"), all_of(n, list, 0); }
helper void look_by_testany(int n, const int *list) { by("one MPI_Testany"), any_of(n, list, 0); }
helper void look_by_testsome(int n, const int *list) { by("one MPI_Testsome"), some_of(n, list, 0); }
helper void look_by_getstatus(int n, const int *list) { for (int k = 0; k < n; k++) by("one MPI_Request_get_status"), there_is(list[k]); }

// One that was looked at may be complete, and null.
helper void let_go(int i) {
    if (!r[i].done) keeps = 1;
    if (r[i].request != MPI_REQUEST_NULL) OK(MPI_Request_free(&r[i].request));
}

helper void discard(char *memory) {
    if (!keeps) {
        free(memory);
        return;
    }
    struct kept *one = malloc(sizeof *one);
    if (!one) FAIL("no memory");
    *one = (struct kept){memory, kept};
    kept = one;
}

helper void cancel(int i) {
    if (!r[i].done) OK(MPI_Cancel(&r[i].request));
}

helper void must_be_cancelled(int i) {
    if (!r[i].cancelled) FAIL("request %d, which nobody sends to, was not cancelled", i);
}

// --- messages ------------------------------------------------------------------------------------------------------
helper void probe_until_there(int source, int tag, int comm, int slot) {
    int flag = 0;
    while (!flag) OK(MPI_Iprobe(source, tag, c[comm], &flag, &status[slot]));
}

helper MPI_Message mprobe_until_there(int source, int tag, int comm, int slot) {
    MPI_Message found = MPI_MESSAGE_NULL;
    int flag = 0;
    while (!flag) OK(MPI_Improbe(source, tag, c[comm], &flag, &found, &status[slot]));
    return found;
}

// Nothing outside the elements of a buffer was written.
helper void untouched_between(const char *what, const char *have, long len, int t, long count) {
    char *marks = calloc((size_t)len + 1, 1);
    for (long i = 0; i < count; i++)
        for (long run = 0; run < layout[t].n; run++)
            memset(marks + i * layout[t].extent + layout[t].runs[run][0], 1, (size_t)layout[t].runs[run][1]);
    for (long i = 0; i < len; i++)
        if (!marks[i] && (have[i] & 255) != GUARD) FAIL("%s: byte %ld, which is none of the message's, was written", what, i);
    free(marks);
}

// Receives in the order of posting: source and tag tell which message each must be.
helper void check_group(const char *what, int n, const struct sent *sent, int m, const struct got *got) {
    char *gone = calloc((size_t)n + 1, 1);
    at(__LINE__, what);
    for (int k = 0; k < m; k++) {
        const struct got *g = &got[k];
        const MPI_Status *s = &status[g->slot];
        if (g->truncated) {
            untouched_between(what, b[g->buf], g->len, g->type, g->count);
            continue;
        }
        int i = 0;
        while (i < n && (gone[i] || sent[i].source != s->MPI_SOURCE || sent[i].tag != s->MPI_TAG)) i++;
        if (i == n) FAIL("%s: receive %d got source %d and tag %d, but nobody sent that", what, k, s->MPI_SOURCE, s->MPI_TAG);
        if ((g->source != MPI_ANY_SOURCE && g->source != s->MPI_SOURCE) || (g->tag != MPI_ANY_TAG && g->tag != s->MPI_TAG))
            FAIL("%s: receive %d got source %d and tag %d, but asked for %d and %d", what, k, s->MPI_SOURCE, s->MPI_TAG, g->source, g->tag);
        if (i < 64 && !(g->may >> i & 1)) FAIL("%s: receive %d got message %d, which no order of events gives it", what, k, i);
        gone[i] = 1;
        int count, elements;
        const struct layout *l = &layout[g->type];
        MPI_Get_count(s, type[g->type], &count);
        if (count != (sent[i].bytes % l->size ? MPI_UNDEFINED : sent[i].bytes / l->size))
            FAIL("%s: receive %d counts %d elements of %ld bytes, but message %d has %ld bytes", what, k, count, l->size, i, sent[i].bytes);
        MPI_Get_elements(s, type[g->type], &elements);
        if (elements != sent[i].bytes * l->basics / l->size)
            FAIL("%s: receive %d counts %d basic elements, expected %ld", what, k, elements, sent[i].bytes * l->basics / l->size);
        char *want = image(g->len), text[200];
        place_bytes(want, g->type, sent[i].bytes, sent[i].id);
        snprintf(text, sizeof text, "%s: receive %d, message %d of rank %d with tag %d", what, k, i, s->MPI_SOURCE, s->MPI_TAG);
        same(text, b[g->buf], want, g->len);
        free(want);
    }
    free(gone);
}

// --- programs ------------------------------------------------------------------------------------------------------
helper void made(int i) { OK(MPI_Comm_set_errhandler(c[i], MPI_ERRORS_RETURN)); }

helper MPI_Group group_of(MPI_Comm comm, int n, const int *members) {
    MPI_Group all, part;
    OK(MPI_Comm_group(comm, &all));
    OK(MPI_Group_incl(all, n, members, &part));
    OK(MPI_Group_free(&all));
    return part;
}

helper void lay_out(int t, const long (*runs)[2], long n, long size, long extent, long basics) {
    int have;
    MPI_Aint lb, ext;
    OK(MPI_Type_commit(&type[t]));
    OK(MPI_Type_size(type[t], &have));
    OK(MPI_Type_get_extent(type[t], &lb, &ext));
    if (have != size || (extent >= 0 && ext != extent)) FAIL("type %d has size %d and extent %ld, expected %ld and %ld", t, have, (long)ext, size, extent);
    layout[t] = (struct layout){runs, n, size, extent, basics};
}

helper void compute(long us) {
    struct timespec pause = {us / 1000000, us % 1000000 * 1000};
    at(__LINE__, "computes");
    nanosleep(&pause, NULL);
}

helper void begin(unsigned long long seed, int ntypes, int ncomms, int nbufs, int nrequests, int nstatuses, long buffered) {
    program = seed;
    alarm((unsigned)seconds);
    if (me == 0) printf("program %llu\n", seed), fflush(stdout);
    types = ntypes, comms = ncomms, bufs = nbufs, requests = nrequests;
    type = malloc(sizeof *type * (size_t)(ntypes + 1));
    layout = calloc((size_t)ntypes + 1, sizeof *layout);
    c = malloc(sizeof *c * (size_t)(ncomms + 1));
    b = calloc((size_t)nbufs + 1, sizeof *b);
    room_of = calloc((size_t)nbufs + 1, sizeof *room_of);
    skew_of = calloc((size_t)nbufs + 1, sizeof *skew_of);
    r = calloc((size_t)nrequests + 1, sizeof *r);
    status = calloc((size_t)nstatuses + 1, sizeof *status);
    for (int i = 0; i < ntypes; i++) type[i] = MPI_DATATYPE_NULL;
    attached = NULL;
    if (buffered > 0) {
        attached = malloc((size_t)buffered);
        OK(MPI_Buffer_attach(attached, (int)buffered));
    }
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &c[0]));
    made(0);
}

helper void end(void) {
    if (attached) {
        void *was;
        int size;
        OK(MPI_Buffer_detach(&was, &size));
        if (was != attached) FAIL("MPI_Buffer_detach gives another buffer");
        free(attached);
    }
    OK(MPI_Comm_free(&c[0]));
    for (int i = 0; i < bufs; i++) {
        if (!b[i]) continue;
        for (long k = 0; k < EDGE; k++)
            if (b[i][-1 - k] != CANARY || b[i][room_of[i] + k] != CANARY) FAIL("memory around buffer %d was written", i);
        discard(b[i] - EDGE - skew_of[i]);
    }
    keeps = 0;
    for (int i = types - 1; i >= 0; i--) {
        int a, d, t, combiner;
        if (type[i] == MPI_DATATYPE_NULL) continue;
        MPI_Type_get_envelope(type[i], &a, &d, &t, &combiner);
        if (combiner != MPI_COMBINER_NAMED) OK(MPI_Type_free(&type[i]));
    }
    free(type), free(layout), free(c), free(b), free(room_of), free(skew_of), free(r), free(status);
    alarm(0);
}

struct body { void (*run)(void); int thread; };

static void *enter(void *arg) {
    struct body *body = arg;
    thread = body->thread;
    body->run();
    where[thread].line = 0;
    return NULL;
}

helper void threads(void (*const *bodies)(void), int n) {
    pthread_t ids[16];
    struct body each[16];
    for (int i = 1; i < n; i++) {
        each[i] = (struct body){bodies[i], i};
        if (pthread_create(&ids[i], NULL, enter, &each[i])) FAIL("pthread_create");
    }
    bodies[0]();
    at(__LINE__, "waits for its other threads");
    for (int i = 1; i < n; i++) pthread_join(ids[i], NULL);
}

helper int wanted(unsigned long long seed) {
    const char *only = getenv("LEGAL_SEED");
    return !only || strtoull(only, NULL, 0) == seed;
}

helper void start(int *argc, char ***argv, int n) {
    int provided;
    if (getenv("LEGAL_SECONDS")) seconds = atoi(getenv("LEGAL_SECONDS"));
    signal(SIGALRM, late);
    alarm((unsigned)seconds);
    MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != n) FAIL("this wants %d ranks", n);
    if (provided != MPI_THREAD_MULTIPLE) FAIL("no MPI_THREAD_MULTIPLE");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    OK(MPI_Type_contiguous(2, MPI_UINT32_T, &two_numbers));
    OK(MPI_Type_commit(&two_numbers));
    OK(MPI_Op_create(composes, 0, &compose));
}

helper int finish(void) {
    OK(MPI_Op_free(&compose));
    OK(MPI_Type_free(&two_numbers));
    alarm((unsigned)seconds);
    OK(MPI_Finalize());
    alarm(0);
    for (struct kept *next; kept; kept = next) {
        next = kept->next;
        free(kept->memory);
        free(kept);
    }
    if (me == 0) puts("all right");
    return 0;
}
