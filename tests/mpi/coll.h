// Every collective once, in its blocking and its nonblocking form, against values computed on the spot. Included by
// coll_blocking.c and coll_nonblocking.c, which define DO(name, args...) accordingly; the same body checks both.
// Requirements of MPI-5.0 sections 6.2.3, 6.3, 6.4, 6.5, 6.6, 6.7, 6.8, 6.9.1, 6.9.2, 6.9.4, 6.9.5, 6.9.6,
// 6.10.1, 8.6, 8.7.
#include "check.h"

// Sizes of one rank's piece, in ints: about every protocol and algorithm limit.
static const int counts[] = {0, 1, 2, 7, 16, 100, 511, 1024, 5000, 16411, 70000};
static MPI_Comm comm;
static int rank, size;

// What rank r has at index i in round n; small, so that sums fit.
static int val(int r, int i, int n) { return (r * 131 + i * 7 + n * 3) % 10007; }
static int *ints(size_t n) {
    int *p = malloc((n ? n : 1) * sizeof(int));
    for (size_t i = 0; i < n; i++) p[i] = -999999;
    return p;
}
static void compare(const char *what, const int *got, const int *want, size_t n, int count) {
    for (size_t i = 0; i < n; i++)
        if (got[i] != want[i]) {
            check_fail(__FILE__, __LINE__, "%s of %d elements on %d ranks: element %zu is %d, not %d", what, count, size, i, got[i], want[i]);
            return;
        }
}
#define ROUNDS for (int k = 0; k < COUNT(counts); k++)

TEST(barrier) {
    for (int i = 0; i < 20; i++) DO(MPI_Barrier, comm);
}

TEST(bcast) {
    ROUNDS for (int root = 0; root < size; root++) {
        const int n = counts[k];
        int *v = ints((size_t)n), *w = ints((size_t)n);
        for (int i = 0; i < n; i++) w[i] = val(root, i, k), v[i] = rank == root ? w[i] : -1;
        DO(MPI_Bcast, v, n, MPI_INT, root, comm);
        compare("bcast", v, w, (size_t)n, n);
        free(v), free(w);
    }
}

TEST(bcast_of_differing_layouts) {
    // The root sends a vector, the others receive contiguous: signatures equal, layouts not.
    enum { N = 3000 };
    MPI_Datatype t;
    int v[2 * N];
    MPI(MPI_Type_vector(N, 1, 2, MPI_INT, &t));
    MPI(MPI_Type_commit(&t));
    for (int root = 0; root < size; root++) {
        for (int i = 0; i < 2 * N; i++) v[i] = rank == root ? i : -1;
        if (rank == root)
            DO(MPI_Bcast, v, 1, t, root, comm);
        else
            DO(MPI_Bcast, v, N, MPI_INT, root, comm);
        if (rank != root)
            for (int i = 0; i < N; i++)
                if (v[i] != 2 * i) {
                    check_fail(__FILE__, __LINE__, "element %d is %d", i, v[i]);
                    break;
                }
    }
    MPI(MPI_Type_free(&t));
}

TEST(gather_scatter) {
    ROUNDS for (int root = 0; root < size; root += size > 3 ? 2 : 1) {
        const int n = counts[k];
        const size_t all = (size_t)n * (size_t)size;
        int *mine = ints((size_t)n), *whole = ints(all), *want = ints(all), *back = ints((size_t)n);
        for (int i = 0; i < n; i++) mine[i] = val(rank, i, k);
        for (int r = 0; r < size; r++)
            for (int i = 0; i < n; i++) want[(size_t)r * (size_t)n + (size_t)i] = val(r, i, k);
        DO(MPI_Gather, mine, n, MPI_INT, rank == root ? whole : NULL, n, MPI_INT, root, comm);
        if (rank == root) compare("gather", whole, want, all, n);
        DO(MPI_Scatter, rank == root ? whole : NULL, n, MPI_INT, back, n, MPI_INT, root, comm);
        compare("scatter", back, mine, (size_t)n, n);
        // In place at the root.
        if (rank == root) {
            for (size_t i = 0; i < all; i++) whole[i] = i / (size_t)(n ? n : 1) == (size_t)root ? want[i] : -1;
            DO(MPI_Gather, MPI_IN_PLACE, n, MPI_INT, whole, n, MPI_INT, root, comm);
            compare("gather in place", whole, want, all, n);
            DO(MPI_Scatter, whole, n, MPI_INT, MPI_IN_PLACE, n, MPI_INT, root, comm);
        } else {
            for (int i = 0; i < n; i++) back[i] = -1;
            DO(MPI_Gather, mine, n, MPI_INT, NULL, 0, MPI_INT, root, comm);
            DO(MPI_Scatter, NULL, 0, MPI_INT, back, n, MPI_INT, root, comm);
            compare("scatter in place", back, mine, (size_t)n, n);
        }
        free(mine), free(whole), free(want), free(back);
    }
}

