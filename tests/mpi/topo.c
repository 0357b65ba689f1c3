// ranks: 1 2 3 4 5 8
// Cartesian, graph and distributed-graph topologies.
// Requirements of MPI-5.0 sections 8.5.1, 8.5.2, 8.5.3, 8.5.4, 8.5.5.
#include "check.h"

TEST(dims_create) {
    static const struct {
        int nodes, nd, in[3], out[3];
    } c[] = {{6, 2, {0, 0}, {3, 2}}, {7, 2, {0, 0}, {7, 1}}, {6, 3, {0, 3, 0}, {2, 3, 1}}, {12, 3, {0, 0, 0}, {3, 2, 2}}, {1, 2, {0, 0}, {1, 1}}, {64, 3, {0, 0, 0}, {4, 4, 4}}, {36, 2, {0, 0}, {6, 6}}};
    for (int k = 0; k < COUNT(c); k++) {
        int d[3] = {c[k].in[0], c[k].in[1], c[k].in[2]};
        MPI(MPI_Dims_create(c[k].nodes, c[k].nd, d));
        for (int i = 0; i < c[k].nd; i++) CHECK_EQ(d[i], c[k].out[i]);
    }
    int bad[2] = {4, 0};
    CHECK(MPI_Dims_create(6, 2, bad) != MPI_SUCCESS);
}

TEST(cartesian) {
    int dims[2] = {0, 0}, periods[2] = {1, 0}, at[2], back = -1, n = 0, status = 0;
    MPI_Comm c, rows;
    MPI(MPI_Dims_create(check_size, 2, dims));
    MPI(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &c));
    MPI(MPI_Topo_test(c, &status));
    CHECK_EQ(status, MPI_CART);
    MPI(MPI_Topo_test(MPI_COMM_WORLD, &status));
    CHECK_EQ(status, MPI_UNDEFINED);
    MPI(MPI_Cartdim_get(c, &n));
    CHECK_EQ(n, 2);
    int me;
    MPI(MPI_Comm_rank(c, &me));
    CHECK_EQ(me, check_rank);
    MPI(MPI_Cart_coords(c, me, 2, at));
    CHECK_EQ(at[0], me / dims[1]); // row-major
    CHECK_EQ(at[1], me % dims[1]);
    MPI(MPI_Cart_rank(c, at, &back));
    CHECK_EQ(back, me);
    int wrapped[2] = {at[0] - 3 * dims[0], at[1]};
    MPI(MPI_Cart_rank(c, wrapped, &back));
    CHECK_EQ(back, me);
    int src, dst;
    MPI(MPI_Cart_shift(c, 0, 1, &src, &dst));
    CHECK_EQ(dst, (at[0] + 1) % dims[0] * dims[1] + at[1]);
    CHECK_EQ(src, (at[0] + dims[0] - 1) % dims[0] * dims[1] + at[1]);
    MPI(MPI_Cart_shift(c, 1, 1, &src, &dst));
    CHECK_EQ(dst, at[1] + 1 < dims[1] ? me + 1 : MPI_PROC_NULL);
    CHECK_EQ(src, at[1] > 0 ? me - 1 : MPI_PROC_NULL);
    int d[2], p[2], a[2];
    MPI(MPI_Cart_get(c, 2, d, p, a));
    CHECK(d[0] == dims[0] && d[1] == dims[1] && p[0] && !p[1] && a[0] == at[0] && a[1] == at[1]);
    const int keep[2] = {0, 1};
    MPI(MPI_Cart_sub(c, keep, &rows));
    MPI(MPI_Comm_size(rows, &n));
    CHECK_EQ(n, dims[1]);
    MPI(MPI_Comm_rank(rows, &n));
    CHECK_EQ(n, at[1]);
    MPI(MPI_Cartdim_get(rows, &n));
    CHECK_EQ(n, 1);
    MPI_Comm dup;
    MPI(MPI_Comm_dup(c, &dup)); // the topology comes along
    MPI(MPI_Topo_test(dup, &status));
    CHECK_EQ(status, MPI_CART);
    MPI(MPI_Comm_free(&dup));
    MPI(MPI_Comm_free(&rows));
    MPI(MPI_Comm_free(&c));
    // Smaller than the communicator: the rest get MPI_COMM_NULL; larger is an error.
    int one[1] = {(check_size + 1) / 2}, per[1] = {0};
    MPI(MPI_Cart_create(MPI_COMM_WORLD, 1, one, per, 0, &c));
    CHECK((c == MPI_COMM_NULL) == (check_rank >= one[0]));
    if (c != MPI_COMM_NULL) MPI(MPI_Comm_free(&c));
    one[0] = check_size + 1;
    CHECK(MPI_Cart_create(MPI_COMM_WORLD, 1, one, per, 0, &c) != MPI_SUCCESS);
    int where;
    one[0] = check_size;
    MPI(MPI_Cart_map(MPI_COMM_WORLD, 1, one, per, &where));
    CHECK(where == MPI_UNDEFINED || (where >= 0 && where < check_size));
    // No dimensions: one process.
    MPI(MPI_Cart_create(MPI_COMM_WORLD, 0, NULL, NULL, 0, &c));
    CHECK((c == MPI_COMM_NULL) == (check_rank != 0));
    if (c != MPI_COMM_NULL) {
        MPI(MPI_Cartdim_get(c, &n));
        CHECK_EQ(n, 0);
        MPI(MPI_Comm_free(&c));
    }
}

