// interface: jam
// ranks: 1 2 4
// args: 8 20 | 9 22 4
/* Work stealing over JAM's remote procedures, and a benchmark of it: the n queens problem and Fibonacci numbers by one process without
 * any spawn, then by all processes of the job. Prints the speed-up and how many pieces were stolen.
 *
 *   mpicc -O2 jam_cilk.c -o jam_cilk && mpiexec -n 2 ./jam_cilk [QUEENS [FIBONACCI [DEPTH]]]
 *
 * DEPTH says how many rows of queens are spawned (2), and with it how small pieces are.
 */
#include <farpost/jam.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { QUEENS = 1, FIB = 2, COUNTS = 1, LEAVE = 2, CUTOFF = 17 };

struct board {
    uint32_t columns, left, right, all;
    uint32_t depth;
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t queens(struct board b) {
    if (b.columns == b.all)
        return 1;
    uint64_t ways = 0;
    for (uint32_t free = b.all & ~(b.columns | b.left | b.right); free != 0; free &= free - 1) {
        const uint32_t place = free & -free;
        const struct board next = {b.columns | place, (b.left | place) << 1, (b.right | place) >> 1, b.all, 0};
        ways += queens(next);
    }
    return ways;
}

static uint64_t fib(uint32_t n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

/* What every piece gives: a number. */
static int give(uint64_t number, void *result, size_t *length) {
    memcpy(result, &number, sizeof number);
    *length = sizeof number;
    return JAM_OK;
}

/* Spawns the boards with one queen more. */
static int all_queens(const void *argument, size_t size, void *result, size_t *length, void *context) {
    struct board b;
    uint64_t children[32], ways = 0;
    int spawned = 0;
    (void)context;
    if (size != sizeof b)
        return JAM_ELENGTH;
    memcpy(&b, argument, sizeof b);
    if (b.depth == 0 || b.columns == b.all)
        return give(queens(b), result, length);
    for (uint32_t free = b.all & ~(b.columns | b.left | b.right); free != 0; free &= free - 1) {
        const uint32_t place = free & -free;
        const struct board next = {b.columns | place, (b.left | place) << 1, (b.right | place) >> 1, b.all, b.depth - 1};
        const int code = JAM_cilk_spawn(QUEENS, &next, sizeof next, &children[spawned]);
        if (code != JAM_OK)
            return code;
        spawned++;
    }
    /* The youngest first: the oldest are left to thieves. */
    while (spawned > 0) {
        uint64_t more;
        const int code = JAM_cilk_sync(children[--spawned], &more, sizeof more, NULL);
        if (code != JAM_OK)
            return code;
        ways += more;
    }
    return give(ways, result, length);
}

static int any_fib(const void *argument, size_t size, void *result, size_t *length, void *context) {
    uint32_t n, less;
    uint64_t child, first, second;
    size_t at = sizeof second;
    int code;
    if (size != sizeof n)
        return JAM_ELENGTH;
    memcpy(&n, argument, sizeof n);
    /* Small numbers are not worth a spawn. */
    if (n < CUTOFF)
        return give(fib(n), result, length);
    less = n - 1;
    if ((code = JAM_cilk_spawn(FIB, &less, sizeof less, &child)) != JAM_OK)
        return code;
    less = n - 2;
    if ((code = any_fib(&less, sizeof less, &second, &at, context)) != JAM_OK)
        return code;
    if ((code = JAM_cilk_sync(child, &first, sizeof first, NULL)) != JAM_OK)
        return code;
    return give(first + second, result, length);
}

static JAM_counts counts[64];
static unsigned told, leave;

static void on_counts(uint32_t from, const void *argument, size_t size, void *context) {
    (void)context;
    if (from < 64 && size == sizeof counts[from])
        memcpy(&counts[from], argument, size);
    told++;
}

static void on_leave(uint32_t from, const void *argument, size_t size, void *context) {
    (void)from, (void)argument, (void)size, (void)context;
    leave = 1;
}

static void fail(const char *what) {
    fprintf(stderr, "process %u: %s: %s\n", JAM_me, what, JAM_error());
    exit(1);
}

/* All processes compute; process 0 prints how they compare with one that spawns nothing. */
static void measure(const char *name, uint32_t work, const void *argument, size_t size, uint64_t right, double alone) {
    uint64_t found = 0;
    const double start = now();
    if (JAM_cilk_run(work, argument, size, &found, sizeof found, NULL) != JAM_OK)
        fail(name);
    if (JAM_me > 0)
        return;
    const double together = now() - start;
    if (found != right) {
        fprintf(stderr, "%s: %llu, but it is %llu\n", name, (unsigned long long)found, (unsigned long long)right);
        exit(1);
    }
    printf("%s: %llu; alone without spawns %.3f ms, %u processes %.3f ms: speed-up %.2f\n", name, (unsigned long long)found,
           1e3 * alone, JAM_size, 1e3 * together, alone / together);
}

int main(int argc, char **argv) {
    const int size = argc > 1 ? atoi(argv[1]) : 13, number = argc > 2 ? atoi(argv[2]) : 38, depth = argc > 3 ? atoi(argv[3]) : 2;
    if (size < 4 || size > 16 || number < 1 || number > 45 || depth < 0 || depth > 16) {
        fprintf(stderr, "usage: jam_cilk [QUEENS, 4 to 16 [FIBONACCI, 1 to 45 [DEPTH, 0 to 16]]]\n");
        return 2;
    }
    JAM_initialize();
    if (JAM_size > 64 || JAM_register(COUNTS, on_counts, NULL) || JAM_register(LEAVE, on_leave, NULL) ||
        JAM_cilk_register(QUEENS, all_queens, NULL) || JAM_cilk_register(FIB, any_fib, NULL))
        fail("beginning");

    const struct board empty = {0, 0, 0, (1u << size) - 1, (uint32_t)depth};
    const uint32_t n = (uint32_t)number;
    uint64_t ways = 0, fibonacci = 0;
    double alone[2] = {0, 0};
    /* The quickest of three: the first finds a cold processor. */
    for (int turn = 0; JAM_me == 0 && turn < 3; turn++) {
        double start = now(), took;
        ways = queens(empty);
        took = now() - start;
        alone[0] = turn == 0 || took < alone[0] ? took : alone[0];
        start = now();
        fibonacci = fib(n);
        took = now() - start;
        alone[1] = turn == 0 || took < alone[1] ? took : alone[1];
    }
    char name[32];
    snprintf(name, sizeof name, "%d queens", size);
    measure(name, QUEENS, &empty, sizeof empty, ways, alone[0]);
    snprintf(name, sizeof name, "fib(%d)", number);
    measure(name, FIB, &n, sizeof n, fibonacci, alone[1]);

    JAM_counts mine;
    JAM_cilk_counts(&mine);
    if (JAM_rpc(0, COUNTS, &mine, sizeof mine) != JAM_OK)
        fail("telling");
    if (JAM_me == 0) {
        uint64_t spawned = 0, stolen = 0;
        while (told < JAM_size)
            JAM_poll();
        for (uint32_t from = 0; from < JAM_size; from++) {
            printf("process %u: %llu pieces spawned, %llu stolen from others, %llu requests that found nothing\n", from,
                   (unsigned long long)counts[from].spawned, (unsigned long long)counts[from].stolen,
                   (unsigned long long)counts[from].refused);
            spawned += counts[from].spawned;
            stolen += counts[from].stolen;
        }
        printf("%llu of %llu pieces were stolen\n", (unsigned long long)stolen, (unsigned long long)spawned);
        for (uint32_t to = 0; to < JAM_size; to++)
            JAM_rpc(to, LEAVE, NULL, 0);
    }
    while (!leave)
        JAM_poll();
    JAM_finalize();
    return 0;
}