// Pieces of differing length (some empty) with gaps between.
static int piece(int r, int n) { return (r * 5 + 1) % 4 == 0 ? 0 : n + (r * 3) % 5; }
struct parts {
    int *counts, *displs, total;
};
static struct parts parts_of(int n) {
    struct parts p = {ints((size_t)size), ints((size_t)size), 0};
    for (int r = 0; r < size; r++) {
        p.counts[r] = piece(r, n);
        p.displs[r] = p.total + 1;
        p.total += p.counts[r] + 2;
    }
    return p;
}

TEST(gatherv_scatterv_allgatherv) {
    ROUNDS for (int root = 0; root < size; root += size > 3 ? 3 : 1) {
        const int n = counts[k];
        struct parts p = parts_of(n);
        int *mine = ints((size_t)p.counts[rank]), *whole = ints((size_t)p.total), *want = ints((size_t)p.total), *back = ints((size_t)p.counts[rank]);
        for (int i = 0; i < p.counts[rank]; i++) mine[i] = val(rank, i, k);
        for (int r = 0; r < size; r++)
            for (int i = 0; i < p.counts[r]; i++) want[p.displs[r] + i] = val(r, i, k);
        DO(MPI_Gatherv, mine, p.counts[rank], MPI_INT, whole, p.counts, p.displs, MPI_INT, root, comm);
        if (rank == root) compare("gatherv", whole, want, (size_t)p.total, n);
        DO(MPI_Scatterv, whole, p.counts, p.displs, MPI_INT, back, p.counts[rank], MPI_INT, root, comm);
        compare("scatterv", back, mine, (size_t)p.counts[rank], n);
        for (int i = 0; i < p.total; i++) whole[i] = -999999;
        DO(MPI_Allgatherv, mine, p.counts[rank], MPI_INT, whole, p.counts, p.displs, MPI_INT, comm);
        compare("allgatherv", whole, want, (size_t)p.total, n);
        for (int i = 0; i < p.total; i++)
            whole[i] = i >= p.displs[rank] && i < p.displs[rank] + p.counts[rank] ? want[i] : -999999;
        DO(MPI_Allgatherv, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, whole, p.counts, p.displs, MPI_INT, comm);
        compare("allgatherv in place", whole, want, (size_t)p.total, n);
        free(p.counts), free(p.displs), free(mine), free(whole), free(want), free(back);
    }
}

TEST(allgather_alltoall) {
    ROUNDS {
        const int n = counts[k] > 20000 ? 20000 : counts[k];
        const size_t all = (size_t)n * (size_t)size;
        int *mine = ints(all), *whole = ints(all), *want = ints(all);
        for (int i = 0; i < n; i++) mine[i] = val(rank, i, k);
        for (int r = 0; r < size; r++)
            for (int i = 0; i < n; i++) want[(size_t)r * (size_t)n + (size_t)i] = val(r, i, k);
        DO(MPI_Allgather, mine, n, MPI_INT, whole, n, MPI_INT, comm);
        compare("allgather", whole, want, all, n);
        for (size_t i = 0; i < all; i++) whole[i] = i / (size_t)(n ? n : 1) == (size_t)rank ? want[i] : -1;
        DO(MPI_Allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, whole, n, MPI_INT, comm);
        compare("allgather in place", whole, want, all, n);
        for (int r = 0; r < size; r++)
            for (int i = 0; i < n; i++) {
                mine[(size_t)r * (size_t)n + (size_t)i] = val(rank, i, k + r);
                want[(size_t)r * (size_t)n + (size_t)i] = val(r, i, k + rank);
            }
        DO(MPI_Alltoall, mine, n, MPI_INT, whole, n, MPI_INT, comm);
        compare("alltoall", whole, want, all, n);
        memcpy(whole, mine, all * sizeof(int));
        DO(MPI_Alltoall, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, whole, n, MPI_INT, comm);
        compare("alltoall in place", whole, want, all, n);
        free(mine), free(whole), free(want);
    }
}

// From s to r: a length that differs by pair (and is sometimes none).
static int pair(int s, int r, int n) { return (s + 2 * r) % 5 == 3 ? 0 : n + (s * 3 + r) % 4; }

