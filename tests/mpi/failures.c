// ranks: 1 2 3 4 8
// Going on after failures (farpost/mpix.h): revoked communicators, agreement, smaller communicators, who has ended. With a number as argument a
// rank is killed at a moment that follows from it (tests/mpi/failures.sh).
#include "check.h"
#include <farpost/mpix.h>
#include <unistd.h>

static int rank, size;

static MPI_Comm copy(void) {
    MPI_Comm c = MPI_COMM_NULL;
    MPI(MPI_Comm_dup(MPI_COMM_WORLD, &c));
    return c;
}

static int sum(MPI_Comm c) {
    int one = 1, all = -1;
    MPI(MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, c));
    return all;
}

TEST(nobody_has_ended) {
    MPI_Group failed = MPI_GROUP_NULL;
    int n = -1, flag = -1;
    MPI(MPIX_Comm_get_failed(MPI_COMM_WORLD, &failed));
    CHECK(failed == MPI_GROUP_EMPTY);
    MPI(MPIX_Comm_ack_failed(MPI_COMM_WORLD, 5, &n));
    CHECK_EQ(n, 0);
    MPI(MPIX_Comm_is_revoked(MPI_COMM_WORLD, &flag));
    CHECK_EQ(flag, 0);
}

TEST(agreements) {
    MPI_Request r[3];
    int flag[3];
    for (int i = 0; i < 50; i++) {
        int bits = ~(1 << ((rank + i) % 20));
        MPI(MPIX_Comm_agree(MPI_COMM_WORLD, &bits));
        int want = -1;
        for (int other = 0; other < size; other++) want &= ~(1 << ((other + i) % 20));
        CHECK_EQ(bits, want);
    }
    // Several under way, beside each other and a blocking one.
    for (int i = 0; i < 3; i++) {
        flag[i] = rank == i % size ? 6 : 7;
        MPI(MPIX_Comm_iagree(MPI_COMM_WORLD, &flag[i], &r[i]));
    }
    int bits = rank ? 3 : 1;
    MPI(MPIX_Comm_agree(MPI_COMM_WORLD, &bits));
    CHECK_EQ(bits, 1);
    MPI(MPI_Waitall(3, r, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 3; i++) CHECK_EQ(flag[i], 6);
    // Very many, which all others have begun before rank 0 begins any.
    enum { MANY = 200 };
    MPI_Request many[MANY];
    int flags[MANY];
    for (int i = 0; i < MANY; i++) flags[i] = 1 | (rank == i % size) << 1;
    for (int from = 1; from < size && rank == 0; from++) MPI(MPI_Recv(NULL, 0, MPI_INT, from, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < MANY; i++) MPI(MPIX_Comm_iagree(MPI_COMM_WORLD, &flags[i], &many[i]));
    if (rank) MPI(MPI_Send(NULL, 0, MPI_INT, 0, 9, MPI_COMM_WORLD));
    MPI(MPI_Waitall(MANY, many, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MANY; i++) CHECK_EQ(flags[i], size == 1 ? 3 : 1);
}

TEST(smaller_ones_of_all) {
    MPI_Comm c = MPI_COMM_NULL, later = MPI_COMM_NULL;
    MPI_Request r;
    int same = -1;
    MPI(MPIX_Comm_shrink(MPI_COMM_WORLD, &c));
    MPI(MPIX_Comm_ishrink(MPI_COMM_WORLD, &later, &r));
    CHECK_EQ(sum(c), size);
    MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
    CHECK_EQ(sum(later), size);
    MPI(MPI_Comm_compare(c, later, &same));
    CHECK_EQ(same, MPI_CONGRUENT);
    MPI(MPI_Comm_free(&c));
    MPI(MPI_Comm_free(&later));
}

// Rank 0 revokes what the others wait on, each in another way.
TEST(revoked) {
    for (int how = 0; how < 6; how++) {
        MPI_Comm c = copy(), left = MPI_COMM_NULL;
        MPI_Request r = MPI_REQUEST_NULL;
        int flag = 0, word = 0, error, class;
        sum(c);
        // All have come out of that.
        sum(MPI_COMM_WORLD);
        if (rank == 0) {
            usleep(2000);
            MPI(MPIX_Comm_revoke(c));
        } else {
            switch ((how + rank) % 6) {
            case 0: MPI_FAILS(MPI_Recv(&word, 1, MPI_INT, 0, 1, c, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED); break;
            case 1: MPI_FAILS(MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 1, c, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED); break;
            case 2: MPI_FAILS(MPI_Barrier(c), MPIX_ERR_REVOKED); break;
            case 3: MPI_FAILS(MPI_Probe(0, 1, c, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED); break;
            case 4:
                // On a busy host it may be revoked already.
                error = MPI_Ibarrier(c, &r);
                if (error == MPI_SUCCESS) error = MPI_Wait(&r, MPI_STATUS_IGNORE);
                MPI(MPI_Error_class(error, &class));
                CHECK_EQ(class, MPIX_ERR_REVOKED);
                break;
            case 5:
                while (!flag) MPI(MPIX_Comm_is_revoked(c, &flag));
                break;
            }
        }
        MPI(MPIX_Comm_is_revoked(c, &flag));
        CHECK_EQ(flag, 1);
        MPI_FAILS(MPI_Send(&word, 1, MPI_INT, rank, 1, c), MPIX_ERR_REVOKED);
        MPI_FAILS(MPI_Recv(&word, 1, MPI_INT, rank, 1, c, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
        MPI_FAILS(MPI_Irecv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 1, c, &r), MPIX_ERR_REVOKED);
        MPI_FAILS(MPI_Iprobe(MPI_ANY_SOURCE, 1, c, &flag, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
        MPI_FAILS(MPI_Barrier(c), MPIX_ERR_REVOKED);
        MPI_FAILS(MPI_Ibarrier(c, &r), MPIX_ERR_REVOKED);
        MPI_FAILS(MPI_Comm_dup(c, &left), MPIX_ERR_REVOKED);
        flag = 5 | rank << 4;
        MPI(MPIX_Comm_agree(c, &flag));
        CHECK_EQ(flag & 15, 5);
        MPI(MPIX_Comm_shrink(c, &left));
        CHECK_EQ(sum(left), size);
        MPI(MPI_Comm_free(&left));
        MPI(MPI_Comm_free(&c));
        CHECK_EQ(sum(MPI_COMM_WORLD), size);
    }
}

TEST(bad_input) {
    int n = 7;
    MPI_Comm c = MPI_COMM_WORLD;
    MPI_FAILS(MPIX_Comm_revoke(MPI_COMM_NULL), MPI_ERR_COMM);
    MPI_FAILS(MPIX_Comm_agree(MPI_COMM_NULL, &n), MPI_ERR_COMM);
    MPI_FAILS(MPIX_Comm_shrink(MPI_COMM_NULL, &c), MPI_ERR_COMM);
    CHECK(c == MPI_COMM_NULL);
    MPI_FAILS(MPIX_Comm_agree(MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
    MPI_FAILS(MPIX_Comm_is_revoked(MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
    MPI_FAILS(MPIX_Comm_get_failed(MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
    MPI_FAILS(MPIX_Comm_ack_failed(MPI_COMM_WORLD, -1, &n), MPI_ERR_ARG);
    MPI_FAILS(MPIX_Comm_ack_failed(MPI_COMM_WORLD, 0, NULL), MPI_ERR_ARG);
    MPI_FAILS(MPIX_Comm_shrink(MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
    MPI_FAILS(MPIX_Comm_iagree(MPI_COMM_WORLD, &n, NULL), MPI_ERR_ARG);
    MPI_FAILS(MPIX_Comm_ishrink(MPI_COMM_WORLD, NULL, NULL), MPI_ERR_ARG);
    CHECK_EQ(n, 7);
}

// One rank is killed while all are in collectives; the others find out everything about it and go on.
static void killed(unsigned long seed) {
    int victim = (int)(seed % (unsigned long)size), turns = (int)(seed * 7919 % 500), error = 0, n = -1, flag, class, list[1] = {0}, first[1] = {0};
    MPI_Comm c = copy(), left = MPI_COMM_NULL, later = MPI_COMM_NULL;
    MPI_Group failed, world;
    MPI_Request r;
    // Who is killed at once leaves nobody in MPI_Comm_dup, which may fail then: all have come out of it when one comes out of this.
    flag = 1;
    MPIX_Comm_agree(MPI_COMM_WORLD, &flag);
    for (int turn = 0; !error; turn++) {
        int one = 1, all;
        if (rank == victim && turn == turns) raise(SIGKILL);
        error = turn % 3 ? MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, c) : MPI_Barrier(c);
    }
    MPI(MPI_Error_class(error, &class));
    CHECK(class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_REVOKED);
    MPI(MPIX_Comm_revoke(c));
    flag = ~(1 << rank);
    MPI_FAILS(MPIX_Comm_agree(MPI_COMM_WORLD, &flag), MPIX_ERR_PROC_FAILED);
    for (int other = 0; other < size; other++)
        if (other != victim) CHECK((flag & 1 << other) == 0);
    MPI(MPIX_Comm_get_failed(MPI_COMM_WORLD, &failed));
    MPI(MPI_Comm_group(MPI_COMM_WORLD, &world));
    MPI(MPI_Group_size(failed, &n));
    CHECK_EQ(n, 1);
    MPI(MPI_Group_translate_ranks(failed, 1, first, world, list));
    CHECK_EQ(list[0], victim);
    MPI(MPI_Group_free(&failed));
    MPI(MPI_Group_free(&world));
    MPI(MPIX_Comm_ack_failed(MPI_COMM_WORLD, 1, &n));
    CHECK_EQ(n, 1);
    flag = 3;
    MPI(MPIX_Comm_agree(MPI_COMM_WORLD, &flag));
    CHECK_EQ(flag, 3);
    // From any source, now that all know of the one that has ended.
    int next = (rank + 1) % size, word = -1;
    if (next == victim) next = (next + 1) % size;
    MPI(MPI_Irecv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &r));
    MPI(MPI_Send(&rank, 1, MPI_INT, next, 4, MPI_COMM_WORLD));
    MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
    CHECK(word >= 0 && word != victim);
    MPI(MPIX_Comm_shrink(c, &left));
    MPI(MPIX_Comm_ishrink(MPI_COMM_WORLD, &later, &r));
    MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
    MPI(MPI_Comm_rank(left, &n));
    CHECK_EQ(n, rank - (rank > victim));
    CHECK_EQ(sum(left), size - 1);
    CHECK_EQ(sum(later), size - 1);
    if (!check_failures) {
        printf("rank %d went on\n", rank);
        fflush(stdout);
    }
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1) {
        check_test = "killed";
        killed(strtoul(argv[1], NULL, 10));
        MPI_Finalize();
        return check_failures != 0;
    }
    RUN(nobody_has_ended);
    RUN(agreements);
    RUN(smaller_ones_of_all);
    RUN(revoked);
    RUN(bad_input);
    return check_done();
}
