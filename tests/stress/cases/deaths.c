// deaths STAGE ACTION VICTIM DELAY: a rank meets its end, or runs out of something, at STAGE, DELAY microseconds after that
// began; the others tell what becomes of it. Run by tests/stress/deaths.py.
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define BIG (1 << 20)
static const char *stage, *action;
static int victim, rank, size, delay;
static int *big, *big2;

static int is(const char *what) { return strcmp(stage, what) == 0; }

static void limit(int which, rlim_t most) {
    struct rlimit now = {most, most};
    if (setrlimit(which, &now)) perror("setrlimit");
}

static void act(void) {
    if (!strcmp(action, "kill")) kill(getpid(), SIGKILL);
    if (!strcmp(action, "segv")) {
        signal(SIGSEGV, SIG_DFL);
        kill(getpid(), SIGSEGV);
    }
    if (!strcmp(action, "exit")) _exit(7);
    if (!strcmp(action, "stop")) kill(getpid(), SIGSTOP);
    if (!strcmp(action, "files")) {
        // None but those that are open, at most a few more.
        int fd, last = 2;
        for (fd = 3; fd < 4096; fd++)
            if (fcntl(fd, F_GETFD) >= 0) last = fd;
        while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0 && fd < last) {}
        limit(RLIMIT_NOFILE, last + 1 + (rlim_t)(delay % 4));
    }
    if (!strcmp(action, "memory")) {
        long pages = 0;
        FILE *f = fopen("/proc/self/statm", "r");
        if (f && fscanf(f, "%ld", &pages) == 1) limit(RLIMIT_AS, (rlim_t)pages * 4096 + (rlim_t)(delay % 8) * 512 * 1024);
        if (f) fclose(f);
    }
    if (!strcmp(action, "threads")) limit(RLIMIT_NPROC, 1);
}

static void *later(void *unused) {
    usleep((useconds_t)delay);
    act();
    return unused;
}

// At the stage: now, or a little later from another thread.
static void begin(const char *here) {
    static int begun;
    if (rank != victim || begun || strcmp(stage, here)) return;
    begun = 1;
    if (delay == 0) {
        act();
        return;
    }
    pthread_t thread;
    if (pthread_create(&thread, NULL, later, NULL)) act();
}

static int test_loop(MPI_Request *request) {
    int flag = 0, rc = MPI_SUCCESS;
    while (!flag && rc == MPI_SUCCESS) rc = MPI_Test(request, &flag, MPI_STATUS_IGNORE);
    return rc;
}

