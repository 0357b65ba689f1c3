// ranks: 1 2 3
// Derived datatypes: extents and sizes, transfers between differing layouts, contents, packing, external32, attributes.
// Requirements of MPI-5.0 sections 3.2.5, 3.3.1, 5.1.2, 5.1.4, 5.1.5, 5.1.7, 5.1.8, 5.1.9, 5.1.11, 5.1.12,
// 5.1.13, 5.2, 5.3, 7.7.4, 7.8.
#include "check.h"
#include <stddef.h>

static int next_of(void) { return (check_rank + 1) % check_size; }
static int prev_of(void) { return (check_rank + check_size - 1) % check_size; }

static void check_extent(MPI_Datatype t, int size, MPI_Aint lb, MPI_Aint extent, MPI_Aint tlb, MPI_Aint textent, const char *what) {
    int s = -1;
    MPI_Aint l = -1, e = -1, tl = -1, te = -1;
    MPI_Count sc = -1, lc = -1, ec = -1, tlc = -1, tec = -1, sx = -1;
    MPI(MPI_Type_size(t, &s));
    MPI(MPI_Type_get_extent(t, &l, &e));
    MPI(MPI_Type_get_true_extent(t, &tl, &te));
    MPI(MPI_Type_size_c(t, &sc));
    MPI(MPI_Type_size_x(t, &sx));
    MPI(MPI_Type_get_extent_c(t, &lc, &ec));
    MPI(MPI_Type_get_true_extent_c(t, &tlc, &tec));
    if (s != size || l != lb || e != extent || tl != tlb || te != textent)
        check_fail(__FILE__, __LINE__, "%s: size %d lb %ld extent %ld true lb %ld true extent %ld, not %d %ld %ld %ld %ld", what, s, (long)l, (long)e, (long)tl,
                   (long)te, size, (long)lb, (long)extent, (long)tlb, (long)textent);
    CHECK(sc == s && sx == s && lc == l && ec == e && tlc == tl && tec == te);
}

TEST(predefined_sizes) {
    static const struct {
        MPI_Datatype t;
        size_t size;
        const char *name;
    } p[] = {{MPI_CHAR, 1, "MPI_CHAR"}, {MPI_SHORT, sizeof(short), "MPI_SHORT"}, {MPI_INT, sizeof(int), "MPI_INT"}, {MPI_LONG, sizeof(long), "MPI_LONG"},
             {MPI_LONG_LONG, 8, "MPI_LONG_LONG|MPI_LONG_LONG_INT"}, {MPI_SIGNED_CHAR, 1, "MPI_SIGNED_CHAR"}, {MPI_UNSIGNED_CHAR, 1, "MPI_UNSIGNED_CHAR"},
             {MPI_UNSIGNED_SHORT, 2, "MPI_UNSIGNED_SHORT"}, {MPI_UNSIGNED, 4, "MPI_UNSIGNED"}, {MPI_UNSIGNED_LONG, sizeof(long), "MPI_UNSIGNED_LONG"},
             {MPI_FLOAT, 4, "MPI_FLOAT"}, {MPI_DOUBLE, 8, "MPI_DOUBLE"}, {MPI_LONG_DOUBLE, sizeof(long double), "MPI_LONG_DOUBLE"},
             {MPI_WCHAR, sizeof(wchar_t), "MPI_WCHAR"}, {MPI_C_BOOL, sizeof(_Bool), "MPI_C_BOOL"}, {MPI_INT8_T, 1, "MPI_INT8_T"}, {MPI_INT16_T, 2, "MPI_INT16_T"},
             {MPI_INT32_T, 4, "MPI_INT32_T"}, {MPI_INT64_T, 8, "MPI_INT64_T"}, {MPI_UINT8_T, 1, "MPI_UINT8_T"}, {MPI_UINT64_T, 8, "MPI_UINT64_T"},
             {MPI_C_FLOAT_COMPLEX, 8, "MPI_C_FLOAT_COMPLEX|MPI_C_COMPLEX"}, {MPI_C_DOUBLE_COMPLEX, 16, "MPI_C_DOUBLE_COMPLEX"}, {MPI_BYTE, 1, "MPI_BYTE"}, {MPI_PACKED, 1, "MPI_PACKED"},
             {MPI_AINT, sizeof(MPI_Aint), "MPI_AINT"}, {MPI_COUNT, sizeof(MPI_Count), "MPI_COUNT"}, {MPI_OFFSET, sizeof(MPI_Offset), "MPI_OFFSET"}};
    for (int i = 0; i < COUNT(p); i++) {
        char name[MPI_MAX_OBJECT_NAME];
        int n = 0, ni = -1, na = -1, nd = -1, comb = -1;
        check_extent(p[i].t, (int)p[i].size, 0, (MPI_Aint)p[i].size, 0, (MPI_Aint)p[i].size, p[i].name);
        MPI(MPI_Type_get_name(p[i].t, name, &n));
        if (!strstr(p[i].name, name)) check_fail(__FILE__, __LINE__, "name %s is not %s", name, p[i].name);
        CHECK_EQ(n, strlen(name));
        MPI(MPI_Type_get_envelope(p[i].t, &ni, &na, &nd, &comb));
        CHECK(ni == 0 && na == 0 && nd == 0);
        CHECK_EQ(comb, MPI_COMBINER_NAMED);
    }
    struct {
        double d;
        int i;
    } di;
    struct {
        short s;
        int i;
    } si;
    check_extent(MPI_DOUBLE_INT, 12, 0, sizeof di, 0, 12, "MPI_DOUBLE_INT");
    check_extent(MPI_2INT, 8, 0, 8, 0, 8, "MPI_2INT");
    check_extent(MPI_FLOAT_INT, 8, 0, 8, 0, 8, "MPI_FLOAT_INT");
    check_extent(MPI_SHORT_INT, 6, 0, sizeof si, 0, 8, "MPI_SHORT_INT");
}