TEST(graph) {
    // A star with a ring of self loops: rank 0 to everyone.
    MPI_Comm c;
    int *index = malloc(sizeof(int) * (size_t)check_size), *edges = malloc(sizeof(int) * (size_t)(2 * check_size)), n = 0, status, nn = -1, ne = -1;
    for (int r = 0; r < check_size; r++) {
        if (r == 0)
            for (int k = 1; k < check_size; k++) edges[n++] = k;
        else
            edges[n++] = 0;
        index[r] = n;
    }
    MPI(MPI_Graph_create(MPI_COMM_WORLD, check_size, index, edges, 0, &c));
    MPI(MPI_Topo_test(c, &status));
    CHECK_EQ(status, MPI_GRAPH);
    MPI(MPI_Graphdims_get(c, &nn, &ne));
    CHECK(nn == check_size && ne == n);
    int *i2 = malloc(sizeof(int) * (size_t)check_size), *e2 = malloc(sizeof(int) * (size_t)(2 * check_size));
    MPI(MPI_Graph_get(c, check_size, n, i2, e2));
    CHECK(memcmp(index, i2, sizeof(int) * (size_t)check_size) == 0 && memcmp(edges, e2, sizeof(int) * (size_t)n) == 0);
    MPI(MPI_Graph_neighbors_count(c, 0, &nn));
    CHECK_EQ(nn, check_size - 1);
    MPI(MPI_Graph_neighbors(c, 0, nn, e2));
    for (int k = 0; k < nn; k++) CHECK_EQ(e2[k], k + 1);
    int x = check_rank + 1, *got = calloc((size_t)check_size + 1, sizeof(int));
    MPI(MPI_Neighbor_allgather(&x, 1, MPI_INT, got, 1, MPI_INT, c));
    if (check_rank == 0)
        for (int k = 0; k < check_size - 1; k++) CHECK_EQ(got[k], k + 2);
    else
        CHECK_EQ(got[0], 1);
    MPI(MPI_Graph_map(MPI_COMM_WORLD, check_size, index, edges, &nn));
    MPI(MPI_Comm_free(&c));
    free(index), free(edges), free(i2), free(e2), free(got);
}

TEST(dist_graph) {
    // Rank 0 describes the whole directed ring with weights.
    MPI_Comm c;
    int ni, no, weighted, status, src[2], sw[2], dst[2], dw[2];
    int *s = malloc(sizeof(int) * (size_t)check_size), *deg = malloc(sizeof(int) * (size_t)check_size), *d = malloc(sizeof(int) * (size_t)check_size), *w = malloc(sizeof(int) * (size_t)check_size);
    for (int r = 0; r < check_size; r++) s[r] = r, deg[r] = 1, d[r] = (r + 1) % check_size, w[r] = 10 + r;
    MPI(MPI_Dist_graph_create(MPI_COMM_WORLD, check_rank == 0 ? check_size : 0, s, deg, d, w, MPI_INFO_NULL, 0, &c));
    MPI(MPI_Topo_test(c, &status));
    CHECK_EQ(status, MPI_DIST_GRAPH);
    MPI(MPI_Dist_graph_neighbors_count(c, &ni, &no, &weighted));
    CHECK(ni == 1 && no == 1 && weighted);
    MPI(MPI_Dist_graph_neighbors(c, 1, src, sw, 1, dst, dw));
    CHECK_EQ(src[0], (check_rank + check_size - 1) % check_size);
    CHECK_EQ(sw[0], 10 + src[0]);
    CHECK_EQ(dst[0], (check_rank + 1) % check_size);
    CHECK_EQ(dw[0], 10 + check_rank);
    MPI(MPI_Comm_free(&c));
    MPI(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, NULL, MPI_WEIGHTS_EMPTY, 0, NULL, MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &c));
    MPI(MPI_Dist_graph_neighbors_count(c, &ni, &no, &weighted));
    CHECK(ni == 0 && no == 0 && weighted);
    MPI(MPI_Comm_free(&c));
    free(s), free(deg), free(d), free(w);
}

TEST(wrong_kind) {
    int n;
    MPI_FAILS(MPI_Cartdim_get(MPI_COMM_WORLD, &n), MPI_ERR_TOPOLOGY);
    MPI_FAILS(MPI_Graphdims_get(MPI_COMM_WORLD, &n, &n), MPI_ERR_TOPOLOGY);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    RUN(dims_create);
    RUN(cartesian);
    RUN(graph);
    RUN(dist_graph);
    RUN(wrong_kind);
    return check_done();
}