// One turn of what the ranks do with each other at this stage; the first error.
static int turn(int i) {
    MPI_Comm w = MPI_COMM_WORLD;
    MPI_Status status;
    MPI_Request r;
    int next = (rank + 1) % size, before = (rank + size - 1) % size, x = i, y = -1, flag = 0, rc;
    // The others wait for the victim, which sends to all of them, or the other way round.
    int from = victim;
    if (is("recv") || is("any") || is("probe") || is("iprobe") || is("mprobe") || is("test") || is("bigrecv") || is("gaps")) {
        int big_one = is("bigrecv") || is("gaps");
        MPI_Datatype type = MPI_INT;
        int count = big_one ? BIG : 1;
        if (is("gaps")) {
            MPI_Type_vector(BIG / 2, 1, 2, MPI_INT, &type);
            MPI_Type_commit(&type);
            count = 1;
        }
        if (rank == victim) {
            rc = MPI_SUCCESS;
            for (int to = 0; to < size && !rc; to++)
                if (to != rank) rc = MPI_Send(big_one ? big : &x, count, type, to, 1, w);
        } else if (is("probe")) {
            rc = MPI_Probe(from, 1, w, &status);
            if (!rc) rc = MPI_Recv(&y, 1, MPI_INT, from, 1, w, &status);
        } else if (is("iprobe")) {
            for (rc = MPI_SUCCESS; !flag && !rc;) rc = MPI_Iprobe(from, 1, w, &flag, &status);
            if (!rc) rc = MPI_Recv(&y, 1, MPI_INT, from, 1, w, &status);
        } else if (is("mprobe")) {
            MPI_Message message;
            rc = MPI_Mprobe(from, 1, w, &message, &status);
            if (!rc) rc = MPI_Mrecv(&y, 1, MPI_INT, &message, &status);
        } else if (is("test")) {
            rc = MPI_Irecv(&y, 1, MPI_INT, from, 1, w, &r);
            if (!rc) rc = test_loop(&r);
        } else {
            rc = MPI_Recv(big_one ? big2 : &y, count, type, is("any") ? MPI_ANY_SOURCE : from, 1, w, &status);
        }
        if (is("gaps")) MPI_Type_free(&type);
        return rc;
    }
    if (is("ssend")) {
        if (rank == victim) {
            rc = MPI_SUCCESS;
            for (int other = 0; other < size && !rc; other++)
                if (other != rank) rc = MPI_Recv(&y, 1, MPI_INT, other, 1, w, &status);
            return rc;
        }
        return MPI_Ssend(&x, 1, MPI_INT, victim, 1, w);
    }
    if (is("flood")) { // Sends that wait for room.
        if (rank == victim) return MPI_Recv(&y, 1, MPI_INT, MPI_ANY_SOURCE, 77, w, &status);
        return MPI_Send(big, 1000, MPI_INT, victim, 1, w);
    }
    if (is("bigsend") || is("exchange")) return MPI_Sendrecv(big, BIG, MPI_INT, next, 1, big2, BIG, MPI_INT, before, 1, w, &status);
    if (is("barrier")) return MPI_Barrier(w);
    if (is("bcast")) return MPI_Bcast(&x, 1, MPI_INT, i % size, w);
    if (is("bigbcast")) return MPI_Bcast(big, BIG, MPI_INT, i % size, w);
    if (is("allreduce")) return MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_SUM, w);
    if (is("bigallreduce")) return MPI_Allreduce(big, big2, BIG, MPI_INT, MPI_SUM, w);
    if (is("alltoall")) return MPI_Alltoall(big, BIG / size, MPI_INT, big2, BIG / size, MPI_INT, w);
    if (is("gather")) return MPI_Gather(big, BIG / size, MPI_INT, big2, BIG / size, MPI_INT, i % size, w);
    if (is("scan")) return MPI_Scan(&x, &y, 1, MPI_INT, MPI_SUM, w);
    if (is("ibarrier")) {
        rc = MPI_Ibarrier(w, &r);
        return rc ? rc : test_loop(&r);
    }
    if (is("iallreduce")) {
        rc = MPI_Iallreduce(big, big2, BIG, MPI_INT, MPI_SUM, w, &r);
        return rc ? rc : MPI_Wait(&r, MPI_STATUS_IGNORE);
    }
    if (is("dup")) {
        MPI_Comm copy;
        rc = MPI_Comm_dup(w, &copy);
        return rc ? rc : MPI_Comm_free(&copy);
    }
    fprintf(stderr, "FAIL deaths: no stage %s\n", stage);
    exit(99);
}

int main(int argc, char **argv) {
    if (argc < 5) return 99;
    stage = argv[1], action = argv[2], victim = atoi(argv[3]), delay = atoi(argv[4]);
    const char *variables[] = {"FARPOST_RANK", "PMI_RANK", "PMIX_RANK"};
    for (int i = 0; i < 3; i++)
        if (getenv(variables[i])) rank = atoi(getenv(variables[i]));
    // What lacks from the beginning is noticed on the way.
    if (is("start") || !strcmp(action, "threads")) {
        stage = is("start") ? "start" : stage;
        if (rank == victim && !is("start")) act();
        begin("start");
    }
    begin("init");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    big = calloc(BIG, sizeof *big);
    big2 = calloc(BIG, sizeof *big2);
    int rc = MPI_SUCCESS;
    if (is("start") || is("init")) {
        stage = "barrier";
        for (int i = 0; i < 50 && !rc; i++) rc = turn(i);
        if (!rc) MPI_Finalize();
    } else if (is("finalize")) {
        rc = MPI_Barrier(MPI_COMM_WORLD);
        begin("finalize");
        if (!rc) rc = MPI_Finalize();
    } else {
        // Half of them find what they wait for broken when they come to it.
        rc = MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; !rc; i++) {
            begin(stage);
            rc = turn(i);
            // Without an end that comes from outside, all agree on the last turn.
            if (!rc && i == 200 && (!strcmp(action, "files") || !strcmp(action, "memory") || !strcmp(action, "threads"))) break;
        }
        if (!rc) rc = MPI_Finalize();
    }
    if (rc) {
        char text[MPI_MAX_ERROR_STRING];
        int length, class = 0;
        MPI_Error_string(rc, text, &length);
        MPI_Error_class(rc, &class);
        fprintf(stderr, "rank %d: %s\n", rank, text);
        // Survivors may finalise; the others need not be there.
        if (class == MPI_ERR_PROC_ABORTED && rank % 2) MPI_Finalize();
        fflush(NULL);
        _exit(class == MPI_ERR_PROC_ABORTED ? 0 : 1);
    }
    return 0;
}
