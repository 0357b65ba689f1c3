// interface: portals3
// ranks: 1
/* A parallel file service beside jobs, on the interface of the host: servers hold the stripes of files, and processes of any job write and read
 * them by put and get, without a word of the servers' programs. Server 0 knows the names. A file belongs to the job that made it, by the host's
 * word: others may read it.
 *
 *   mpicc portals_files.c -o portals_files
 *   ./portals_files serve 0 2 & ./portals_files serve 1 2 &        servers 0 and 1 of 2, at pids 20 and 21
 *   mpiexec -n 3 ./portals_files write 2 a 1000000                 a job makes a file, and reads it again
 *   mpiexec -n 2 ./portals_files read 2 a 1000000                  another one reads it
 */
#include <farpost/portals3.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_PID = 20, NAMES = 0, STRIPES = 1, ANSWERS = 2 };
enum { FILES = 16, NAME = 24, STRIPE = 1 << 16, OF_FILE = 128, SERVERS = 8, PATIENCE_MS = 2000 };
enum { CREATE = 1, OPEN = 2 };

struct request {
    uint64_t what, size;
    char name[NAME];
};
struct answer {
    int64_t file; /* or below 0: why not */
    uint64_t size;
};
enum { NO_SUCH_FILE = -1, NOT_YOURS = -2, NO_ROOM = -3 };

static ptl_handle_ni_t host;
static const ptl_process_id_t anybody = {PTL_NID_ANY, PTL_PID_ANY};

static void check(int code, const char *what) {
    if (code == PTL_OK)
        return;
    fprintf(stderr, "portals_files: %s: %s: %s\n", what, PtlErrorStr(code), PtlErrorMessage());
    exit(1);
}

static ptl_md_t memory(void *start, ptl_size_t length, unsigned options, ptl_handle_eq_t eq) {
    const ptl_md_t md = {.start = start,
                         .length = length,
                         .threshold = PTL_MD_THRESH_INF,
                         .options = options | PTL_MD_MANAGE_REMOTE | PTL_MD_EVENT_START_DISABLE,
                         .eq_handle = eq};
    return md;
}

static void attach(ptl_pt_index_t portal, uint64_t bits, uint64_t ignored, ptl_md_t md) {
    ptl_handle_me_t entry;
    ptl_handle_md_t made;
    check(PtlMEAttach(host, portal, anybody, bits, ignored, PTL_RETAIN, PTL_INS_AFTER, &entry), "PtlMEAttach");
    check(PtlMDAttach(entry, md, PTL_RETAIN, &made), "PtlMDAttach");
}

/* ---- a server ---- */

static struct {
    char name[NAME];
    uint64_t size;
    ptl_jid_t job;
} files[FILES];

static struct answer serve_one(const struct request *request, ptl_jid_t job, unsigned servers) {
    struct answer answer = {NO_SUCH_FILE, 0};
    int at = 0;
    while (at < FILES && strncmp(files[at].name, request->name, NAME) != 0)
        at++;
    if (request->what == CREATE) {
        if (at < FILES && files[at].job != job)
            answer.file = NOT_YOURS;
        else {
            for (at = at < FILES ? at : 0; at < FILES && files[at].name[0] != 0 && strncmp(files[at].name, request->name, NAME) != 0;)
                at++;
            if (at == FILES || request->size > (uint64_t)OF_FILE * STRIPE * servers)
                answer.file = NO_ROOM;
            else {
                memcpy(files[at].name, request->name, NAME);
                files[at].size = request->size;
                files[at].job = job;
                answer.file = at;
            }
        }
    } else if (at < FILES) {
        answer.file = at;
        answer.size = files[at].size;
    }
    return answer;
}

