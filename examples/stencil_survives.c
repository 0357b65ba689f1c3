/* A stencil that loses processes at random and finishes right: mpicc stencil_survives.c -o stencil && mpiexec --on-failure continue -n 6 ./stencil 17

   A ring of cells is averaged with its neighbours again and again. Every process has a part of it, and keeps of each tenth step a copy of everybody's
   cells. When one ends, those that are left revoke the communicator, make a smaller one, agree on the last copy that all of them have, share the
   ring anew and go on from there. The argument is the seed of who ends when: 0, nobody does. */
#include <mpi.h>
#include <farpost/mpix.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CELLS = 960, STEPS = 400, EACH = 10 };

static double kept[2][CELLS]; /* the copies of the last two tenth steps */
static int kept_at[2] = {0, -1};
static int losses;

static unsigned draw(unsigned long *state) {
    *state = *state * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned)(*state >> 33);
}

static void start(double *all) {
    for (int i = 0; i < CELLS; i++) all[i] = (double)((i * 37) % 101);
}

/* From the copy of step `from` as far as it goes; 0: to the end. */
static int go(MPI_Comm comm, int from, unsigned long *luck, int spare, double *result) {
    int rank, size, error;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int first = (int)((long)CELLS * rank / size), last = (int)((long)CELLS * (rank + 1) / size), mine = last - first;
    double cells[CELLS + 2], next[CELLS + 2];
    int counts[size], starts[size];
    for (int r = 0; r < size; r++) {
        starts[r] = (int)((long)CELLS * r / size);
        counts[r] = (int)((long)CELLS * (r + 1) / size) - starts[r];
    }
    memcpy(cells + 1, kept[kept_at[1] == from] + first, (size_t)mine * sizeof *cells);
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    for (int step = from; step < STEPS;) {
        if (*luck && !spare && draw(luck) % 300 == 0) raise(SIGKILL);
        error = MPI_Sendrecv(cells + 1, 1, MPI_DOUBLE, left, 0, cells + mine + 1, 1, MPI_DOUBLE, right, 0, comm, MPI_STATUS_IGNORE);
        if (error) return error;
        error = MPI_Sendrecv(cells + mine, 1, MPI_DOUBLE, right, 1, cells, 1, MPI_DOUBLE, left, 1, comm, MPI_STATUS_IGNORE);
        if (error) return error;
        for (int i = 1; i <= mine; i++) next[i] = 0.25 * cells[i - 1] + 0.5 * cells[i] + 0.25 * cells[i + 1];
        memcpy(cells + 1, next + 1, (size_t)mine * sizeof *cells);
        if (++step % EACH == 0) {
            double all[CELLS];
            error = MPI_Allgatherv(cells + 1, mine, MPI_DOUBLE, all, counts, starts, MPI_DOUBLE, comm);
            if (error) return error;
            /* The older copy goes: everybody has got to the newer one, or this step's cells would not have come. */
            int at = kept_at[0] > kept_at[1];
            memcpy(kept[at], all, sizeof all);
            kept_at[at] = step;
        }
    }
    memcpy(result, kept[kept_at[1] == STEPS], CELLS * sizeof *result);
    return 0;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int world_rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    unsigned long seed = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    unsigned long luck = seed ? seed * 1000 + (unsigned long)world_rank : 0;
    for (int i = 0; i < 10 && luck; i++) draw(&luck);
    start(kept[0]);
    MPI_Comm comm = MPI_COMM_WORLD;
    static double result[CELLS];
    for (int from = 0;;) {
        /* One process in three is spared, so that somebody is left. */
        int failed = go(comm, from, &luck, world_rank % 3 == 0, result) != 0;
        if (failed) MPIX_Comm_revoke(comm);
        /* All came to the end, or nobody goes home. Whoever has not acknowledged an end hears of it here. */
        int well = !failed;
        int error = MPIX_Comm_agree(comm, &well);
        if (!error && well) break;
        MPIX_Comm_revoke(comm);
        MPI_Comm smaller;
        if (MPIX_Comm_shrink(comm, &smaller)) MPI_Abort(MPI_COMM_WORLD, 1);
        if (comm != MPI_COMM_WORLD) MPI_Comm_free(&comm);
        comm = smaller;
        losses++;
        /* The newest copy that all have: nobody is more than one ahead of another, and everybody has the last two. */
        int newest = kept_at[0] > kept_at[1] ? kept_at[0] : kept_at[1], least;
        if (MPI_Allreduce(&newest, &least, 1, MPI_INT, MPI_MIN, comm)) least = -1;
        int same = least >= 0;
        if (MPIX_Comm_agree(comm, &same) || !same) {
            from = newest; /* somebody ended again: go() fails at once, for all, and we are back here */
            MPIX_Comm_revoke(comm);
            continue;
        }
        from = least;
        for (int i = 0; i < 2; i++)
            if (kept_at[i] > from) kept_at[i] = -1; /* not everybody has got there */
    }
    double should[CELLS], next[CELLS];
    start(should);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < CELLS; i++)
            next[i] = 0.25 * should[(i + CELLS - 1) % CELLS] + 0.5 * should[i] + 0.25 * should[(i + 1) % CELLS];
        memcpy(should, next, sizeof should);
    }
    int right = memcmp(should, result, sizeof should) == 0, size, rank;
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    if (!right) printf("rank %d: wrong\n", world_rank);
    if (rank == 0 && right) printf("right, by %d processes that are left, after going back %d times\n", size, losses);
    fflush(stdout);
    MPI_Finalize();
    return !right;
}