TEST(alltoallv_alltoallw) {
    ROUNDS {
        const int n = counts[k] > 6000 ? 6000 : counts[k];
        int *sc = ints((size_t)size), *sd = ints((size_t)size), *rc = ints((size_t)size), *rd = ints((size_t)size), st = 0, rt = 0;
        int *sb = ints((size_t)size), *rb = ints((size_t)size);
        MPI_Datatype *ty = malloc(sizeof *ty * (size_t)size);
        for (int r = 0; r < size; r++) {
            sc[r] = pair(rank, r, n), rc[r] = pair(r, rank, n);
            sd[r] = st, rd[r] = rt + 1;
            sb[r] = st * (int)sizeof(int), rb[r] = (rt + 1) * (int)sizeof(int);
            st += sc[r], rt += rc[r] + 1;
            ty[r] = MPI_INT;
        }
        int *out = ints((size_t)st), *in = ints((size_t)rt + 1), *want = ints((size_t)rt + 1);
        for (int r = 0; r < size; r++) {
            for (int i = 0; i < sc[r]; i++) out[sd[r] + i] = val(rank, i, r);
            for (int i = 0; i < rc[r]; i++) want[rd[r] + i] = val(r, i, rank);
        }
        DO(MPI_Alltoallv, out, sc, sd, MPI_INT, in, rc, rd, MPI_INT, comm);
        compare("alltoallv", in, want, (size_t)rt + 1, n);
        for (int i = 0; i <= rt; i++) in[i] = -999999;
        DO(MPI_Alltoallw, out, sc, sb, ty, in, rc, rb, ty, comm);
        compare("alltoallw", in, want, (size_t)rt + 1, n);
        // In place: what goes out is as long as what comes in.
        int *c2 = ints((size_t)size), *d2 = ints((size_t)size), *b2 = ints((size_t)size), total = 0;
        for (int r = 0; r < size; r++) {
            c2[r] = n + (rank + r) % 3;
            d2[r] = total;
            b2[r] = total * (int)sizeof(int);
            total += c2[r];
        }
        int *x = ints((size_t)total), *y = ints((size_t)total);
        for (int r = 0; r < size; r++)
            for (int i = 0; i < c2[r]; i++) x[d2[r] + i] = val(rank, i, r), y[d2[r] + i] = val(r, i, rank);
        DO(MPI_Alltoallv, MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, x, c2, d2, MPI_INT, comm);
        compare("alltoallv in place", x, y, (size_t)total, n);
        for (int r = 0; r < size; r++)
            for (int i = 0; i < c2[r]; i++) x[d2[r] + i] = val(rank, i, r);
        DO(MPI_Alltoallw, MPI_IN_PLACE, NULL, NULL, NULL, x, c2, b2, ty, comm);
        compare("alltoallw in place", x, y, (size_t)total, n);
        free(sc), free(sd), free(rc), free(rd), free(sb), free(rb), free(ty), free(out), free(in), free(want), free(c2), free(d2), free(b2), free(x), free(y);
    }
}

TEST(reductions) {
    ROUNDS {
        const int n = counts[k];
        const size_t bytes = (size_t)n * sizeof(int);
        int *v = ints((size_t)n), *w = ints((size_t)n), *sum = ints((size_t)n), *pre = ints((size_t)n), *ex = ints((size_t)n);
        for (int i = 0; i < n; i++) {
            v[i] = val(rank, i, k);
            sum[i] = pre[i] = ex[i] = 0;
            for (int r = 0; r < size; r++) {
                sum[i] += val(r, i, k);
                if (r <= rank) pre[i] += val(r, i, k);
                if (r < rank) ex[i] += val(r, i, k);
            }
        }
        for (int root = 0; root < size; root += size > 3 ? 3 : 1) {
            DO(MPI_Reduce, v, w, n, MPI_INT, MPI_SUM, root, comm);
            if (rank == root) compare("reduce", w, sum, (size_t)n, n);
            if (n) memcpy(w, v, bytes);
            if (rank == root) {
                DO(MPI_Reduce, MPI_IN_PLACE, w, n, MPI_INT, MPI_SUM, root, comm);
                compare("reduce in place", w, sum, (size_t)n, n);
            } else
                DO(MPI_Reduce, w, NULL, n, MPI_INT, MPI_SUM, root, comm);
        }
        DO(MPI_Allreduce, v, w, n, MPI_INT, MPI_SUM, comm);
        compare("allreduce", w, sum, (size_t)n, n);
        if (n) memcpy(w, v, bytes);
        DO(MPI_Allreduce, MPI_IN_PLACE, w, n, MPI_INT, MPI_SUM, comm);
        compare("allreduce in place", w, sum, (size_t)n, n);
        DO(MPI_Scan, v, w, n, MPI_INT, MPI_SUM, comm);
        compare("scan", w, pre, (size_t)n, n);
        if (n) memcpy(w, v, bytes);
        DO(MPI_Scan, MPI_IN_PLACE, w, n, MPI_INT, MPI_SUM, comm);
        compare("scan in place", w, pre, (size_t)n, n);
        DO(MPI_Exscan, v, w, n, MPI_INT, MPI_SUM, comm);
        if (rank) compare("exscan", w, ex, (size_t)n, n);
        if (n) memcpy(w, v, bytes);
        DO(MPI_Exscan, MPI_IN_PLACE, w, n, MPI_INT, MPI_SUM, comm);
        if (rank) compare("exscan in place", w, ex, (size_t)n, n);
        free(v), free(w), free(sum), free(pre), free(ex);
    }
}

