// interface: jam
// ranks: 1 2 3
// Work stealing: results, work that everybody gets a part of, what fails, and what cannot be.
#include "check.h"
#include <farpost/jam.h>
#include <string.h>
#include <unistd.h>

enum { SUM = 1, SLOW = 2, WRONG = 3, PARENT = 4, LONG = 5, NOBODYS = 6, ECHO = 7, DONE = 1, PIECES = 60 };

static unsigned done, by_me;

static void on_done(uint32_t from, const void *argument, size_t size, void *context) {
    (void)from, (void)argument, (void)size, (void)context;
    done++;
}

static void meet(void) {
    for (uint32_t to = 0; to < JAM_size; to++)
        CHECK(JAM_rpc(to, DONE, NULL, 0) == JAM_OK);
    while (done < JAM_size)
        JAM_poll();
    done -= JAM_size;
}

/* The number of the piece, slowly, so that everybody gets some. */
static int slow(const void *argument, size_t size, void *result, size_t *length, void *context) {
    CHECK(context == &by_me && size == sizeof(uint64_t) && *length == JAM_RESULT_BYTES);
    usleep(2000);
    by_me++;
    memcpy(result, argument, size);
    *length = size;
    return JAM_OK;
}

static int sum(const void *argument, size_t size, void *result, size_t *length, void *context) {
    uint64_t children[PIECES], all = 0;
    (void)argument, (void)context;
    CHECK(size == 0);
    for (uint64_t n = 0; n < PIECES; n++)
        CHECK(JAM_cilk_spawn(SLOW, &n, sizeof n, &children[n]) == JAM_OK);
    for (int n = PIECES; n-- > 0;) {
        uint64_t one;
        size_t bytes = 0;
        const int code = JAM_cilk_sync(children[n], &one, sizeof one, &bytes);
        if (code != JAM_OK)
            return code;
        CHECK(bytes == sizeof one && one == (uint64_t)n);
        CHECK(JAM_cilk_sync(children[n], &one, sizeof one, &bytes) == JAM_EINVAL);
        all += one;
    }
    memcpy(result, &all, sizeof all);
    *length = sizeof all;
    return JAM_OK;
}

static int wrong(const void *argument, size_t size, void *result, size_t *length, void *context) {
    (void)argument, (void)size, (void)result, (void)length, (void)context;
    return 77;
}

/* Hands its child's failure on. */
static int parent(const void *argument, size_t size, void *result, size_t *length, void *context) {
    uint64_t child;
    uint32_t work;
    (void)result, (void)length, (void)context;
    CHECK(size == sizeof work);
    memcpy(&work, argument, sizeof work);
    CHECK(JAM_cilk_spawn(work, NULL, 0, &child) == JAM_OK);
    return JAM_cilk_sync(child, NULL, 0, NULL);
}

/* Says more than it may. */
static int too_long(const void *argument, size_t size, void *result, size_t *length, void *context) {
    (void)argument, (void)size, (void)result, (void)context;
    ++*length;
    return JAM_OK;
}

static int echo(const void *argument, size_t size, void *result, size_t *length, void *context) {
    (void)context;
    CHECK(size <= *length);
    memcpy(result, argument, size);
    *length = size;
    return JAM_OK;
}

/* Runs at process 0; the code there, JAM_OK elsewhere. */
static void runs(uint32_t work, const void *argument, size_t size, int expected, const char *sentence) {
    const int code = JAM_cilk_run(work, argument, size, NULL, 0, NULL);
    if (JAM_me > 0) {
        CHECK(code == JAM_OK);
    } else {
        CHECK(code == expected);
        CHECK(strstr(JAM_error(), sentence));
    }
    meet();
}

int main(void) {
    uint64_t child, all = 0;
    size_t bytes = 0;
    CHECK(JAM_cilk_spawn(SUM, NULL, 0, &child) == JAM_ESTATE);
    JAM_initialize();
    CHECK(JAM_register(DONE, on_done, NULL) == JAM_OK);
    CHECK(JAM_cilk_register(SUM, sum, NULL) == JAM_OK && JAM_cilk_register(SLOW, slow, &by_me) == JAM_OK);
    CHECK(JAM_cilk_register(WRONG, wrong, NULL) == JAM_OK && JAM_cilk_register(PARENT, parent, NULL) == JAM_OK);
    CHECK(JAM_cilk_register(LONG, too_long, NULL) == JAM_OK && JAM_cilk_register(ECHO, echo, NULL) == JAM_OK);
    CHECK(JAM_cilk_register(65536, sum, NULL) == JAM_EPROCEDURE && JAM_cilk_register(9, NULL, NULL) == JAM_EINVAL);
    CHECK(JAM_cilk_spawn(65536, NULL, 0, &child) == JAM_EPROCEDURE && JAM_cilk_spawn(1, NULL, 4, &child) == JAM_EINVAL);
    CHECK(JAM_cilk_spawn(1, NULL, 0, NULL) == JAM_EINVAL);
    meet();

    for (int round = 0; round < 2; round++) {
        bytes = 99;
        CHECK(JAM_cilk_run(SUM, NULL, 0, &all, sizeof all, &bytes) == JAM_OK);
        CHECK(bytes == (JAM_me == 0 ? sizeof all : 0));
        CHECK(JAM_me > 0 || all == PIECES * (PIECES - 1) / 2);
        meet();
    }
    /* Each piece was done once, and others' pieces are what was stolen. */
    JAM_counts counts;
    CHECK(JAM_cilk_counts(&counts) == JAM_OK);
    CHECK(counts.spawned == (JAM_me == 0 ? 2 * PIECES : 0) && counts.again == 0);
    CHECK(JAM_me == 0 ? counts.stolen == 0 && (JAM_size > 1 ? by_me < 2 * PIECES : by_me == 2 * PIECES)
                      : counts.stolen == by_me && by_me > 0);
    meet();

    runs(WRONG, NULL, 0, JAM_EWORK, "work 3 failed with 77");
    runs(LONG, NULL, 0, JAM_EWORK, "1025 bytes");
    runs(NOBODYS, NULL, 0, JAM_EPROCEDURE, "work 6");
    const uint32_t of = WRONG;
    runs(PARENT, &of, sizeof of, JAM_EWORK, "work 3 failed with 77");
    runs(ECHO, "abc", 3, JAM_ELENGTH, "3 bytes");
    char back[8] = "";
    CHECK(JAM_cilk_run(ECHO, "abc", 4, back, sizeof back, &bytes) == JAM_OK);
    CHECK(JAM_me > 0 || (bytes == 4 && strcmp(back, "abc") == 0));
    meet();
    JAM_finalize();
    return 0;
}
