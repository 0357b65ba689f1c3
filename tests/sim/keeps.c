// What the C library and the processor keep for a process between two calls, and each rank is to have for itself; and what changes stacks by itself. Arguments:
// options, which are read with getopt; "-d N": rank 1 calls itself N times.
#define _GNU_SOURCE
#include <alloca.h>
#include <errno.h>
#include <fenv.h>
#include <mpi.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int rank, wrong, compared;
static volatile sig_atomic_t signals;
static jmp_buf back;

static void check(int right, const char *what) {
    if (!right) printf("rank %d: wrong %s\n", rank, what), wrong++;
}

static void others_run(void) {
    MPI_Barrier(MPI_COMM_WORLD);
}

static void count_signal(int number) {
    (void)number;
    signals++;
}

static int compare(const void *a, const void *b) {
    if (++compared == 5) others_run();
    return *(const int *)a - *(const int *)b;
}

static int deep(int depth) {
    volatile char room[4096];
    memset((char *)room, depth, sizeof room);
    if (!depth) return others_run(), 0;
    return deep(depth - 1) + (room[depth % 4096] != (char)depth);
}

static void at_exit(void) {
    printf("rank %d: at its exit\n", rank);
}

static void on_its_exit(int code, void *argument) {
    printf("rank %d: exits with %d, argument %s\n", rank, code, (char *)argument);
}

__attribute__((destructor)) static void last(void) {
    printf("rank %d: last\n", rank);
    fflush(stdout);
}

int main(int argc, char **argv) {
    int depth = 20, letters = 0;
    for (int option; (option = getopt(argc, argv, "abcd:")) != -1;) {
        if (option == 'd')
            depth = atoi(optarg);
        else
            letters = 10 * letters + option - 'a' + 1;
    }
    const char *rest = argc > optind ? argv[optind] : "nothing";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    atexit(at_exit);
    on_exit(on_its_exit, "kept");

    // The processor.
    volatile double one = 1, three = 3;
    fesetround(rank % 2 ? FE_UPWARD : FE_DOWNWARD);
    others_run();
    const double third = one / three;
    fesetround(FE_TONEAREST);
    others_run();
    check((third > 0.33333333333333333) == rank % 2, "rounding");
    feclearexcept(FE_ALL_EXCEPT);
    if (rank == 0) one = one / 0.0 > 1;
    others_run();
    check(!fetestexcept(FE_DIVBYZERO) == (rank != 0), "floating-point exceptions");

    // The C library.
    char words[] = "these,are,four,words";
    int count = 0;
    for (char *word = strtok(words, ","); word; word = strtok(NULL, ",")) count++, others_run();
    check(count == 4, "strtok");
    const time_t day = 86400 * (40 * rank + 1);
    const struct tm *when = gmtime(&day);
    const int month = when->tm_mon;
    others_run();
    check(when->tm_mon == month, "gmtime");
    errno = 0;
    if (rank == 0) close(-1);
    const int before = errno;
    others_run();
    check(before == (rank ? 0 : EBADF), "errno before others ran");

    // Stacks.
    int numbers[20];
    for (int i = 0; i < 20; i++) numbers[i] = (i * 7 + rank) % 20;
    qsort(numbers, 20, sizeof *numbers, compare);
    for (int i = 0; i < 20; i++) check(numbers[i] == i, "qsort");
    volatile int kept = rank;
    if (!setjmp(back)) others_run(), longjmp(back, 1);
    others_run();
    check(kept == rank, "longjmp");
    signal(SIGUSR1, count_signal);
    others_run();
    raise(SIGUSR1);
    others_run();
    check(signals == 1, "signals");
    char *room = alloca(3 << 20);
    memset(room, rank, 3 << 20);
    others_run();
    check(room[12345] == (char)rank, "alloca");
    check(deep(rank == 1 ? depth : 20) == 0, "recursion");

    printf("rank %d: %d letters, %s, %d wrong\n", rank, letters, rest, wrong);
    MPI_Finalize();
    return 0;
}