static int serve(unsigned number, unsigned servers) {
    enum { REQUESTS = 64 };
    static struct request requests[REQUESTS];
    static struct answer answer;
    const ptl_size_t bytes = (ptl_size_t)FILES * OF_FILE * STRIPE;
    char *stripes = calloc(1, bytes);
    ptl_handle_eq_t eq, sent;
    ptl_handle_md_t answers;
    if (stripes == NULL)
        return 1;
    check(PtlNIInit(PTL_IFACE_HOST, FIRST_PID + number, NULL, NULL, &host), "PtlNIInit");
    check(PtlEQAlloc(host, 4 * REQUESTS, PTL_EQ_HANDLER_NONE, &eq), "PtlEQAlloc");
    check(PtlEQAlloc(host, 8, PTL_EQ_HANDLER_NONE, &sent), "PtlEQAlloc");
    attach(STRIPES, 0, 0, memory(stripes, bytes, PTL_MD_OP_PUT | PTL_MD_OP_GET, PTL_EQ_NONE));
    /* A client has a place for its request, which it names by its pid. */
    attach(NAMES, 0, 0, memory(requests, sizeof requests, PTL_MD_OP_PUT, eq));
    check(PtlMDBind(host, memory(&answer, sizeof answer, 0, sent), PTL_RETAIN, &answers), "PtlMDBind");
    printf("server %u of %u\n", number, servers);
    fflush(stdout);
    for (;;) {
        ptl_event_t event;
        check(PtlEQWait(eq, &event), "PtlEQWait");
        if (event.type != PTL_EVENT_PUT_END || event.mlength != sizeof(struct request))
            continue;
        struct request request = requests[event.offset / sizeof(struct request) % REQUESTS];
        request.name[NAME - 1] = 0;
        answer = serve_one(&request, event.jid, servers);
        check(PtlPut(answers, PTL_NO_ACK_REQ, event.initiator, ANSWERS, 0, 0, 0, 0), "PtlPut");
        check(PtlEQWait(sent, &event), "PtlEQWait");
    }
}

/* ---- a client ---- */

static unsigned servers;
static ptl_handle_eq_t done, came;

static ptl_process_id_t server(unsigned number) {
    const ptl_process_id_t id = {0, FIRST_PID + number % servers};
    return id;
}

/* Nobody waits for a server that has ended: who is sent to and is not there is told. */
static void failed(const ptl_event_t *event) {
    if (event->ni_fail_type == PTL_NI_OK)
        return;
    fprintf(stderr, "portals_files: a server is not there: %s\n", PtlNIFailStr(host, event->ni_fail_type));
    exit(3);
}

static void await(unsigned count, ptl_event_kind_t kind) {
    while (count > 0) {
        ptl_event_t event;
        check(PtlEQWait(done, &event), "PtlEQWait");
        failed(&event);
        count -= event.type == kind;
    }
}

static struct answer ask(ptl_handle_md_t from, struct request *request, const struct answer *answer, uint64_t what, const char *name, uint64_t size) {
    ptl_process_id_t own;
    ptl_event_t event;
    int which, code;
    check(PtlGetId(host, &own), "PtlGetId");
    memset(request, 0, sizeof *request);
    request->what = what;
    request->size = size;
    strncpy(request->name, name, NAME - 1);
    check(PtlPut(from, PTL_NO_ACK_REQ, server(0), NAMES, 0, 0, own.pid % 64 * sizeof *request, 0), "PtlPut");
    await(1, PTL_EVENT_SEND_END);
    while ((code = PtlEQPoll(&came, 1, PATIENCE_MS, &event, &which)) == PTL_EQ_EMPTY) {
        /* Is it still there? A message without bytes and without effect tells. */
        check(PtlPutRegion(from, 0, 0, PTL_NO_ACK_REQ, server(0), NAMES, 0, 1, 0, 0), "PtlPutRegion");
        await(1, PTL_EVENT_SEND_END);
    }
    check(code, "PtlEQPoll");
    return *answer;
}

static unsigned char byte_of(const char *name, uint64_t at) {
    return (unsigned char)(at * 131 + (at >> 8) * 7 + (unsigned char)name[0]);
}

/* Where a stripe lies at its server. */
static ptl_size_t place(int64_t file, uint64_t stripe) {
    return ((ptl_size_t)file * OF_FILE + stripe / servers) * STRIPE;
}

