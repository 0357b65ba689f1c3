// ranks: 2 3 4 5 8
// Matching: messages between two ranks on one communicator match in the order sent, whatever their sizes, protocols and
// modes; wildcards; tags and communicators keep apart.
// Requirements of MPI-5.0 sections 3.2.3, 3.2.4, 3.5, 3.7.4, 6.2.2.
#include "check.h"

enum { ROUNDS = 400, LARGEST = 200000 };
static uint64_t seed;
static unsigned rnd(unsigned n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % n;
}
static int size_of(int i) {
    static const int s[] = {4, 8, 40, 60, 100, 2000, 5000, 20000, 70000, LARGEST};
    seed = (uint64_t)i * 977;
    rnd(2), rnd(2);
    return s[rnd(10)];
}

// Everyone sends to rank 0, mixed sizes and modes; rank 0 receives by source, sequence numbers must rise.
TEST(mixed_sizes_in_order) {
    char *buf = calloc(1, LARGEST);
    if (check_rank == 0) {
        for (int i = 0; i < ROUNDS; i++)
            for (int s = 1; s < check_size; s++) {
                MPI_Status st;
                int n;
                MPI(MPI_Recv(buf, LARGEST, MPI_BYTE, s, 7, MPI_COMM_WORLD, &st));
                MPI(MPI_Get_count(&st, MPI_BYTE, &n));
                if (n != size_of(i) || *(int *)buf != i) {
                    check_fail(__FILE__, __LINE__, "from %d: message %d of %d bytes, expected %d of %d", s, *(int *)buf, n, i, size_of(i));
                    break;
                }
            }
    } else {
        char *bufs[16];
        MPI_Request r[16];
        for (int k = 0; k < 16; k++) bufs[k] = calloc(1, LARGEST), r[k] = MPI_REQUEST_NULL;
        for (int i = 0; i < ROUNDS; i++) {
            const int k = i % 16;
            MPI(MPI_Wait(&r[k], MPI_STATUS_IGNORE));
            *(int *)bufs[k] = i;
            if (i % 5 == 3)
                MPI(MPI_Issend(bufs[k], size_of(i), MPI_BYTE, 0, 7, MPI_COMM_WORLD, &r[k]));
            else
                MPI(MPI_Isend(bufs[k], size_of(i), MPI_BYTE, 0, 7, MPI_COMM_WORLD, &r[k]));
        }
        MPI(MPI_Waitall(16, r, MPI_STATUSES_IGNORE));
        for (int k = 0; k < 16; k++) free(bufs[k]);
    }
    free(buf);
}

// The same with MPI_ANY_SOURCE and MPI_ANY_TAG: per source the numbers rise by one.
TEST(any_source_in_order) {
    char *buf = calloc(1, LARGEST);
    if (check_rank == 0) {
        int next[64] = {0};
        for (int i = 0; i < 200 * (check_size - 1); i++) {
            MPI_Status st;
            MPI(MPI_Recv(buf, LARGEST, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &st));
            const int s = st.MPI_SOURCE;
            if (s < 1 || s >= check_size || st.MPI_TAG != next[s] || *(int *)buf != next[s]) {
                check_fail(__FILE__, __LINE__, "from %d tag %d content %d, expected number %d", s, st.MPI_TAG, *(int *)buf, s > 0 ? next[s] : -1);
                break;
            }
            next[s]++;
        }
    } else
        for (int i = 0; i < 200; i++) {
            *(int *)buf = i;
            MPI(MPI_Send(buf, size_of(i + check_rank), MPI_BYTE, 0, i, MPI_COMM_WORLD));
        }
    free(buf);
}