TEST(extents) {
    MPI_Datatype t, u;
    MPI(MPI_Type_contiguous(5, MPI_INT, &t));
    check_extent(t, 20, 0, 20, 0, 20, "contiguous");
    MPI(MPI_Type_free(&t));
    CHECK(t == MPI_DATATYPE_NULL);
    MPI(MPI_Type_vector(3, 2, 4, MPI_INT, &t));
    check_extent(t, 24, 0, 40, 0, 40, "vector");
    MPI(MPI_Type_free(&t));
    MPI(MPI_Type_vector(3, 2, -4, MPI_INT, &t));
    check_extent(t, 24, -32, 40, -32, 40, "vector with a negative stride");
    MPI(MPI_Type_free(&t));
    MPI(MPI_Type_create_hvector(3, 1, 10, MPI_SHORT, &t));
    check_extent(t, 6, 0, 22, 0, 22, "hvector");
    MPI(MPI_Type_free(&t));
    const int lens[3] = {2, 0, 1}, disps[3] = {5, 100, -1};
    MPI(MPI_Type_indexed(3, lens, disps, MPI_INT, &t));
    check_extent(t, 12, -4, 32, -4, 32, "indexed");
    MPI(MPI_Type_free(&t));
    MPI(MPI_Type_create_indexed_block(2, 2, disps, MPI_INT, &t));
    check_extent(t, 16, 20, 388, 20, 388, "indexed block");
    MPI(MPI_Type_free(&t));
    struct s {
        char c;
        double d;
        int i[3];
    };
    const int bl[3] = {1, 1, 3};
    const MPI_Aint at[3] = {offsetof(struct s, c), offsetof(struct s, d), offsetof(struct s, i)};
    const MPI_Datatype types[3] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
    MPI(MPI_Type_create_struct(3, bl, at, types, &t));
    // The true extent ends with the last byte; the extent is rounded up to the strictest alignment.
    check_extent(t, 21, 0, sizeof(struct s), 0, 28, "struct");
    MPI(MPI_Type_create_resized(t, -8, 100, &u));
    check_extent(u, 21, -8, 100, 0, 28, "resized");
    MPI(MPI_Type_free(&t));
    MPI(MPI_Type_contiguous(2, u, &t));
    check_extent(t, 42, -8, 200, 0, 128, "contiguous of resized");
    MPI(MPI_Type_free(&t));
    MPI(MPI_Type_dup(u, &t));
    check_extent(t, 21, -8, 100, 0, 28, "dup");
    MPI(MPI_Type_free(&t));
    MPI(MPI_Type_free(&u));
    const int sizes[3] = {4, 5, 6}, sub[3] = {2, 3, 2}, start[3] = {1, 1, 3};
    MPI(MPI_Type_create_subarray(3, sizes, sub, start, MPI_ORDER_C, MPI_INT, &t));
    check_extent(t, 48, 0, 480, 4 * (30 + 6 + 3), 4 * (30 + 12 + 2), "subarray, C order");
    MPI(MPI_Type_free(&t));
    MPI(MPI_Type_create_subarray(3, sizes, sub, start, MPI_ORDER_FORTRAN, MPI_INT, &t));
    check_extent(t, 48, 0, 480, 4 * (1 + 4 + 60), 4 * (20 + 2 * 4 + 2), "subarray, Fortran order");
    MPI(MPI_Type_free(&t));
    MPI(MPI_Type_contiguous(0, MPI_INT, &t));
    int s = -1;
    MPI(MPI_Type_size(t, &s));
    CHECK_EQ(s, 0);
    MPI(MPI_Type_free(&t));
}