static int use(int writes, const char *name, uint64_t size) {
    static struct request request;
    static struct answer answer;
    ptl_handle_ni_t job;
    ptl_handle_md_t from, data;
    unsigned rank, ranks;
    check(PtlNIInit(PTL_IFACE_DEFAULT, PTL_PID_ANY, NULL, NULL, &job), "PtlNIInit");
    check(PtlGetRank(job, &rank, &ranks), "PtlGetRank");
    check(PtlNIInit(PTL_IFACE_HOST, PTL_PID_ANY, NULL, NULL, &host), "PtlNIInit of the host");
    check(PtlEQAlloc(host, 4096, PTL_EQ_HANDLER_NONE, &done), "PtlEQAlloc");
    check(PtlEQAlloc(host, 8, PTL_EQ_HANDLER_NONE, &came), "PtlEQAlloc");
    attach(ANSWERS, 0, 0, memory(&answer, sizeof answer, PTL_MD_OP_PUT, came));
    check(PtlMDBind(host, memory(&request, sizeof request, 0, done), PTL_RETAIN, &from), "PtlMDBind");
    /* The first one makes the file, then the others find it. */
    struct answer file = {NO_SUCH_FILE, 0};
    if (writes && rank == 0)
        file = ask(from, &request, &answer, CREATE, name, size);
    if (file.file < 0 && file.file != NO_SUCH_FILE) {
        fprintf(stderr, "portals_files: %s: %s\n", name, file.file == NOT_YOURS ? "the file is another job's" : "no room");
        return 4;
    }
    check(PtlJobFence(job), "PtlJobFence");
    file = ask(from, &request, &answer, OPEN, name, 0);
    if (file.file < 0 || file.size != size) {
        fprintf(stderr, "portals_files: %s: no such file of %" PRIu64 " bytes\n", name, size);
        return 5;
    }
    unsigned char *bytes = malloc(size), *expected = malloc(size);
    if (bytes == NULL || expected == NULL)
        return 1;
    for (uint64_t at = 0; at < size; at++)
        expected[at] = byte_of(name, at);
    memcpy(bytes, expected, size);
    check(PtlMDBind(host, memory(bytes, size, 0, done), PTL_RETAIN, &data), "PtlMDBind");
    const uint64_t stripes = (size + STRIPE - 1) / STRIPE;
    if (writes) {
        /* Each process writes its part of the stripes, to all servers at once. */
        unsigned under_way = 0;
        for (uint64_t n = rank; n < stripes; n += ranks, under_way++) {
            const ptl_size_t length = n + 1 < stripes ? STRIPE : size - n * STRIPE;
            check(PtlPutRegion(data, n * STRIPE, length, PTL_ACK_REQ, server((unsigned)n), STRIPES, 0, 0, place(file.file, n), 0), "PtlPutRegion");
        }
        await(under_way, PTL_EVENT_ACK);
        check(PtlJobFence(job), "PtlJobFence");
    }
    /* All read all of it. */
    memset(bytes, 0, size);
    for (uint64_t n = 0; n < stripes; n++) {
        const ptl_size_t length = n + 1 < stripes ? STRIPE : size - n * STRIPE;
        check(PtlGetRegion(data, n * STRIPE, length, server((unsigned)n), STRIPES, 0, 0, place(file.file, n)), "PtlGetRegion");
    }
    await((unsigned)stripes, PTL_EVENT_REPLY_END);
    const int equal = memcmp(bytes, expected, size) == 0;
    if (rank == 0 || !equal)
        printf("%s %s: %" PRIu64 " bytes in %" PRIu64 " stripes, %s\n", writes ? "wrote" : "read", name, size, stripes, equal ? "as they should be" : "WRONG");
    check(PtlJobFence(job), "PtlJobFence");
    free(bytes);
    free(expected);
    return equal ? 0 : 6;
}

int main(int argc, char **argv) {
    int most, code = 0;
    const char *what = argc > 1 ? argv[1] : "";
    check(PtlInit(&most), "PtlInit");
    if (strcmp(what, "serve") == 0 && argc == 4)
        code = serve((unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]));
    else if ((strcmp(what, "write") == 0 || strcmp(what, "read") == 0) && argc == 5) {
        servers = (unsigned)atoi(argv[2]);
        code = servers > 0 && servers <= SERVERS ? use(what[0] == 'w', argv[3], strtoull(argv[4], NULL, 10)) : 2;
    } else
        fprintf(stderr, "portals_files serve NUMBER SERVERS | write SERVERS NAME BYTES | read SERVERS NAME BYTES\n");
    PtlFini();
    return code;
}