// Receives posted first, wildcards between exact ones: each message goes to the first posted receive that fits.
TEST(posted_order) {
    int v[6] = {-1, -1, -1, -1, -1, -1};
    MPI_Request r[6];
    MPI_Status st[6];
    if (check_rank == 0) {
        MPI(MPI_Irecv(&v[0], 1, MPI_INT, 1, MPI_ANY_TAG, MPI_COMM_WORLD, &r[0]));
        MPI(MPI_Irecv(&v[1], 1, MPI_INT, 1, 5, MPI_COMM_WORLD, &r[1]));
        MPI(MPI_Irecv(&v[2], 1, MPI_INT, MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, &r[2]));
        MPI(MPI_Irecv(&v[3], 1, MPI_INT, 1, 6, MPI_COMM_WORLD, &r[3]));
        MPI(MPI_Irecv(&v[4], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &r[4]));
        MPI(MPI_Irecv(&v[5], 1, MPI_INT, 1, 5, MPI_COMM_WORLD, &r[5]));
        MPI(MPI_Send(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD));
        MPI(MPI_Waitall(6, r, st));
        const int want[6] = {10, 12, 11, 13, 14, 15}, tags[6] = {5, 5, 6, 6, 5, 5};
        for (int i = 0; i < 6; i++) {
            CHECK_EQ(v[i], want[i]);
            CHECK_EQ(st[i].MPI_TAG, tags[i]);
            CHECK_EQ(st[i].MPI_SOURCE, 1);
        }
    } else if (check_rank == 1) {
        const int tags[6] = {5, 6, 5, 6, 5, 5};
        MPI(MPI_Recv(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = 0; i < 6; i++) {
            int x = 10 + i;
            MPI(MPI_Send(&x, 1, MPI_INT, 0, tags[i], MPI_COMM_WORLD));
        }
    }
}

// Taken out of the unexpected queue in another order of tags than sent.
TEST(tags_apart) {
    enum { N = 300 };
    if (check_rank == 0)
        for (int i = 0; i < N; i++) {
            int x[50];
            for (int k = 0; k < 50; k++) x[k] = i;
            MPI(MPI_Send(x, 1 + i % 50, MPI_INT, 1, i, MPI_COMM_WORLD));
        }
    if (check_rank == 1)
        for (int i = N - 1; i >= 0; i--) {
            int x[50], n;
            MPI_Status st;
            MPI(MPI_Recv(x, 50, MPI_INT, 0, i, MPI_COMM_WORLD, &st));
            MPI(MPI_Get_count(&st, MPI_INT, &n));
            if (x[0] != i || n != 1 + i % 50) {
                check_fail(__FILE__, __LINE__, "tag %d brought %d (%d elements)", i, x[0], n);
                break;
            }
        }
}

TEST(communicators_apart) {
    MPI_Comm dup[3];
    for (int c = 0; c < 3; c++) MPI(MPI_Comm_dup(MPI_COMM_WORLD, &dup[c]));
    if (check_rank == 0)
        for (int c = 0; c < 3; c++) MPI(MPI_Send(&c, 1, MPI_INT, 1, 1, dup[c]));
    if (check_rank == 1)
        for (int c = 2; c >= 0; c--) {
            int x = -1;
            MPI(MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, dup[c], MPI_STATUS_IGNORE));
            CHECK_EQ(x, c);
        }
    for (int c = 0; c < 3; c++) MPI(MPI_Comm_free(&dup[c]));
}

// A big message (rendezvous) followed by a small one with the same tag: the first receive gets the big one.
TEST(big_before_small) {
    char *big = malloc(4000000);
    MPI_Request r[2];
    for (int round = 0; round < 10; round++) {
        if (check_rank == 0) {
            int small = round;
            memset(big, round + 1, 4000000);
            MPI(MPI_Isend(big, 4000000, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &r[0]));
            MPI(MPI_Isend(&small, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &r[1]));
            MPI(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
        } else if (check_rank == 1) {
            int small = -1;
            MPI(MPI_Irecv(big, 4000000, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &r[0]));
            MPI(MPI_Irecv(&small, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &r[1]));
            MPI(MPI_Wait(&r[1], MPI_STATUS_IGNORE));
            MPI(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
            CHECK_EQ(small, round);
            CHECK_EQ(big[0], round + 1);
            CHECK_EQ(big[3999999], round + 1);
        }
    }
    free(big);
}

// Everyone with everyone at once, random sizes, random order of posting.
TEST(all_pairs) {
    enum { EACH = 6 };
    const int total = check_size * EACH;
    MPI_Request *r = malloc(sizeof *r * (size_t)total * 2);
    char **rb = malloc(sizeof *rb * (size_t)total), **sb = malloc(sizeof *sb * (size_t)total);
    for (int round = 0; round < 5; round++) {
        int *perm = malloc(sizeof *perm * (size_t)total);
        for (int i = 0; i < total; i++) perm[i] = i;
        seed = (uint64_t)(check_rank * 31 + round);
        for (int i = total - 1; i > 0; i--) {
            const int j = (int)rnd((unsigned)i + 1), t = perm[i];
            perm[i] = perm[j];
            perm[j] = t;
        }
        for (int i = 0; i < total; i++) {
            const int peer = perm[i] / EACH, k = perm[i] % EACH;
            const int in = size_of(peer * 1000 + check_rank * 10 + k + round), outn = size_of(check_rank * 1000 + peer * 10 + k + round);
            rb[i] = malloc((size_t)in);
            sb[i] = malloc((size_t)outn);
            check_fill(sb[i], (size_t)outn, (unsigned)(check_rank * 100 + k));
            MPI(MPI_Irecv(rb[i], in, MPI_BYTE, peer, k, MPI_COMM_WORLD, &r[i]));
            MPI(MPI_Isend(sb[i], outn, MPI_BYTE, peer, k, MPI_COMM_WORLD, &r[total + i]));
        }
        MPI(MPI_Waitall(2 * total, r, MPI_STATUSES_IGNORE));
        for (int i = 0; i < total; i++) {
            const int peer = perm[i] / EACH, k = perm[i] % EACH, in = size_of(peer * 1000 + check_rank * 10 + k + round);
            if (check_wrong(rb[i], (size_t)in, (unsigned)(peer * 100 + k)) >= 0) check_fail(__FILE__, __LINE__, "from %d tag %d: wrong bytes", peer, k);
            free(rb[i]);
            free(sb[i]);
        }
        free(perm);
    }
    free(r), free(rb), free(sb);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    RUN(mixed_sizes_in_order);
    RUN(any_source_in_order);
    RUN(posted_order);
    RUN(tags_apart);
    RUN(communicators_apart);
    RUN(big_before_small);
    RUN(all_pairs);
    return check_done();
}
