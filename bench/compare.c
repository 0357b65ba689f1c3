/* The benchmark behind `make compare`: one source, compiled once for the standard ABI and once for each other.
 *
 *   compare pair      2 ranks: ping-pong, message rate, allreduce, and a curve of ping-pong times by size
 *   compare crowd     more ranks than cores: barrier and allreduce
 *   compare far       2 ranks on 2 hosts: ping-pong at the sizes of `pair`
 *   compare stream S  2 ranks: messages of 4 MiB one way for S seconds; bandwidth and the longest pause
 *   compare empty     MPI_Init and MPI_Finalize
 *   compare idle      a rank that sleeps after MPI_Init tells its resident memory
 *   compare memory    messages around a ring; then every rank's memory, resident and its share of it (Pss)
 *   compare version   what the library says it is
 *
 * Rank 0 prints one line a result: `result NAME VALUE UNIT`. Every message and every sum is checked, outside the
 * timed loops. A time is the median of several trials, each long enough for its clock; with collectives, the
 * slowest rank's time counts.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRIALS = 15, WINDOW = 64, LARGEST = 4 << 20 };

static const long sizes[] = {64 << 10, 1 << 20, LARGEST};
static int rank, size;
static char *out, *in;

static _Noreturn void fail(const char *what, long at) {
    fprintf(stderr, "compare: rank %d: wrong data in %s at %ld\n", rank, what, at);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

static char pattern(long i, int seed) { return (char)(1 + (i + 37 * seed) % 251 % 127); }

static void fill(char *data, long bytes, int seed) {
    for (long i = 0; i < bytes; i++) data[i] = pattern(i, seed);
}

static void verify(const char *data, long bytes, int seed, const char *what) {
    for (long i = 0; i < bytes; i++)
        if (data[i] != pattern(i, seed)) fail(what, i);
}

/* What is measured: `times` operations with messages of `bytes`. */
typedef void operation(long bytes, long times);

