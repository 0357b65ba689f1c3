// ranks: 1 2 3 8
// args: 0 | all
// settings: FARPOST_PROGRESS_THREAD=1
// Children that a rank forks end as programs do, with the exit handlers that they have from their parent, MPI_Finalize among
// them; the parent's communication goes on as if nothing had been. MPI-5.0 leaves open what becomes of MPI in such a child.
#include "check.h"
#include <spawn.h>
#include <sys/wait.h>

static int everybody;
static pid_t parent;

static void at_end(void) {
    int flag = 0;
    MPI_Finalized(&flag);
    if (!flag) MPI_Finalize();
    // Also without asking.
    if (getpid() != parent) MPI_Finalize();
}

// The exit status of a child that calls `body`; what it says on stderr goes to `said`.
static int in_child(void (*body)(void), char *said, size_t room) {
    int ends[2], status = -1;
    size_t got = 0;
    ssize_t n;
    fflush(NULL);
    if (pipe(ends)) return -1;
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        dup2(ends[1], 2);
        body();
        exit(3);
    }
    close(ends[1]);
    while ((n = read(ends[0], said + got, room - 1 - got)) > 0) got += (size_t)n;
    said[got] = 0;
    close(ends[0]);
    waitpid(child, &status, 0);
    return status;
}

static void nothing(void) {}
static void finalize(void) {
    int flag = -1;
    if (MPI_Initialized(&flag) || !flag) _exit(4);
    if (MPI_Finalize()) _exit(5);
}
static void send_it(void) {
    int x = 7;
    MPI_Send(&x, 1, MPI_INT, (check_rank + 1) % check_size, 99, MPI_COMM_WORLD);
}
static void meet(void) { MPI_Barrier(MPI_COMM_WORLD); }
static void again(void) { MPI_Init(NULL, NULL); }
static void give_up(void) { MPI_Abort(MPI_COMM_WORLD, 9); }

static void sums(int rounds) {
    for (int i = 0; i < rounds; i++) {
        int mine = check_rank + i, sum = -1, got = -1;
        MPI(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        CHECK(sum == check_size * (check_size - 1) / 2 + i * check_size);
        MPI(MPI_Sendrecv(&mine, 1, MPI_INT, (check_rank + 1) % check_size, 1, &got, 1, MPI_INT,
                         (check_rank + check_size - 1) % check_size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(got == (check_rank + check_size - 1) % check_size + i);
    }
}

TEST(children_that_end) {
    char said[4096];
    void (*bodies[])(void) = {nothing, finalize};
    for (int i = 0; i < 2; i++) {
        if (everybody || check_rank == 0) {
            int status = in_child(bodies[i], said, sizeof said);
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
            CHECK(said[0] == 0);
        }
        sums(100);
    }
}

#ifdef FARPOST
TEST(children_that_communicate) {
    char said[4096];
    void (*bodies[])(void) = {send_it, meet, again, give_up};
    const char *names[] = {"MPI_Send: ", "MPI_Barrier: ", "MPI_Init: ", "MPI_Abort: "};
    for (int i = 0; i < 4; i++) {
        if (everybody || check_rank == 0) {
            int status = in_child(bodies[i], said, sizeof said);
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 3);
            CHECK(strstr(said, names[i]) && strstr(said, "forked from process"));
        }
        sums(10);
    }
    // Nothing that a child sent has come.
    int flag = 1;
    MPI(MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag);
}
#endif

// One that is still there when its parent has finished with MPI.
TEST(children_that_stay) {
    int hold[2];
    if (pipe(hold)) return;
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(hold[1]);
        if (read(hold[0], &byte, 1) != 0) _exit(6);
        exit(3);
    }
    close(hold[0]);
    sums(50);
    close(hold[1]);
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

TEST(other_programs) {
    extern char **environ;
    char *const args[] = {"sh", "-c", "exit 5", NULL};
    int status = -1;
    pid_t child;
    CHECK(system("exit 4") == 4 << 8);
    sums(10);
    CHECK(posix_spawnp(&child, "sh", NULL, NULL, args, environ) == 0);
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
    sums(10);
    child = vfork();
    if (child == 0) {
        execvp("sh", args);
        _exit(127);
    }
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
    sums(10);
}

int main(int argc, char **argv) {
    parent = getpid();
    check_init(&argc, &argv);
    everybody = argc > 1 && strcmp(argv[1], "all") == 0;
    atexit(at_end);
    RUN(children_that_end);
#ifdef FARPOST
    RUN(children_that_communicate);
#endif
    RUN(children_that_stay);
    RUN(other_programs);
    return check_done();
}
