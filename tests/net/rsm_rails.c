/* Long puts and gets between two hosts with two rails: rank 1 works on rank 0's segment. What argv[1] says:
 *   even         the rails carry equal shares of what is put, got, and both as requests; and a named one carries it alone
 *   named DOWN   a rail that is named and fails is an error with its name; "moving" is printed when rail DOWN, as they are listed, may be cut
 *   measure N    N rounds of puts, gets and both as requests, by each rail and by both in turn; a line "WHAT MB/s MB/s MB/s" for each round */
#include <farpost/rsm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PART = 1 << 20, PARTS = 32, SIZE = PART * PARTS, ID = 0x500000 };
#define FAIL(...)                                                                                                       \
    do {                                                                                                                \
        fprintf(stderr, "FAIL line %d: ", __LINE__);                                                                    \
        fprintf(stderr, __VA_ARGS__);                                                                                   \
        fprintf(stderr, "\n");                                                                                          \
        exit(1);                                                                                                        \
    } while (0)
#define OK(call)                                                                                                        \
    do {                                                                                                                \
        if ((call) != RSM_SUCCESS)                                                                                      \
            FAIL("%s: %s", #call, rsm_error_message());                                                                 \
    } while (0)

static rsm_memseg_import_handle_t imported;
static rsmapi_barrier_t barrier;
static unsigned char *data;
static rsm_rail_t rails[2];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void look(void) {
    unsigned count = 2;
    OK(rsm_get_rails(0, rails, &count));
    if (count != 2)
        FAIL("%u rails", count);
}

/* Puts of a MiB and a barrier behind them, which a change of route may fail. */
static void put(void) {
    OK(rsm_memseg_import_open_barrier(&barrier));
    for (size_t i = 0; i < PARTS; i++)
        OK(rsm_memseg_import_put(imported, (off_t)(i * PART), data + i * PART, PART));
    const int code = rsm_memseg_import_close_barrier(&barrier);
    if (code != RSMERR_BARRIER_FAILURE)
        OK(code);
}
static void get(void) {
    for (size_t i = 0; i < PARTS; i += 4)
        OK(rsm_memseg_import_get(imported, (off_t)(i * PART), data + i * PART, 4 * PART));
}
static void requests(int puts) {
    rsm_request_t all[PARTS];
    for (size_t i = 0; i < PARTS; i++)
        if (puts)
            OK(rsm_memseg_import_start_put(imported, (off_t)(i * PART), data + i * PART, PART, &all[i]));
        else
            OK(rsm_memseg_import_start_get(imported, (off_t)(i * PART), data + i * PART, PART, &all[i]));
    for (size_t i = 0; i < PARTS; i++)
        OK(rsm_request_wait(&all[i], -1));
}
static void start_put(void) {
    requests(1);
}
static void start_get(void) {
    requests(0);
}
static const struct {
    const char *name;
    void (*run)(void);
    int puts;
} ways[] = {{"put", put, 1}, {"get", get, 0}, {"start_put", start_put, 1}, {"start_get", start_get, 0}};

static void choose(int rail) {
    const char *names[] = {rails[rail < 0 ? 0 : rail].name};
    OK(rsm_memseg_import_set_stripes(imported, names, rail < 0 ? 0 : 1));
}

/* The share of the first rail in what one way carries, of all that it carries. */
static double share(unsigned way) {
    look();
    const rsm_rail_t before[2] = {rails[0], rails[1]};
    ways[way].run();
    look();
    double carried[2];
    for (int i = 0; i < 2; i++)
        carried[i] = (double)(ways[way].puts ? rails[i].sent - before[i].sent : rails[i].received - before[i].received);
    if (carried[0] + carried[1] < SIZE)
        FAIL("%s: the rails carried %.0f and %.0f bytes of %d", ways[way].name, carried[0], carried[1], SIZE);
    return carried[0] / (carried[0] + carried[1]);
}

static void even(void) {
    for (unsigned way = 0; way < 4; way++) {
        /* The speeds are learnt; on a busy machine a rail may be silent for so long that others carry its share for a while. */
        double found = 0;
        int fine = 0;
        for (int attempt = 0; attempt < 10 && !fine; attempt++) {
            found = share(way);
            fine = found > 0.4 && found < 0.6;
        }
        if (!fine)
            FAIL("%s: the first rail carries %.3f of it", ways[way].name, found);
        for (int rail = 0; rail < 2; rail++) {
            choose(rail);
            fine = 0;
            for (int attempt = 0; attempt < 10 && !fine; attempt++) {
                found = share(way);
                fine = rail == 0 ? found > 0.95 : found < 0.05;
            }
            if (!fine)
                FAIL("%s by %s: the first rail carries %.3f of it", ways[way].name, rails[rail].name, found);
        }
        choose(-1);
    }
    printf("even\n");
}

/* A call is refused for a rail that does not work, and says which. */
static void refused(const char *what, int code, const char *name) {
    char word[64];
    snprintf(word, sizeof word, " %s ", name);
    if (code != RSMERR_REMOTE_NODE_UNREACHABLE || strstr(rsm_error_message(), word) == NULL)
        FAIL("%s, with%sdown: %d, %s", what, word, code, rsm_error_message());
}

static void named(int cut) {
    const char *both[] = {rails[0].name, rails[1].name};
    OK(rsm_memseg_import_set_stripes(imported, both, 2));
    printf("moving\n");
    fflush(stdout);
    int code = RSM_SUCCESS;
    for (const double began = now(); now() - began < 30 && code == RSM_SUCCESS; usleep(1000))
        code = rsm_memseg_import_put(imported, 0, data, PART);
    char said[256];
    snprintf(said, sizeof said, "%s", rsm_error_message());
    look();
    const int down = rails[0].state == RSM_CONNECTION_DOWN ? 0 : 1;
    if (rails[down].state != RSM_CONNECTION_DOWN || rails[1 - down].state != RSM_CONNECTION_ACTIVE)
        FAIL("states %d and %d; a put: %d, %s", rails[0].state, rails[1].state, code, said);
    if (down != cut)
        FAIL("rail %d of the list was cut, and %s is down", cut, rails[down].name);
    refused("a put", code, rails[down].name);
    rsm_request_t request;
    refused("a request", rsm_memseg_import_start_get(imported, 0, data, 8, &request), rails[down].name);
    refused("to name it again", rsm_memseg_import_set_stripes(imported, both, 2), rails[down].name);
    /* By the other, and by all that there are. */
    choose(1 - down);
    start_put();
    choose(-1);
    start_get();
    printf("named\n");
}

static void measure(int rounds) {
    for (unsigned way = 0; way < 4; way++)
        for (int round = 0; round <= rounds; round++) {
            double speed[3];
            for (int rail = 0; rail < 3; rail++) {
                choose(rail < 2 ? rail : -1);
                const double began = now();
                ways[way].run();
                speed[rail] = SIZE / (now() - began) / 1e6;
            }
            /* In the first one speeds are learnt. */
            if (round > 0)
                printf("%s %.1f %.1f %.1f\n", ways[way].name, speed[0], speed[1], speed[2]);
            fflush(stdout);
        }
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "even";
    alarm(300);
    rsmapi_controller_handle_t ctl;
    OK(rsm_get_controller("tcp0", &ctl));
    rsm_topology_t *topology;
    OK(rsm_get_interconnect_topology(&topology));
    const unsigned me = topology->topology_hdr.local_nodeid;
    rsm_free_interconnect_topology(topology);
    if (posix_memalign((void **)&data, PAGE, SIZE) != 0)
        return 1;
    memset(data, 1, SIZE);
    if (me == 0) {
        rsm_memseg_export_handle_t exported;
        rsm_memseg_id_t id = ID;
        OK(rsm_memseg_export_create(ctl, &exported, data, SIZE, 0));
        OK(rsm_memseg_export_publish(exported, &id, NULL, 0));
        OK(rsm_intr_signal_wait(exported, -1));
        OK(rsm_memseg_export_destroy(exported));
        return 0;
    }
    int code;
    while ((code = rsm_memseg_import_connect(ctl, 0, ID, RSM_PERM_RDWR, &imported)) == RSMERR_SEG_NOT_PUBLISHED)
        usleep(1000);
    OK(code);
    OK(rsm_memseg_import_init_barrier(imported, 0, &barrier));
    OK(rsm_memseg_import_set_mode(imported, RSM_BARRIER_MODE_EXPLICIT));
    put();
    for (unsigned degree = 0; degree < 2;)
        OK(rsm_get_striping(0, &degree, NULL));
    look();
    if (strcmp(what, "even") == 0)
        even();
    else if (strcmp(what, "named") == 0)
        named(argc > 2 ? atoi(argv[2]) : 0);
    else
        measure(argc > 2 ? atoi(argv[2]) : 5);
    OK(rsm_intr_signal_post(imported, 0));
    OK(rsm_memseg_import_disconnect(imported));
    return 0;
}
