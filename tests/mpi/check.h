// A small harness for MPI test programs: named tests, checks that keep going, and the name of the test that hung.
//
//   TEST(name) { CHECK(x == 3); MPI(MPI_Barrier(MPI_COMM_WORLD)); }
//   int main(int argc, char **argv) { check_init(&argc, &argv); RUN(name); return check_done(); }
//
// A failed check prints one line `FAIL test: file:line: rank r of n: what` on stderr and counts; check_done() turns the
// count into the exit code. Errors of MPI calls are returned (not fatal) and printed with their error string. ONLY=name in
// the environment runs one test of the program.
#ifndef CHECK_H
#define CHECK_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <inttypes.h>
#include <mpi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int check_rank = -1, check_size = 0;
static int check_failures = 0;
static const char *check_test = "start";

static void check_fail(const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4), unused));
static void check_fail(const char *file, int line, const char *fmt, ...) {
    char text[1024];
    va_list ap;
    const char *base = strrchr(file, '/');
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    // A loop that goes wrong should not fill the log.
    if (++check_failures <= 20)
        fprintf(stderr, "FAIL %s: %s:%d: rank %d of %d: %s\n", check_test, base ? base + 1 : file, line, check_rank, check_size, text);
}

#define CHECK(cond)                                                                                                              \
    do {                                                                                                                         \
        if (!(cond)) check_fail(__FILE__, __LINE__, "%s", #cond);                                                                \
    } while (0)
// Integers of any kind; prints both values.
#define CHECK_EQ(got, want)                                                                                                      \
    do {                                                                                                                         \
        long long got_ = (long long)(got), want_ = (long long)(want);                                                            \
        if (got_ != want_) check_fail(__FILE__, __LINE__, "%s is %lld, not %s (%lld)", #got, got_, #want, want_);                \
    } while (0)
#define CHECK_STR(got, want)                                                                                                     \
    do {                                                                                                                         \
        if (strcmp(got, want) != 0) check_fail(__FILE__, __LINE__, "%s is \"%s\", not \"%s\"", #got, got, want);                 \
    } while (0)
// An MPI call that must succeed.
#define MPI(call)                                                                                                                \
    do {                                                                                                                         \
        int code_ = (call);                                                                                                      \
        if (code_ != MPI_SUCCESS) check_mpi_failed(__FILE__, __LINE__, #call, code_);                                            \
    } while (0)
// An MPI call that must give this error class.
#define MPI_FAILS(call, class_)                                                                                                  \
    do {                                                                                                                         \
        int code_ = (call);                                                                                                      \
        check_class(__FILE__, __LINE__, #call, code_, class_, #class_);                                                          \
    } while (0)

static void check_mpi_failed(const char *file, int line, const char *call, int code) __attribute__((unused));
static void check_mpi_failed(const char *file, int line, const char *call, int code) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int len = 0;
    MPI_Error_string(code, text, &len);
    for (char *p = text; *p; p++)
        if (*p == '\n') *p = ' ';
    check_fail(file, line, "%s gave error %d: %.300s", call, code, text);
}

static void check_class(const char *file, int line, const char *call, int code, int want, const char *want_name) __attribute__((unused));
static void check_class(const char *file, int line, const char *call, int code, int want, const char *want_name) {
    int got = -1;
    if (code == MPI_SUCCESS) {
        check_fail(file, line, "%s succeeded, should be %s", call, want_name);
        return;
    }
    MPI_Error_class(code, &got);
    if (got != want) {
        char text[MPI_MAX_ERROR_STRING] = "";
        int len = 0;
        MPI_Error_string(code, text, &len);
        check_fail(file, line, "%s gave class %d, not %s (%d): %.200s", call, got, want_name, want, text);
    }
}

#define TEST(name) static void name(void)
#define RUN(name) check_run(#name, name)

static void check_run(const char *name, void (*body)(void)) __attribute__((unused));
static void check_run(const char *name, void (*body)(void)) {
    const char *only = getenv("ONLY");
    if (only && *only && strcmp(only, name) != 0) return;
    check_test = name;
    if (getenv("VERBOSE") && check_rank == 0) fprintf(stderr, "%s\n", name);
    body();
    // Whatever a test left on the wire would be found by the next one otherwise.
    MPI_Barrier(MPI_COMM_WORLD);
}

static void check_alarm(int sig) {
    char text[256];
    int len = snprintf(text, sizeof text, "FAIL %s: rank %d of %d: no end in sight, gives up\n", check_test, check_rank, check_size);
    (void)sig;
    if (len > 0 && write(2, text, (size_t)len) < 0) _exit(98);
    _exit(99);
}

// Starts the clock (CHECK_SECONDS, default 100) that ends a hanging program with the name of its test.
static void check_clock(void) __attribute__((unused));
static void check_clock(void) {
    const char *limit = getenv("CHECK_SECONDS");
    signal(SIGALRM, check_alarm);
    alarm(limit ? (unsigned)atoi(limit) : 100);
}

static void check_started(void) __attribute__((unused));
static void check_started(void) {
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
}

static void check_init(int *argc, char ***argv) __attribute__((unused));
static void check_init(int *argc, char ***argv) {
    check_clock();
    MPI_Init(argc, argv);
    check_started();
}

static int check_done(void) __attribute__((unused));
static int check_done(void) {
    check_test = "end";
    MPI(MPI_Finalize());
    if (check_failures > 20) fprintf(stderr, "rank %d: %d checks failed in all\n", check_rank, check_failures);
    return check_failures ? 1 : 0;
}

// Bytes that depend on position, sender and message number, so that a misplaced or mixed-up piece shows.
static unsigned char check_byte(size_t i, unsigned seed) __attribute__((unused));
static unsigned char check_byte(size_t i, unsigned seed) {
    uint64_t x = (uint64_t)i * 0x9E3779B97F4A7C15u + (uint64_t)seed * 0xD1B54A32D192ED03u;
    return (unsigned char)(x >> 56 ^ x >> 24);
}
static void check_fill(void *buf, size_t n, unsigned seed) __attribute__((unused));
static void check_fill(void *buf, size_t n, unsigned seed) {
    for (size_t i = 0; i < n; i++) ((unsigned char *)buf)[i] = check_byte(i, seed);
}
// First wrong position, or -1.
static long long check_wrong(const void *buf, size_t n, unsigned seed) __attribute__((unused));
static long long check_wrong(const void *buf, size_t n, unsigned seed) {
    for (size_t i = 0; i < n; i++)
        if (((const unsigned char *)buf)[i] != check_byte(i, seed)) return (long long)i;
    return -1;
}

// Resident memory of this process in MiB.
static double check_rss_mib(void) __attribute__((unused));
static double check_rss_mib(void) {
    long total = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f) return 0;
    if (fscanf(f, "%ld %ld", &total, &resident) != 2) resident = 0;
    fclose(f);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1048576.0;
}

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))
#endif
