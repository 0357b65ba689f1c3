/* What the machine alone takes to tell one core something from another: the floor under `make compare`'s ping-pong.
 *
 * Two threads, bound to the first two processors that this process may use, hand numbers to each other and back, in
 * two ways. `one line`: both write the same cache line, each as soon as it sees what the other wrote; no message can be
 * quicker. `a line each way`: each writes a line that the other looks at all the time, as messages do that do not have
 * to be answered; the writer has to take its line back from the reader first.
 *
 * Prints `result NAME NANOSECONDS ns`, one way, the median of several trials, as bench/compare.c does; with one
 * processor it prints nothing.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TRIALS = 15, TIMES = 50000 };

/* Lines far enough apart for prefetchers that fetch pairs. */
static struct {
    _Alignas(256) _Atomic unsigned long number;
} lines[2];
static int apart;
static int processors[2];

static int bind_to(int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    return sched_setaffinity(0, sizeof set, &set);
}

/* Wait for one number and write the next. */
static void hand_over(unsigned long number) {
    while (atomic_load_explicit(&lines[apart & number].number, memory_order_acquire) != number) continue;
    number++;
    atomic_store_explicit(&lines[apart & number].number, number, memory_order_release);
}

static void *other(void *unused) {
    (void)unused;
    if (bind_to(processors[1]) != 0) exit(1);
    for (unsigned long i = 0; i < (unsigned long)TRIALS * TIMES; i++) hand_over(2 * i + 1);
    return NULL;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Nanoseconds of one hand-over. */
static double measure(int line_each_way) {
    double times[TRIALS];
    pthread_t thread;
    apart = line_each_way;
    lines[0].number = lines[1].number = 0;
    if (bind_to(processors[0]) != 0 || pthread_create(&thread, NULL, other, NULL) != 0) exit(1);
    unsigned long next = 0;
    for (int t = 0; t < TRIALS; t++) {
        double start = now();
        for (int i = 0; i < TIMES; i++, next += 2) hand_over(next);
        times[t] = (now() - start) / (2.0 * TIMES);
    }
    pthread_join(thread, NULL);
    qsort(times, TRIALS, sizeof *times, ascending);
    return times[TRIALS / 2];
}

int main(void) {
    cpu_set_t mine;
    int found = 0;
    if (sched_getaffinity(0, sizeof mine, &mine) != 0) return 1;
    for (int i = 0; i < CPU_SETSIZE && found < 2; i++)
        if (CPU_ISSET(i, &mine)) processors[found++] = i;
    if (found < 2) return 0;
    printf("result one_line %.1f ns\n", measure(0));
    printf("result line_each_way %.1f ns\n", measure(1));
    return 0;
}