// Every layout with its list of element offsets (in ints), to be compared element by element.
enum { ROOM = 400, MOST = 64 };
struct layout {
    const char *name;
    MPI_Datatype t;
    int n, at[MOST];
};
static int layouts_made;
static struct layout layouts[16];

static struct layout *add(const char *name) {
    struct layout *l = &layouts[layouts_made++];
    l->name = name;
    l->n = 0;
    return l;
}
static void put(struct layout *l, int at) { l->at[l->n++] = at; }

static void make_layouts(void) {
    struct layout *l;
    MPI_Datatype u, v;
    layouts_made = 0;
    l = add("contiguous");
    MPI(MPI_Type_contiguous(24, MPI_INT, &l->t));
    for (int i = 0; i < 24; i++) put(l, i);
    l = add("vector");
    MPI(MPI_Type_vector(8, 3, 7, MPI_INT, &l->t));
    for (int i = 0; i < 24; i++) put(l, i / 3 * 7 + i % 3);
    l = add("backward vector");
    MPI(MPI_Type_create_hvector(24, 1, -8, MPI_INT, &u));
    const int one = 1;
    const MPI_Aint far = 8 * 23;
    MPI(MPI_Type_create_hindexed(1, &one, &far, u, &l->t));
    MPI(MPI_Type_free(&u));
    for (int i = 0; i < 24; i++) put(l, 2 * (23 - i));
    l = add("indexed");
    const int lens[5] = {4, 0, 9, 1, 10}, disps[5] = {100, 3, 20, 0, 60};
    MPI(MPI_Type_indexed(5, lens, disps, MPI_INT, &l->t));
    for (int b = 0; b < 5; b++)
        for (int i = 0; i < lens[b]; i++) put(l, disps[b] + i);
    l = add("hindexed block");
    const MPI_Aint bytes[6] = {400, 40, 0, 80, 200, 120};
    MPI(MPI_Type_create_hindexed_block(6, 4, bytes, MPI_INT, &l->t));
    for (int b = 0; b < 6; b++)
        for (int i = 0; i < 4; i++) put(l, (int)bytes[b] / 4 + i);
    l = add("indexed block");
    const int blocks[8] = {30, 27, 24, 0, 3, 6, 12, 40};
    MPI(MPI_Type_create_indexed_block(8, 3, blocks, MPI_INT, &l->t));
    for (int b = 0; b < 8; b++)
        for (int i = 0; i < 3; i++) put(l, blocks[b] + i);
    l = add("struct of vector and ints");
    MPI(MPI_Type_vector(5, 2, 3, MPI_INT, &u));
    const int bl[3] = {1, 4, 1};
    const MPI_Aint sd[3] = {0, 100, 200};
    const MPI_Datatype st[3] = {u, MPI_INT, u};
    MPI(MPI_Type_create_struct(3, bl, sd, st, &l->t));
    MPI(MPI_Type_free(&u));
    for (int i = 0; i < 10; i++) put(l, i / 2 * 3 + i % 2);
    for (int i = 0; i < 4; i++) put(l, 25 + i);
    for (int i = 0; i < 10; i++) put(l, 50 + i / 2 * 3 + i % 2);
    l = add("subarray");
    const int sizes[3] = {4, 5, 6}, sub[3] = {2, 3, 4}, start[3] = {2, 1, 1};
    MPI(MPI_Type_create_subarray(3, sizes, sub, start, MPI_ORDER_C, MPI_INT, &l->t));
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 4; k++) put(l, (i + 2) * 30 + (j + 1) * 6 + k + 1);
    l = add("Fortran subarray");
    MPI(MPI_Type_create_subarray(3, sizes, sub, start, MPI_ORDER_FORTRAN, MPI_INT, &l->t));
    for (int k = 0; k < 4; k++)
        for (int j = 0; j < 3; j++)
            for (int i = 0; i < 2; i++) put(l, (i + 2) + (j + 1) * 4 + (k + 1) * 20);
    l = add("columns by resizing");
    MPI(MPI_Type_vector(6, 1, 10, MPI_INT, &u));
    MPI(MPI_Type_create_resized(u, 0, 4, &v));
    MPI(MPI_Type_contiguous(4, v, &l->t));
    MPI(MPI_Type_free(&u));
    MPI(MPI_Type_free(&v));
    for (int c = 0; c < 4; c++)
        for (int r = 0; r < 6; r++) put(l, r * 10 + c);
    l = add("vector of vectors");
    MPI(MPI_Type_vector(2, 2, 3, MPI_INT, &u));
    MPI(MPI_Type_vector(3, 2, 4, u, &l->t));
    MPI(MPI_Type_free(&u));
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 2; b++)
            for (int c = 0; c < 2; c++)
                for (int d = 0; d < 2; d++) put(l, a * 20 + b * 5 + c * 3 + d);
    for (int i = 0; i < layouts_made; i++) {
        MPI(MPI_Type_commit(&layouts[i].t));
        CHECK_EQ(layouts[i].n, 24);
    }
}
static void free_layouts(void) {
    for (int i = 0; i < layouts_made; i++) MPI(MPI_Type_free(&layouts[i].t));
}