TEST(reduce_scatter) {
    ROUNDS {
        const int n = counts[k] > 20000 ? 20000 : counts[k];
        struct parts p = parts_of(n);
        int total = 0, at = 0;
        for (int r = 0; r < size; r++) {
            if (r == rank) at = total;
            total += p.counts[r];
        }
        const int longest = total > n * size ? total : n * size;
        int *v = ints((size_t)longest), *w = ints((size_t)longest), *want = ints((size_t)longest);
        for (int i = 0; i < longest; i++) {
            v[i] = val(rank, i, k);
            want[i] = 0;
            for (int r = 0; r < size; r++) want[i] += val(r, i, k);
        }
        DO(MPI_Reduce_scatter, v, w, p.counts, MPI_INT, MPI_SUM, comm);
        compare("reduce_scatter", w, want + at, (size_t)p.counts[rank], n);
        DO(MPI_Reduce_scatter_block, v, w, n, MPI_INT, MPI_SUM, comm);
        compare("reduce_scatter_block", w, want + (size_t)rank * (size_t)n, (size_t)n, n);
        memcpy(w, v, (size_t)longest * sizeof(int));
        DO(MPI_Reduce_scatter_block, MPI_IN_PLACE, w, n, MPI_INT, MPI_SUM, comm);
        compare("reduce_scatter_block in place", w, want + (size_t)rank * (size_t)n, (size_t)n, n);
        memcpy(w, v, (size_t)longest * sizeof(int));
        DO(MPI_Reduce_scatter, MPI_IN_PLACE, w, p.counts, MPI_INT, MPI_SUM, comm);
        compare("reduce_scatter in place", w, want + at, (size_t)p.counts[rank], n);
        free(p.counts), free(p.displs), free(v), free(w), free(want);
    }
}

// 2 x 2 integer matrices modulo a prime: associative, not commutative, so the order of ranks shows.
struct m2 {
    int a, b, c, d;
};
static struct m2 mul(struct m2 x, struct m2 y) {
    const int p = 32003;
    struct m2 z = {(x.a * y.a + x.b * y.c) % p, (x.a * y.b + x.b * y.d) % p, (x.c * y.a + x.d * y.c) % p, (x.c * y.b + x.d * y.d) % p};
    return z;
}
static int mul_calls;
static void mul_op(void *in, void *inout, int *len, MPI_Datatype *t) {
    struct m2 *x = in, *y = inout;
    (void)t;
    mul_calls++;
    for (int i = 0; i < *len; i++) y[i] = mul(x[i], y[i]);
}
static void mul_op_c(void *in, void *inout, MPI_Count *len, MPI_Datatype *t) {
    struct m2 *x = in, *y = inout;
    (void)t;
    for (MPI_Count i = 0; i < *len; i++) y[i] = mul(x[i], y[i]);
}
static struct m2 m_of(int r, int i) {
    struct m2 m = {1 + r % 5, i % 7, 2, 3 + (r + i) % 4};
    return m;
}
TEST(user_operation_in_rank_order) {
    MPI_Datatype t;
    MPI_Op op, op_c;
    int commutes = -1;
    MPI(MPI_Type_contiguous(4, MPI_INT, &t));
    MPI(MPI_Type_commit(&t));
    MPI(MPI_Op_create(mul_op, 0, &op));
    MPI(MPI_Op_create_c(mul_op_c, 0, &op_c));
    MPI(MPI_Op_commutative(op, &commutes));
    CHECK_EQ(commutes, 0);
    ROUNDS {
        const int n = counts[k] > 6000 ? 6000 : counts[k];
        const MPI_Op o = k % 2 ? op_c : op;
        const size_t bytes = sizeof(struct m2) * (size_t)(n ? n : 1);
        struct m2 *v = malloc(bytes), *w = malloc(bytes), *all = malloc(bytes), *pre = malloc(bytes), *ex = malloc(bytes);
        for (int i = 0; i < n; i++) {
            v[i] = m_of(rank, i);
            all[i] = m_of(0, i);
            pre[i] = m_of(0, i);
            ex[i] = m_of(0, i);
            for (int r = 1; r < size; r++) {
                all[i] = mul(all[i], m_of(r, i));
                if (r <= rank) pre[i] = mul(pre[i], m_of(r, i));
                if (r < rank) ex[i] = mul(ex[i], m_of(r, i));
            }
        }
        const int root = k % size;
        DO(MPI_Reduce, v, w, n, t, o, root, comm);
        if (rank == root) compare("reduce in order", (int *)w, (int *)all, (size_t)n * 4, n);
        DO(MPI_Allreduce, v, w, n, t, o, comm);
        compare("allreduce in order", (int *)w, (int *)all, (size_t)n * 4, n);
        DO(MPI_Scan, v, w, n, t, o, comm);
        compare("scan in order", (int *)w, (int *)pre, (size_t)n * 4, n);
        DO(MPI_Exscan, v, w, n, t, o, comm);
        if (rank) compare("exscan in order", (int *)w, (int *)ex, (size_t)n * 4, n);
        struct m2 *vs = malloc(bytes * (size_t)size), *want = malloc(bytes);
        for (int i = 0; i < n * size; i++) vs[i] = m_of(rank, i);
        for (int i = 0; i < n; i++) {
            want[i] = m_of(0, rank * n + i);
            for (int r = 1; r < size; r++) want[i] = mul(want[i], m_of(r, rank * n + i));
        }
        DO(MPI_Reduce_scatter_block, vs, w, n, t, o, comm);
        compare("reduce_scatter_block in order", (int *)w, (int *)want, (size_t)n * 4, n);
        free(v), free(w), free(all), free(pre), free(ex), free(vs), free(want);
    }
    if (size > 1) CHECK(mul_calls > 0);
    MPI(MPI_Op_free(&op));
    CHECK(op == MPI_OP_NULL);
    MPI(MPI_Op_free(&op_c));
    MPI(MPI_Type_free(&t));
}