static void pingpong(long bytes, long times) {
    int peer = 1 - rank;
    for (long i = 0; i < times; i++) {
        if (rank == 0) {
            MPI_Send(out, (int)bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
            MPI_Recv(in, (int)bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in, (int)bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, (int)bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
        }
    }
}

static void windows(long bytes, long times) {
    MPI_Request request[WINDOW];
    char answer = 0;
    int peer = 1 - rank;
    for (long i = 0; i < times; i++) {
        for (int w = 0; w < WINDOW; w++) {
            if (rank == 0)
                MPI_Isend(out + w * bytes, (int)bytes, MPI_BYTE, peer, 2, MPI_COMM_WORLD, &request[w]);
            else
                MPI_Irecv(in + w * bytes, (int)bytes, MPI_BYTE, peer, 2, MPI_COMM_WORLD, &request[w]);
        }
        MPI_Waitall(WINDOW, request, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(&answer, 1, MPI_BYTE, peer, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(&answer, 1, MPI_BYTE, peer, 3, MPI_COMM_WORLD);
    }
}

static void barrier(long bytes, long times) {
    (void)bytes;
    for (long i = 0; i < times; i++) MPI_Barrier(MPI_COMM_WORLD);
}

static void allreduce(long bytes, long times) {
    int count = (int)(bytes / (long)sizeof(double));
    for (long i = 0; i < times; i++) MPI_Allreduce(out, in, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Seconds of one operation: the median of `trials`, each of about `target` seconds. */
static double measure(operation *run, long bytes, int trials, double target, int slowest) {
    double times[64];
    long n = 1;
    for (;;) { /* rank 0's clock decides how often all ranks repeat; the quicker of two runs counts */
        double took = 1e9;
        for (int k = 0; k < 2; k++) {
            double start = MPI_Wtime();
            run(bytes, n);
            double t = MPI_Wtime() - start;
            if (t < took) took = t;
        }
        long next = took > 1e-7 ? (long)(target / took * (double)n) + 1 : 16 * n;
        int enough = took >= target / 2;
        if (!enough && next < 2 * n) next = 2 * n;
        if (!enough && next > 16 * n) next = 16 * n;
        long agreed[2] = {next, enough};
        MPI_Bcast(agreed, 2, MPI_LONG, 0, MPI_COMM_WORLD);
        n = agreed[0];
        if (agreed[1]) break;
    }
    for (int t = 0; t < trials; t++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        run(bytes, n);
        double took = (MPI_Wtime() - start) / (double)n, all = took;
        if (slowest) MPI_Allreduce(&took, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        times[t] = all;
    }
    qsort(times, (size_t)trials, sizeof *times, ascending);
    return times[trials / 2];
}

static void result(const char *name, double value, const char *unit) {
    if (rank == 0) printf("result %s %.9g %s\n", name, value, unit);
    fflush(stdout);
}

static double checked_pingpong(long bytes, int trials, double target) {
    if (bytes < 1 || bytes > LARGEST) fail("the size of a ping-pong", bytes);
    fill(out, bytes, rank);
    memset(in, 0, (size_t)bytes);
    double t = measure(pingpong, bytes, trials, target, 0) / 2;
    verify(in, bytes, 1 - rank, "a ping-pong");
    return t;
}

static double checked_allreduce(long bytes, double target) {
    long count = bytes / (long)sizeof(double);
    double *x = (double *)out, *y = (double *)in;
    for (long i = 0; i < count; i++) x[i] = (double)((rank + 1) * (i % 7 + 1));
    memset(in, 0, (size_t)bytes);
    double t = measure(allreduce, bytes, TRIALS, target, 1);
    for (long i = 0; i < count; i++)
        if (y[i] != (double)(size * (size + 1) / 2 * (i % 7 + 1))) fail("an allreduce", i);
    return t;
}

static void pair(void) {
    char name[64];
    result("latency_8", checked_pingpong(8, TRIALS, 0.02) * 1e6, "us");
    fill(out, 8 * WINDOW, rank);
    memset(in, 0, 8 * WINDOW);
    result("rate_8", WINDOW / measure(windows, 8, TRIALS, 0.02, 1) / 1e6, "M/s");
    if (rank == 1) verify(in, 8 * WINDOW, 0, "a window");
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "bandwidth_%ld", sizes[i]);
        result(name, (double)sizes[i] / checked_pingpong(sizes[i], TRIALS, 0.02) / 1e9, "GB/s");
    }
    result("allreduce_8", checked_allreduce(8, 0.02) * 1e6, "us");
    result("allreduce_1048576", checked_allreduce(1 << 20, 0.02) * 1e6, "us");
    for (long bytes = 1; bytes <= LARGEST; bytes *= 2) {
        snprintf(name, sizeof name, "curve_%ld", bytes);
        result(name, checked_pingpong(bytes, 5, 0.003) * 1e6, "us");
    }
}

static void far(void) {
    char name[64];
    result("latency_8", checked_pingpong(8, TRIALS, 0.02) * 1e6, "us");
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "bandwidth_%ld", sizes[i]);
        result(name, (double)sizes[i] / checked_pingpong(sizes[i], TRIALS, 0.02) / 1e9, "GB/s");
    }
}

/* Every message begins with its number and whether another follows, and is a pattern that depends on the number. */
static void stream(double seconds) {
    long head[2] = {0, 1}, messages = 0;
    double start = MPI_Wtime(), last = start, longest = 0;
    if (rank == 0) {
        char *buffers[2] = {out, in};
        MPI_Request pending[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        while (head[1]) {
            int at = (int)(messages % 2);
            MPI_Wait(&pending[at], MPI_STATUS_IGNORE);
            head[0] = messages;
            head[1] = MPI_Wtime() - start < seconds;
            memset(buffers[at], (int)(messages & 127), LARGEST);
            memcpy(buffers[at], head, sizeof head);
            MPI_Isend(buffers[at], LARGEST, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &pending[at]);
            messages++;
        }
        MPI_Waitall(2, pending, MPI_STATUSES_IGNORE);
        return;
    }
    /* The next message is on its way while one is looked at. */
    char *buffers[2] = {in, malloc(LARGEST)}, *expected = out;
    MPI_Request pending[2];
    if (!buffers[1]) fail("memory", LARGEST);
    for (int i = 0; i < 2; i++) MPI_Irecv(buffers[i], LARGEST, MPI_BYTE, 0, 4, MPI_COMM_WORLD, &pending[i]);
    while (head[1]) {
        int at = (int)(messages % 2);
        MPI_Wait(&pending[at], MPI_STATUS_IGNORE);
        double now = MPI_Wtime();
        if (messages > 0 && now - last > longest) longest = now - last;
        last = now;
        memcpy(head, buffers[at], sizeof head);
        if (head[0] != messages) fail("the order of a stream", messages);
        memset(expected, (int)(messages & 127), LARGEST);
        if (memcmp(buffers[at] + sizeof head, expected + sizeof head, LARGEST - sizeof head) != 0)
            fail("a stream", messages);
        messages++;
        if (head[1]) MPI_Irecv(buffers[at], LARGEST, MPI_BYTE, 0, 4, MPI_COMM_WORLD, &pending[at]);
    }
    for (int i = 0; i < 2; i++) {
        if (pending[i] == MPI_REQUEST_NULL) continue;
        MPI_Cancel(&pending[i]);
        MPI_Wait(&pending[i], MPI_STATUS_IGNORE);
    }
    free(buffers[1]);
    printf("result stream_bandwidth %.9g GB/s\n", (double)messages * LARGEST / (last - start) / 1e9);
    printf("result stream_pause %.9g s\n", longest);
    fflush(stdout);
}

static void crowd(void) {
    result("crowd_barrier", measure(barrier, 0, TRIALS, 0.02, 1) * 1e6, "us");
    result("crowd_allreduce_8", checked_allreduce(8, 0.02) * 1e6, "us");
}

static void idle(void) {
    char line[256];
    long kib = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    usleep(300000);
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmRSS: %ld", &kib) == 1) break;
    if (status) fclose(status);
    result("resident", (double)kib / 1024, "MiB");
}

/* Kilobytes of this process: resident, and with shared pages divided among those who have them. */
static void footprint(long *resident, long *share) {
    char line[256];
    FILE *rollup = fopen("/proc/self/smaps_rollup", "r");
    *resident = *share = 0;
    while (rollup && fgets(line, sizeof line, rollup)) {
        sscanf(line, "Rss: %ld", resident);
        sscanf(line, "Pss: %ld", share);
    }
    if (rollup) fclose(rollup);
}

static void memory(void) {
    enum { ROUNDS = 20, WORDS = 2048 };
    static long out_words[WORDS], in_words[WORDS], all[2 * 4096];
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int round = 0; round < ROUNDS; round++) {
        int count = round % 2 ? WORDS : 1; /* short messages and long ones */
        for (int i = 0; i < count; i++) out_words[i] = rank * 1000L + round + i;
        MPI_Sendrecv(out_words, count, MPI_LONG, next, 5, in_words, count, MPI_LONG, before, 5, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        for (int i = 0; i < count; i++)
            if (in_words[i] != before * 1000L + round + i) fail("a ring", i);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    long mine[2];
    footprint(&mine[0], &mine[1]);
    MPI_Barrier(MPI_COMM_WORLD); /* nobody has left, or asks for more, while others look */
    if (size > 4096) {
        fprintf(stderr, "compare: memory is for 4096 ranks at most\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Gather(mine, 2, MPI_LONG, all, 2, MPI_LONG, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < size; i++) printf("memory %d %ld %ld\n", i, all[2 * i], all[2 * i + 1]);
    fflush(stdout);
}

static void version(void) {
    static char text[MPI_MAX_LIBRARY_VERSION_STRING + 1];
    int length = 0;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, "\n")] = 0;
    if (rank == 0) printf("version %s\n", text);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(mode, "pair") == 0 || strcmp(mode, "crowd") == 0 || strcmp(mode, "far") == 0 ||
        strcmp(mode, "stream") == 0) {
        out = malloc(LARGEST);
        in = malloc(LARGEST);
        if (!out || !in) {
            fprintf(stderr, "compare: no memory\n");
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        memset(out, 1, LARGEST); /* no page is touched first inside a timed loop */
        memset(in, 1, LARGEST);
    }
    if (strcmp(mode, "pair") == 0 && size == 2)
        pair();
    else if (strcmp(mode, "far") == 0 && size == 2)
        far();
    else if (strcmp(mode, "stream") == 0 && size == 2 && argc > 2)
        stream(atof(argv[2]));
    else if (strcmp(mode, "crowd") == 0)
        crowd();
    else if (strcmp(mode, "idle") == 0)
        idle();
    else if (strcmp(mode, "memory") == 0)
        memory();
    else if (strcmp(mode, "version") == 0)
        version();
    else if (strcmp(mode, "empty") != 0 && rank == 0) {
        fprintf(stderr, "compare: usage: compare pair (2 ranks) | far (2 ranks) | stream SECONDS (2 ranks) | crowd | empty | idle | memory | version\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    free(out);
    free(in);
    return MPI_Finalize();
}