TEST(between_layouts) {
    make_layouts();
    for (int a = 0; a < layouts_made; a++)
        for (int b = 0; b < layouts_made; b++) {
            int from[ROOM], to[ROOM], want[ROOM];
            MPI_Status st;
            int n = -1;
            for (int i = 0; i < ROOM; i++) from[i] = check_rank * 1000 + i, to[i] = want[i] = -i;
            for (int i = 0; i < 24; i++) want[layouts[b].at[i]] = prev_of() * 1000 + layouts[a].at[i];
            MPI(MPI_Sendrecv(from, 1, layouts[a].t, next_of(), 1, to, 1, layouts[b].t, prev_of(), 1, MPI_COMM_WORLD, &st));
            if (memcmp(to, want, sizeof to) != 0) check_fail(__FILE__, __LINE__, "%s to %s: wrong", layouts[a].name, layouts[b].name);
            MPI(MPI_Get_count(&st, layouts[b].t, &n));
            CHECK_EQ(n, 1);
            MPI(MPI_Get_elements(&st, layouts[b].t, &n));
            CHECK_EQ(n, 24);
        }
    free_layouts();
}

// Many elements of a strided type, so that the pipelined and the single-copy protocols see it, with different layouts.
TEST(big_strided) {
    enum { N = 60000 };
    MPI_Datatype s, r, t;
    double *out = malloc(sizeof(double) * N * 3), *in = malloc(sizeof(double) * N * 3);
    MPI(MPI_Type_vector(N, 1, 3, MPI_DOUBLE, &s));
    MPI(MPI_Type_vector(N / 4, 4, 7, MPI_DOUBLE, &t));
    MPI(MPI_Type_create_resized(t, 0, sizeof(double), &r));
    MPI(MPI_Type_commit(&s));
    MPI(MPI_Type_commit(&r));
    for (int i = 0; i < 3 * N; i++) out[i] = check_rank + i, in[i] = -1;
    MPI(MPI_Sendrecv(out, 1, s, next_of(), 1, in, 1, r, prev_of(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0, bad = 0; i < N && !bad; i++)
        if (in[i / 4 * 7 + i % 4] != prev_of() + 3 * i) {
            check_fail(__FILE__, __LINE__, "element %d is %g", i, in[i / 4 * 7 + i % 4]);
            bad = 1;
        }
    CHECK(in[4] == -1 && in[6] == -1);
    // Contiguous on one side only, and every size about the protocol limits.
    for (int n = 1; n <= N; n = n * 3 + 1) {
        MPI(MPI_Sendrecv(out, n, MPI_DOUBLE, next_of(), 1, in, 1, r, prev_of(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(in[(n - 1) / 4 * 7 + (n - 1) % 4] == prev_of() + n - 1);
        MPI_Datatype v;
        MPI(MPI_Type_vector(n, 1, 3, MPI_DOUBLE, &v));
        MPI(MPI_Type_commit(&v));
        MPI(MPI_Sendrecv(out, 1, v, next_of(), 1, in, n, MPI_DOUBLE, prev_of(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(in[n - 1] == prev_of() + 3.0 * (n - 1) && in[n / 2] == prev_of() + 3.0 * (n / 2));
        MPI(MPI_Type_free(&v));
    }
    MPI(MPI_Type_free(&s));
    MPI(MPI_Type_free(&r));
    MPI(MPI_Type_free(&t));
    free(out), free(in);
}

TEST(partial_counts) {
    // Fewer elements than the receive type has: count undefined, elements exact.
    MPI_Datatype t;
    MPI_Status st;
    const int bl[2] = {1, 1};
    const MPI_Aint at[2] = {0, 8};
    const MPI_Datatype types[2] = {MPI_DOUBLE, MPI_INT};
    struct {
        double d;
        int i;
    } v[4] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}}, w[4];
    int n = -1;
    MPI(MPI_Type_create_struct(2, bl, at, types, &t));
    MPI(MPI_Type_commit(&t));
    memset(w, 0, sizeof w);
    MPI_Datatype five;
    const int b3[3] = {1, 1, 1};
    const MPI_Aint a3[3] = {0, 16, 8};
    const MPI_Datatype t3[3] = {t, MPI_DOUBLE, MPI_BYTE};
    (void)b3, (void)a3, (void)t3;
    const int bl2[2] = {2, 1};
    const MPI_Aint at2[2] = {0, 32};
    const MPI_Datatype ty2[2] = {t, MPI_DOUBLE};
    MPI(MPI_Type_create_struct(2, bl2, at2, ty2, &five));
    MPI(MPI_Type_commit(&five));
    MPI(MPI_Sendrecv(v, 1, five, next_of(), 1, w, 4, t, prev_of(), 1, MPI_COMM_WORLD, &st));
    MPI(MPI_Get_count(&st, t, &n));
    CHECK_EQ(n, MPI_UNDEFINED);
    MPI(MPI_Get_elements(&st, t, &n));
    CHECK_EQ(n, 5);
    CHECK(w[1].d == 3 && w[1].i == 4 && w[2].d == 5 && w[2].i == 0);
    MPI(MPI_Type_free(&t));
    MPI(MPI_Type_free(&five));
}

TEST(darray) {
    // A 2-d block-cyclic array: the pieces of all ranks of a 2 x 2 grid cover the array once, in order.
    const int gsizes[2] = {7, 9}, distribs[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK}, dargs[2] = {2, MPI_DISTRIBUTE_DFLT_DARG}, psizes[2] = {2, 2};
    int seen[63] = {0};
    for (int r = 0; r < 4; r++) {
        MPI_Datatype t;
        int size = -1, whole[63], piece[63] = {0}, pos = 0, n = 0, want[63];
        MPI_Aint lb, extent;
        MPI(MPI_Type_create_darray(4, r, 2, gsizes, distribs, dargs, psizes, MPI_ORDER_C, MPI_INT, &t));
        MPI(MPI_Type_commit(&t));
        MPI(MPI_Type_size(t, &size));
        MPI(MPI_Type_get_extent(t, &lb, &extent));
        CHECK_EQ(lb, 0);
        CHECK_EQ(extent, 63 * 4);
        for (int i = 0; i < 7; i++)
            for (int j = 0; j < 9; j++)
                if (i / 2 % 2 == r / 2 && j / 5 == r % 2) want[n++] = i * 9 + j, seen[i * 9 + j]++;
        CHECK_EQ(size, 4 * n);
        for (int i = 0; i < 63; i++) whole[i] = i;
        MPI(MPI_Pack(whole, 1, t, piece, sizeof piece, &pos, MPI_COMM_SELF));
        CHECK_EQ(pos, 4 * n);
        for (int i = 0; i < n; i++) CHECK_EQ(piece[i], want[i]);
        MPI(MPI_Type_free(&t));
    }
    for (int i = 0; i < 63; i++) CHECK_EQ(seen[i], 1);
}

TEST(contents) {
    MPI_Datatype t, u;
    int ni, na, nd, comb, i[20];
    MPI_Aint a[10];
    MPI_Datatype d[10];
    MPI(MPI_Type_vector(3, 2, 4, MPI_INT, &t));
    MPI(MPI_Type_get_envelope(t, &ni, &na, &nd, &comb));
    CHECK(ni == 3 && na == 0 && nd == 1 && comb == MPI_COMBINER_VECTOR);
    MPI(MPI_Type_get_contents(t, 20, 10, 10, i, a, d));
    CHECK(i[0] == 3 && i[1] == 2 && i[2] == 4 && d[0] == MPI_INT);
    const int bl[2] = {2, 1};
    const MPI_Aint at[2] = {0, 64};
    const MPI_Datatype types[2] = {MPI_DOUBLE, t};
    MPI(MPI_Type_create_struct(2, bl, at, types, &u));
    MPI(MPI_Type_get_envelope(u, &ni, &na, &nd, &comb));
    CHECK(ni == 3 && na == 2 && nd == 2 && comb == MPI_COMBINER_STRUCT);
    MPI(MPI_Type_get_contents(u, 20, 10, 10, i, a, d));
    CHECK(i[0] == 2 && i[1] == 2 && i[2] == 1 && a[0] == 0 && a[1] == 64 && d[0] == MPI_DOUBLE);
    // The derived one comes back as a new handle to free.
    int in = -1, again[3];
    MPI(MPI_Type_get_envelope(d[1], &in, &na, &nd, &comb));
    CHECK(in == 3 && comb == MPI_COMBINER_VECTOR);
    MPI(MPI_Type_get_contents(d[1], 3, 0, 1, again, NULL, d + 2));
    CHECK(again[2] == 4);
    MPI(MPI_Type_free(&d[1]));
    MPI(MPI_Type_free(&u));
    MPI(MPI_Type_create_resized(t, -4, 128, &u));
    MPI(MPI_Type_get_envelope(u, &ni, &na, &nd, &comb));
    CHECK(ni == 0 && na == 2 && nd == 1 && comb == MPI_COMBINER_RESIZED);
    MPI(MPI_Type_get_contents(u, 0, 2, 1, i, a, d));
    CHECK(a[0] == -4 && a[1] == 128);
    MPI(MPI_Type_free(&d[0]));
    MPI(MPI_Type_free(&u));
    MPI(MPI_Type_dup(t, &u));
    MPI(MPI_Type_get_envelope(u, &ni, &na, &nd, &comb));
    CHECK(ni == 0 && na == 0 && nd == 1 && comb == MPI_COMBINER_DUP);
    MPI(MPI_Type_free(&u));
    const int sizes[2] = {4, 5}, sub[2] = {2, 3}, start[2] = {1, 2};
    MPI(MPI_Type_create_subarray(2, sizes, sub, start, MPI_ORDER_C, MPI_INT, &u));
    MPI(MPI_Type_get_envelope(u, &ni, &na, &nd, &comb));
    CHECK(ni == 8 && na == 0 && nd == 1 && comb == MPI_COMBINER_SUBARRAY);
    MPI(MPI_Type_get_contents(u, 20, 10, 10, i, a, d));
    CHECK(i[0] == 2 && i[1] == 4 && i[2] == 5 && i[3] == 2 && i[4] == 3 && i[5] == 1 && i[6] == 2 && i[7] == MPI_ORDER_C);
    MPI(MPI_Type_free(&u));
    MPI(MPI_Type_free(&t));
    MPI_Count lc[4], nic = -1, nac = -1, nlc = -1, ndc = -1;
    MPI(MPI_Type_vector_c(3, 2, 4, MPI_INT, &t));
    MPI(MPI_Type_get_envelope_c(t, &nic, &nac, &nlc, &ndc, &comb));
    CHECK(nic == 0 && nac == 0 && nlc == 3 && ndc == 1 && comb == MPI_COMBINER_VECTOR);
    MPI(MPI_Type_get_contents_c(t, 0, 0, 3, 1, NULL, NULL, lc, d));
    CHECK(lc[0] == 3 && lc[1] == 2 && lc[2] == 4 && d[0] == MPI_INT);
    MPI(MPI_Type_free(&t));
}

TEST(pack_unpack) {
    char buf[400];
    int pos = 0, n = 0, i = 42, j[3] = {1, 2, 3}, x = 0, y[3] = {0};
    double d = 2.5, e = 0;
    MPI(MPI_Pack_size(3, MPI_INT, MPI_COMM_WORLD, &n));
    CHECK(n >= 12);
    MPI(MPI_Pack(&i, 1, MPI_INT, buf, sizeof buf, &pos, MPI_COMM_WORLD));
    MPI(MPI_Pack(&d, 1, MPI_DOUBLE, buf, sizeof buf, &pos, MPI_COMM_WORLD));
    MPI(MPI_Pack(j, 3, MPI_INT, buf, sizeof buf, &pos, MPI_COMM_WORLD));
    char in[400];
    MPI_Status st;
    MPI(MPI_Sendrecv(buf, pos, MPI_PACKED, next_of(), 1, in, sizeof in, MPI_PACKED, prev_of(), 1, MPI_COMM_WORLD, &st));
    MPI(MPI_Get_count(&st, MPI_PACKED, &n));
    CHECK_EQ(n, pos);
    pos = 0;
    MPI(MPI_Unpack(in, n, &pos, &x, 1, MPI_INT, MPI_COMM_WORLD));
    MPI(MPI_Unpack(in, n, &pos, &e, 1, MPI_DOUBLE, MPI_COMM_WORLD));
    MPI(MPI_Unpack(in, n, &pos, y, 3, MPI_INT, MPI_COMM_WORLD));
    CHECK(x == 42 && e == 2.5 && y[2] == 3);
    CHECK_EQ(pos, n);
    // Packed here, received there as what it is.
    pos = 0;
    MPI(MPI_Pack(j, 3, MPI_INT, buf, sizeof buf, &pos, MPI_COMM_WORLD));
    memset(y, 0, sizeof y);
    MPI(MPI_Sendrecv(buf, pos, MPI_PACKED, next_of(), 1, y, 3, MPI_INT, prev_of(), 1, MPI_COMM_WORLD, &st));
    CHECK_EQ(y[1], 2);
    // A strided type through pack.
    make_layouts();
    for (int l = 0; l < layouts_made; l++) {
        int from[ROOM], to[ROOM], ints[24];
        for (int k = 0; k < ROOM; k++) from[k] = k, to[k] = -1;
        pos = 0;
        MPI(MPI_Pack(from, 1, layouts[l].t, ints, sizeof ints, &pos, MPI_COMM_SELF));
        CHECK_EQ(pos, 96);
        for (int k = 0; k < 24; k++)
            if (ints[k] != layouts[l].at[k]) {
                check_fail(__FILE__, __LINE__, "pack of %s: element %d is %d, not %d", layouts[l].name, k, ints[k], layouts[l].at[k]);
                break;
            }
        pos = 0;
        MPI(MPI_Unpack(ints, sizeof ints, &pos, to, 1, layouts[l].t, MPI_COMM_SELF));
        for (int k = 0; k < 24; k++) CHECK_EQ(to[layouts[l].at[k]], layouts[l].at[k]);
    }
    free_layouts();
}

TEST(external32) {
    // Known bytes: big-endian, IEEE, sizes of the standard's table (long 4 bytes... of a fixed size).
    static const unsigned char want_int[4] = {0x01, 0x02, 0x03, 0x04}, want_double[8] = {0xC0, 0x05, 0x40, 0, 0, 0, 0, 0}, want_short[2] = {0xFF, 0xFE};
    unsigned char buf[64];
    MPI_Aint pos = 0, size = -1;
    const int i = 0x01020304;
    const double d = -2.65625;
    const short s = -2;
    const float f = 1.0f;
    int j = 0;
    double e = 0;
    short t = 0;
    float g = 0;
    MPI(MPI_Pack_external("external32", &i, 1, MPI_INT, buf, sizeof buf, &pos));
    CHECK_EQ(pos, 4);
    MPI(MPI_Pack_external("external32", &d, 1, MPI_DOUBLE, buf, sizeof buf, &pos));
    CHECK_EQ(pos, 12);
    MPI(MPI_Pack_external("external32", &s, 1, MPI_SHORT, buf, sizeof buf, &pos));
    CHECK_EQ(pos, 14);
    MPI(MPI_Pack_external("external32", &f, 1, MPI_FLOAT, buf, sizeof buf, &pos));
    CHECK_EQ(pos, 18);
    CHECK(memcmp(buf, want_int, 4) == 0);
    CHECK(memcmp(buf + 4, want_double, 8) == 0);
    CHECK(memcmp(buf + 12, want_short, 2) == 0);
    CHECK(buf[14] == 0x3F && buf[15] == 0x80);
    pos = 0;
    MPI(MPI_Unpack_external("external32", buf, 18, &pos, &j, 1, MPI_INT));
    MPI(MPI_Unpack_external("external32", buf, 18, &pos, &e, 1, MPI_DOUBLE));
    MPI(MPI_Unpack_external("external32", buf, 18, &pos, &t, 1, MPI_SHORT));
    MPI(MPI_Unpack_external("external32", buf, 18, &pos, &g, 1, MPI_FLOAT));
    CHECK(j == i && e == d && t == s && g == f);
    MPI(MPI_Pack_external_size("external32", 3, MPI_DOUBLE, &size));
    CHECK_EQ(size, 24);
    MPI(MPI_Pack_external_size("external32", 5, MPI_CHAR, &size));
    CHECK_EQ(size, 5);
    MPI_Datatype v;
    int x[5] = {1, 2, 3, 4, 5}, y[5] = {0};
    MPI(MPI_Type_vector(3, 1, 2, MPI_INT, &v));
    MPI(MPI_Type_commit(&v));
    pos = 0;
    MPI(MPI_Pack_external("external32", x, 1, v, buf, sizeof buf, &pos));
    CHECK_EQ(pos, 12);
    CHECK(buf[3] == 1 && buf[7] == 3 && buf[11] == 5);
    pos = 0;
    MPI(MPI_Unpack_external("external32", buf, 12, &pos, y, 1, v));
    CHECK(y[0] == 1 && y[1] == 0 && y[2] == 3 && y[4] == 5);
    MPI(MPI_Type_free(&v));
}

TEST(freed_while_in_use) {
    // A type may be freed while a transfer uses it, and while other types are built on it.
    MPI_Datatype t, u;
    MPI_Request r[2];
    enum { N = 50000 };
    int *out = malloc(sizeof(int) * N * 2), *in = calloc(N * 2, sizeof(int));
    for (int i = 0; i < 2 * N; i++) out[i] = i + check_rank;
    MPI(MPI_Type_vector(N, 1, 2, MPI_INT, &t));
    MPI(MPI_Type_contiguous(1, t, &u));
    MPI(MPI_Type_free(&t));
    MPI(MPI_Type_commit(&u));
    MPI(MPI_Irecv(in, 1, u, prev_of(), 1, MPI_COMM_WORLD, &r[0]));
    MPI(MPI_Isend(out, 1, u, next_of(), 1, MPI_COMM_WORLD, &r[1]));
    MPI(MPI_Type_free(&u));
    MPI(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    CHECK_EQ(in[2 * N - 2], 2 * N - 2 + prev_of());
    CHECK_EQ(in[1], 0);
    free(out), free(in);
}

TEST(absolute_addresses) {
    int a = check_rank, b = -1;
    double c = check_rank + 0.5, d = -1;
    MPI_Aint at[2], there[2];
    MPI_Datatype t, u;
    const int bl[2] = {1, 1};
    const MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE};
    MPI(MPI_Get_address(&a, &at[0]));
    MPI(MPI_Get_address(&c, &at[1]));
    MPI(MPI_Get_address(&b, &there[0]));
    MPI(MPI_Get_address(&d, &there[1]));
    MPI(MPI_Type_create_struct(2, bl, at, types, &t));
    MPI(MPI_Type_create_struct(2, bl, there, types, &u));
    MPI(MPI_Type_commit(&t));
    MPI(MPI_Type_commit(&u));
    MPI(MPI_Sendrecv(MPI_BOTTOM, 1, t, next_of(), 1, MPI_BOTTOM, 1, u, prev_of(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(b, prev_of());
    CHECK(d == prev_of() + 0.5);
    CHECK_EQ(MPI_Aint_diff(MPI_Aint_add(at[0], 16), at[0]), 16);
    MPI(MPI_Type_free(&t));
    MPI(MPI_Type_free(&u));
}

static int copies, deletes;
static int copy_attr(MPI_Datatype t, int k, void *extra, void *in, void *out, int *flag) {
    (void)t, (void)k;
    copies += *(int *)extra;
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return MPI_SUCCESS;
}
static int delete_attr(MPI_Datatype t, int k, void *v, void *extra) {
    (void)t, (void)k, (void)v, (void)extra;
    deletes++;
    return MPI_SUCCESS;
}
TEST(attributes_and_names) {
    MPI_Datatype t, u;
    int key = MPI_KEYVAL_INVALID, extra = 1, flag = 0, n = -1;
    void *v = NULL;
    char name[MPI_MAX_OBJECT_NAME] = "x";
    MPI(MPI_Type_create_keyval(copy_attr, delete_attr, &key, &extra));
    MPI(MPI_Type_contiguous(2, MPI_INT, &t));
    MPI(MPI_Type_get_name(t, name, &n));
    CHECK_STR(name, "");
    MPI(MPI_Type_set_name(t, "pair"));
    MPI(MPI_Type_get_name(t, name, &n));
    CHECK_STR(name, "pair");
    CHECK_EQ(n, 4);
    MPI(MPI_Type_set_attr(t, key, (void *)100));
    MPI(MPI_Type_get_attr(t, key, &v, &flag));
    CHECK(flag && v == (void *)100);
    MPI(MPI_Type_dup(t, &u));
    CHECK_EQ(copies, 1);
    MPI(MPI_Type_get_attr(u, key, &v, &flag));
    CHECK(flag && v == (void *)101);
    MPI(MPI_Type_free(&u));
    CHECK_EQ(deletes, 1);
    MPI(MPI_Type_delete_attr(t, key));
    CHECK_EQ(deletes, 2);
    MPI(MPI_Type_get_attr(t, key, &v, &flag));
    CHECK(!flag);
    MPI(MPI_Type_free(&t));
    CHECK_EQ(deletes, 2);
    MPI(MPI_Type_free_keyval(&key));
    CHECK_EQ(key, MPI_KEYVAL_INVALID);
}

TEST(match_size) {
    MPI_Datatype t;
    int n = 0;
    MPI(MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 4, &t));
    MPI(MPI_Type_size(t, &n));
    CHECK_EQ(n, 4);
    MPI(MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &t));
    MPI(MPI_Type_size(t, &n));
    CHECK_EQ(n, 8);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    RUN(predefined_sizes);
    RUN(extents);
    RUN(between_layouts);
    RUN(big_strided);
    RUN(partial_counts);
    RUN(darray);
    RUN(contents);
    RUN(pack_unpack);
    RUN(external32);
    RUN(freed_while_in_use);
    RUN(absolute_addresses);
    RUN(attributes_and_names);
    RUN(match_size);
    return check_done();
}