#define TRY(type, mpi, op, n_, expr_val, init, step)                                                                             \
    do {                                                                                                                         \
        enum { N = n_ };                                                                                                         \
        type v[N], w[N], want[N];                                                                                                \
        for (int i = 0; i < N; i++) {                                                                                            \
            int r = rank;                                                                                                        \
            (void)r;                                                                                                             \
            v[i] = (type)(expr_val);                                                                                             \
            type acc = (type)(init);                                                                                             \
            for (r = 0; r < size; r++) {                                                                                         \
                type x = (type)(expr_val);                                                                                       \
                acc = (type)(step);                                                                                              \
            }                                                                                                                    \
            want[i] = acc;                                                                                                       \
        }                                                                                                                        \
        DO(MPI_Allreduce, v, w, N, mpi, op, comm);                                                                               \
        for (int i = 0; i < N; i++)                                                                                              \
            if (w[i] != want[i]) {                                                                                               \
                check_fail(__FILE__, __LINE__, "%s of %s on %d ranks: element %d is wrong", #op, #mpi, size, i);                 \
                break;                                                                                                           \
            }                                                                                                                    \
    } while (0)
#define ARITHMETIC(type, mpi)                                                                                                    \
    do {                                                                                                                         \
        TRY(type, mpi, MPI_SUM, 33, (r + i) % 5, 0, acc + x);                                                                    \
        TRY(type, mpi, MPI_PROD, 33, 1 + (r + i) % 2, 1, acc * x);                                                               \
        TRY(type, mpi, MPI_MAX, 33, (r * 7 + i) % 50, 0, x > acc ? x : acc);                                                     \
        TRY(type, mpi, MPI_MIN, 33, (r * 7 + i) % 50, 100, x < acc ? x : acc);                                                   \
    } while (0)
#define LOGICAL(type, mpi)                                                                                                       \
    do {                                                                                                                         \
        TRY(type, mpi, MPI_LAND, 33, (r + i) % 3 != 0, 1, acc && x);                                                             \
        TRY(type, mpi, MPI_LOR, 33, (r + i) % 3 == 0, 0, acc || x);                                                              \
        TRY(type, mpi, MPI_LXOR, 33, (r + i) % 3 == 0, 0, (acc != 0) != (x != 0));                                               \
    } while (0)
#define BITS(type, mpi)                                                                                                          \
    do {                                                                                                                         \
        TRY(type, mpi, MPI_BAND, 33, 0x7F ^ (r << (i % 5)), ~0, acc &x);                                                         \
        TRY(type, mpi, MPI_BOR, 33, r << (i % 5), 0, acc | x);                                                                   \
        TRY(type, mpi, MPI_BXOR, 33, r * 3 + i, 0, acc ^ x);                                                                     \
    } while (0)
#define INTEGER(type, mpi)                                                                                                       \
    do {                                                                                                                         \
        ARITHMETIC(type, mpi);                                                                                                   \
        LOGICAL(type, mpi);                                                                                                      \
        BITS(type, mpi);                                                                                                         \
    } while (0)
TEST(predefined_operations) {
    if (size > 6) return; // the products and sums of small types would overflow
    INTEGER(int8_t, MPI_INT8_T);
    INTEGER(int16_t, MPI_INT16_T);
    INTEGER(int32_t, MPI_INT32_T);
    INTEGER(int64_t, MPI_INT64_T);
    INTEGER(uint8_t, MPI_UINT8_T);
    INTEGER(uint16_t, MPI_UINT16_T);
    INTEGER(uint32_t, MPI_UINT32_T);
    INTEGER(uint64_t, MPI_UINT64_T);
    INTEGER(signed char, MPI_SIGNED_CHAR);
    INTEGER(unsigned char, MPI_UNSIGNED_CHAR);
    INTEGER(short, MPI_SHORT);
    INTEGER(unsigned short, MPI_UNSIGNED_SHORT);
    INTEGER(int, MPI_INT);
    INTEGER(unsigned, MPI_UNSIGNED);
    INTEGER(long, MPI_LONG);
    INTEGER(unsigned long, MPI_UNSIGNED_LONG);
    INTEGER(long long, MPI_LONG_LONG);
    INTEGER(unsigned long long, MPI_UNSIGNED_LONG_LONG);
    ARITHMETIC(float, MPI_FLOAT);
    ARITHMETIC(double, MPI_DOUBLE);
    ARITHMETIC(long double, MPI_LONG_DOUBLE);
    ARITHMETIC(MPI_Aint, MPI_AINT);
    ARITHMETIC(MPI_Count, MPI_COUNT);
    ARITHMETIC(MPI_Offset, MPI_OFFSET);
    BITS(MPI_Aint, MPI_AINT);
    LOGICAL(_Bool, MPI_C_BOOL);
    BITS(unsigned char, MPI_BYTE);
    TRY(_Complex float, MPI_C_FLOAT_COMPLEX, MPI_SUM, 9, r + i, 0, acc + x);
    TRY(_Complex double, MPI_C_DOUBLE_COMPLEX, MPI_SUM, 9, r + i, 0, acc + x);
    TRY(_Complex double, MPI_C_DOUBLE_COMPLEX, MPI_PROD, 9, 1 + r % 2, 1, acc * x);
}

TEST(minloc_maxloc) {
#define LOC(vt, mpi)                                                                                                             \
    do {                                                                                                                         \
        struct {                                                                                                                 \
            vt v;                                                                                                                \
            int i;                                                                                                               \
        } x[40], lo[40], hi[40];                                                                                                 \
        for (int i = 0; i < 40; i++) x[i].v = (vt)((rank * 7 + i) % 5), x[i].i = rank + 100;                                     \
        DO(MPI_Allreduce, x, lo, 40, mpi, MPI_MINLOC, comm);                                                                     \
        DO(MPI_Allreduce, x, hi, 40, mpi, MPI_MAXLOC, comm);                                                                     \
        for (int i = 0; i < 40; i++) {                                                                                           \
            int lr = 0, hr = 0;                                                                                                  \
            for (int r = 1; r < size; r++) {                                                                                     \
                if ((r * 7 + i) % 5 < (lr * 7 + i) % 5) lr = r;                                                                  \
                if ((r * 7 + i) % 5 > (hr * 7 + i) % 5) hr = r;                                                                  \
            }                                                                                                                    \
            if (lo[i].i != lr + 100 || lo[i].v != (vt)((lr * 7 + i) % 5) || hi[i].i != hr + 100 || hi[i].v != (vt)((hr * 7 + i) % 5)) { \
                check_fail(__FILE__, __LINE__, "%s element %d", #mpi, i);                                                        \
                break;                                                                                                           \
            }                                                                                                                    \
        }                                                                                                                        \
    } while (0)
    LOC(int, MPI_2INT);
    LOC(float, MPI_FLOAT_INT);
    LOC(double, MPI_DOUBLE_INT);
    LOC(long, MPI_LONG_INT);
    LOC(short, MPI_SHORT_INT);
    LOC(long double, MPI_LONG_DOUBLE_INT);
}

// Collectives on an intercommunicator: even ranks on one side, odd ones on the other.
TEST(intercommunicator) {
    if (size < 2) return;
    MPI_Comm mine, inter;
    const int side = rank % 2, me = rank / 2;
    int here, there;
    MPI(MPI_Comm_split(comm, side, rank, &mine));
    MPI(MPI_Intercomm_create(mine, 0, comm, 1 - side, 5, &inter));
    MPI(MPI_Comm_size(inter, &here));
    MPI(MPI_Comm_remote_size(inter, &there));
    for (int n = 1; n <= 5000; n = n * 17 + 3) {
        int *v = ints((size_t)n * (size_t)size), *w = ints((size_t)n * (size_t)size), *want = ints((size_t)n * (size_t)size);
        DO(MPI_Barrier, inter);
        // Rooted: one even rank to all odd ones, and back.
        for (int dir = 0; dir < 2; dir++) {
            const int sending = side == dir;
#ifdef FARPOST
            const int rootrank = n % (sending ? here : there); // in the sending group
#else
            const int rootrank = 0; // MPICH 5.0 and Intel MPI lose an MPI_Ibcast from another one
#endif
            const int root = sending ? (me == rootrank ? MPI_ROOT : MPI_PROC_NULL) : rootrank;
            const int global = 2 * rootrank + dir;
            for (int i = 0; i < n; i++) v[i] = val(rank, i, n), want[i] = val(global, i, n), w[i] = -1;
            if (sending)
                DO(MPI_Bcast, v, n, MPI_INT, root, inter);
            else {
                DO(MPI_Bcast, w, n, MPI_INT, root, inter);
                compare("intercommunicator bcast", w, want, (size_t)n, n);
            }
            // The others gather to that root: it gets one piece of every rank of the other side.
            if (sending) {
                for (int r = 0; r < there; r++)
                    for (int i = 0; i < n; i++) want[r * n + i] = val(2 * r + 1 - dir, i, n);
                DO(MPI_Gather, NULL, 0, MPI_INT, w, n, MPI_INT, root, inter);
                if (root == MPI_ROOT) compare("intercommunicator gather", w, want, (size_t)n * (size_t)there, n);
                DO(MPI_Scatter, w, n, MPI_INT, NULL, 0, MPI_INT, root, inter);
                for (int i = 0; i < n; i++) {
                    want[i] = 0;
                    for (int r = 0; r < there; r++) want[i] += val(2 * r + 1 - dir, i, n);
                }
                DO(MPI_Reduce, NULL, w, n, MPI_INT, MPI_SUM, root, inter);
                if (root == MPI_ROOT) compare("intercommunicator reduce", w, want, (size_t)n, n);
            } else {
                DO(MPI_Gather, v, n, MPI_INT, NULL, 0, MPI_INT, root, inter);
                DO(MPI_Scatter, NULL, 0, MPI_INT, w, n, MPI_INT, root, inter);
                compare("intercommunicator scatter", w, v, (size_t)n, n);
                DO(MPI_Reduce, v, NULL, n, MPI_INT, MPI_SUM, root, inter);
            }
        }
        for (int i = 0; i < n; i++) v[i] = val(rank, i, n);
        for (int r = 0; r < there; r++)
            for (int i = 0; i < n; i++) want[r * n + i] = val(2 * r + 1 - side, i, n);
        DO(MPI_Allgather, v, n, MPI_INT, w, n, MPI_INT, inter);
        compare("intercommunicator allgather", w, want, (size_t)n * (size_t)there, n);
        for (int r = 0; r < there; r++)
            for (int i = 0; i < n; i++) {
                v[r * n + i] = val(rank, i, 2 * r + 1 - side);
                want[r * n + i] = val(2 * r + 1 - side, i, rank);
            }
        DO(MPI_Alltoall, v, n, MPI_INT, w, n, MPI_INT, inter);
        compare("intercommunicator alltoall", w, want, (size_t)n * (size_t)there, n);
        for (int i = 0; i < n; i++) {
            v[i] = val(rank, i, n);
            want[i] = 0;
            for (int r = 0; r < there; r++) want[i] += val(2 * r + 1 - side, i, n);
        }
        DO(MPI_Allreduce, v, w, n, MPI_INT, MPI_SUM, inter);
        compare("intercommunicator allreduce", w, want, (size_t)n, n);
        // Reduce and scatter: both sides hold here * there blocks, each rank gets its side's share of the other's sum.
        const int block = 3;
        const int total = here * there * block; // per side: count a rank times the ranks of the side is the same on both
        int *a = ints((size_t)total), *b = ints((size_t)total), *c = ints((size_t)total);
        for (int i = 0; i < total; i++) {
            a[i] = val(rank, i, 1);
            c[i] = 0;
            for (int r = 0; r < there; r++) c[i] += val(2 * r + 1 - side, i, 1);
        }
        DO(MPI_Reduce_scatter_block, a, b, there * block, MPI_INT, MPI_SUM, inter);
        compare("intercommunicator reduce_scatter_block", b, c + me * there * block, (size_t)(there * block), n);
        free(a), free(b), free(c), free(v), free(w), free(want);
    }
    MPI(MPI_Comm_free(&inter));
    MPI(MPI_Comm_free(&mine));
}

TEST(neighbourhood) {
    // A ring with periods, twice linked when there are two ranks, and a directed graph.
    MPI_Comm ring, graph;
    int dims[1] = {size}, periods[1] = {1};
    MPI(MPI_Cart_create(comm, 1, dims, periods, 0, &ring));
    const int left = (rank + size - 1) % size, right = (rank + 1) % size;
    for (int n = 1; n <= 20000; n = n * 21 + 2) {
        int *v = ints((size_t)n * 2), *w = ints((size_t)n * 2), *want = ints((size_t)n * 2);
        for (int i = 0; i < n; i++) v[i] = val(rank, i, n), want[i] = val(left, i, n), want[n + i] = val(right, i, n);
        DO(MPI_Neighbor_allgather, v, n, MPI_INT, w, n, MPI_INT, ring);
        compare("neighbour allgather", w, want, (size_t)n * 2, n);
        // To the left goes what the left neighbour receives from its right.
        for (int i = 0; i < n; i++) {
            v[i] = val(rank, i, 1), v[n + i] = val(rank, i, 2);
            want[i] = val(left, i, 2), want[n + i] = val(right, i, 1);
        }
        DO(MPI_Neighbor_alltoall, v, n, MPI_INT, w, n, MPI_INT, ring);
        compare("neighbour alltoall", w, want, (size_t)n * 2, n);
        const int c2[2] = {n, n}, d2[2] = {n, 0};
        for (int i = 0; i < n; i++) want[n + i] = val(left, i, 1), want[i] = val(right, i, 2);
        int *vv = ints((size_t)n * 2);
        memcpy(vv, v, sizeof(int) * (size_t)n * 2);
        // Displacements swap the halves on both sides.
        DO(MPI_Neighbor_alltoallv, vv, c2, d2, MPI_INT, w, c2, d2, MPI_INT, ring);
        compare("neighbour alltoallv", w, want, (size_t)n * 2, n);
        const MPI_Aint b2[2] = {(MPI_Aint)n * (MPI_Aint)sizeof(int), 0};
        const MPI_Datatype t2[2] = {MPI_INT, MPI_INT};
        for (int i = 0; i < 2 * n; i++) w[i] = -1;
        DO(MPI_Neighbor_alltoallw, vv, c2, b2, t2, w, c2, b2, t2, ring);
        compare("neighbour alltoallw", w, want, (size_t)n * 2, n);
        const int gc[2] = {n, n}, gd[2] = {n, 0};
        for (int i = 0; i < n; i++) want[n + i] = val(left, i, 1), want[i] = val(right, i, 1);
        DO(MPI_Neighbor_allgatherv, v, n, MPI_INT, w, gc, gd, MPI_INT, ring);
        compare("neighbour allgatherv", w, want, (size_t)n * 2, n);
        free(v), free(w), free(want), free(vv);
    }
    // Not periodic: the missing neighbour's part is left alone.
    MPI_Comm line;
    periods[0] = 0;
    MPI(MPI_Cart_create(comm, 1, dims, periods, 0, &line));
    int x = rank + 10, y[2] = {-5, -5};
    DO(MPI_Neighbor_allgather, &x, 1, MPI_INT, y, 1, MPI_INT, line);
    CHECK_EQ(y[0], rank > 0 ? rank + 9 : -5);
    CHECK_EQ(y[1], rank + 1 < size ? rank + 11 : -5);
    MPI(MPI_Comm_free(&line));
    // Everyone sends to all ranks above itself.
    int *src = ints((size_t)size), *dst = ints((size_t)size), ns = 0, nd = 0;
    for (int r = 0; r < rank; r++) src[ns++] = r;
    for (int r = rank + 1; r < size; r++) dst[nd++] = r;
    MPI(MPI_Dist_graph_create_adjacent(comm, ns, src, MPI_UNWEIGHTED, nd, dst, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph));
    int *out = ints((size_t)size), *in = ints((size_t)size);
    for (int i = 0; i < nd; i++) out[i] = rank * 100 + dst[i];
    DO(MPI_Neighbor_alltoall, out, 1, MPI_INT, in, 1, MPI_INT, graph);
    for (int i = 0; i < ns; i++) CHECK_EQ(in[i], src[i] * 100 + rank);
    MPI(MPI_Comm_free(&graph));
    MPI(MPI_Comm_free(&ring));
    free(src), free(dst), free(out), free(in);
}

static void all_tests(void) {
    RUN(barrier);
    RUN(bcast);
    RUN(bcast_of_differing_layouts);
    RUN(gather_scatter);
    RUN(gatherv_scatterv_allgatherv);
    RUN(allgather_alltoall);
    RUN(alltoallv_alltoallw);
    RUN(reductions);
    RUN(reduce_scatter);
    RUN(user_operation_in_rank_order);
    RUN(predefined_operations);
    RUN(minloc_maxloc);
    RUN(intercommunicator);
    RUN(neighbourhood);
}
