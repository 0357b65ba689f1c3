/*
 * Memory of a rank for its peers: messages from all to all, 8 bytes, 1 KiB and 64 KiB long, and a rest.
 *
 *   peers [ROUNDS]     messages of each length to each peer, default 20
 *
 * Each rank reads, before it meets any peer and after each step, its private memory (Anonymous of smaps_rollup) and the pages
 * of the memory files that it exports; the memory of the job, which all ranks of a host share, counts in parts. Rank 0 prints
 * a line for each step: "peers STEP MIN MEDIAN MAX PRIVATE", KiB more than before any peer was met; PRIVATE is the mean of the first part.
 */
#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LARGEST 65536

static int rank, size, local;

static long anonymous(void) {
    long kib = -1;
    char line[256];
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Anonymous: %ld kB", &kib) == 1) break;
    if (f) fclose(f);
    return kib;
}

/* KiB of the memory files that this process holds open: its own, and its part of the job's. */
static double files(void) {
    double kib = 0;
    DIR *dir = opendir("/proc/self/fd");
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[300], to[300];
        struct stat about;
        snprintf(path, sizeof path, "/proc/self/fd/%s", e->d_name);
        ssize_t n = readlink(path, to, sizeof to - 1);
        if (n < 0 || stat(path, &about) != 0) continue;
        to[n] = 0;
        if (strncmp(to, "/memfd:", 7) != 0) continue;
        double here = about.st_blocks / 2.0;
        kib += strncmp(to, "/memfd:farpost-job", 18) == 0 ? here / local : here;
    }
    if (dir) closedir(dir);
    return kib;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double steps[16];
static const char *names[8];
static int taken;
static double before[2];

static void step(const char *name) {
    names[taken] = name;
    steps[2 * taken] = anonymous() - before[0];
    steps[2 * taken++ + 1] = files() - before[1];
}

static void exchange(char *out, char *in, int bytes, int rounds, MPI_Request *requests) {
    for (int round = 0; round < rounds; round++) {
        int posted = 0;
        for (int i = 1; i < size; i++) {
            int from = (rank + size - i) % size;
            MPI_Irecv(in + (size_t)from * LARGEST, bytes, MPI_BYTE, from, bytes, MPI_COMM_WORLD, &requests[posted++]);
        }
        for (int i = 1; i < size; i++) {
            out[0] = (char)(rank + round);
            MPI_Send(out, bytes, MPI_BYTE, (rank + i) % size, bytes, MPI_COMM_WORLD);
        }
        MPI_Waitall(posted, requests, MPI_STATUSES_IGNORE);
        for (int from = 0; from < size; from++)
            if (from != rank && in[(size_t)from * LARGEST] != (char)(from + round)) {
                fprintf(stderr, "peers: rank %d got something else from %d\n", rank, from);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
    }
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 20;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char *in = malloc((size_t)size * LARGEST), *out = malloc(LARGEST);
    double *all = malloc((size_t)size * 16 * sizeof *all);
    MPI_Request *requests = malloc((size_t)size * sizeof *requests);
    if (!in || !out || !requests || !all) return 1;
    memset(in, 1, (size_t)size * LARGEST);
    memset(out, 2, LARGEST);
    memset(all, 0, (size_t)size * 16 * sizeof *all);
    memset(requests, 0, (size_t)size * sizeof *requests);
    const char *said = getenv("PEERS_LOCAL");
    local = said ? atoi(said) : size;
    for (int i = 0; i < 2; i++) {
        before[0] = anonymous();
        before[1] = files();
    }
    exchange(out, in, 8, 1, requests);
    step("met");
    exchange(out, in, 8, rounds, requests);
    step("8");
    exchange(out, in, 1024, rounds, requests);
    step("1024");
    exchange(out, in, 65536, rounds, requests);
    step("65536");
    MPI_Barrier(MPI_COMM_WORLD);
    /* A second of rest in which MPI is called now and then. */
    for (double end = seconds() + 1.5; seconds() < end;) {
        int flag;
        for (int i = 0; i < 200; i++) MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        usleep(5000);
    }
    step("rest");
    MPI_Barrier(MPI_COMM_WORLD);
    exchange(out, in, 1024, rounds, requests);
    /* A second of rest without calls. */
    double end = seconds() + 1.5;
    while (seconds() < end) usleep(50000);
    step("away");
    MPI_Gather(steps, 16, MPI_DOUBLE, all, 16, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    double *of = malloc((size_t)size * sizeof *of);
    if (!of) return 1;
    for (int s = 0; rank == 0 && s < taken; s++) {
        double private = 0;
        for (int i = 0; i < size; i++) {
            of[i] = all[16 * i + 2 * s] + all[16 * i + 2 * s + 1];
            private += all[16 * i + 2 * s] / size;
        }
        qsort(of, (size_t)size, sizeof *of, ascending);
        printf("peers %s %.0f %.0f %.0f %.0f\n", names[s], of[0], of[size / 2], of[size - 1], private);
    }
    free(of);
    MPI_Finalize();
    return 0;
}
