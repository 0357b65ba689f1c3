// ranks: 1 2 4
// farpost: only
// The names that MPI-3.0 removed, as programs of MPI-1 use them: they compile without a word, and MPI_LB and MPI_UB mean what they
// meant. Also compiled as C++.
// Requirements of MPI-5.0 sections 5.1.6, 5.1.7, 5.1.10, 9.3, 19.3.
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, size, failures;
#define CHECK(c)                                                                                                                 \
    do {                                                                                                                         \
        if (!(c)) failures++, fprintf(stderr, "FAIL %s:%d: rank %d: %s\n", __FILE__, __LINE__, rank, #c);                        \
    } while (0)

static int handled;
static void handler(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
    handled++;
}

static void errors(void) {
    MPI_Handler_function *function = handler;
    MPI_Errhandler made, got;
    MPI_Errhandler_create(function, &made);
    MPI_Errhandler_set(MPI_COMM_WORLD, made);
    MPI_Errhandler_get(MPI_COMM_WORLD, &got);
    CHECK(MPI_Send(NULL, 1, MPI_INT, size, 0, MPI_COMM_WORLD) != MPI_SUCCESS);
    CHECK(handled == 1);
    // Nothing was said of MPI_COMM_SELF: what belongs to no communicator comes here, too.
    MPI_Datatype type;
    CHECK(MPI_Type_contiguous(-1, MPI_INT, &type) != MPI_SUCCESS);
    CHECK(handled == 2);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK(MPI_Type_contiguous(-1, MPI_INT, &type) != MPI_SUCCESS);
    CHECK(handled == 2);
    MPI_Errhandler_free(&got);
    MPI_Errhandler_free(&made);
    MPI_Errhandler_set(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

struct particle {
    char kind;
    double at[3];
    int id;
};

static void bounds(MPI_Datatype type, MPI_Aint lb, MPI_Aint ub, int line) {
    MPI_Aint low = -77, high = -77, extent = -77;
    MPI_Type_lb(type, &low);
    MPI_Type_ub(type, &high);
    MPI_Type_extent(type, &extent);
    if (low != lb || high != ub || extent != ub - lb)
        failures++, fprintf(stderr, "FAIL line %d: bounds %ld to %ld, extent %ld, should be %ld to %ld\n", line, (long)low, (long)high,
                            (long)extent, (long)lb, (long)ub);
}
#define BOUNDS(type, lb, ub) bounds(type, lb, ub, __LINE__)

// The usual structure with MPI_UB at its end, exchanged.
static void particles(void) {
    struct particle out[5] = {{0, {0}, 0}}, in[5] = {{0, {0}, 0}};
    int lengths[4] = {1, 3, 1, 1};
    MPI_Aint at[4], base;
    MPI_Datatype types[4] = {MPI_CHAR, MPI_DOUBLE, MPI_INT, MPI_UB}, type;
    MPI_Request request;
    MPI_Address(&out[0], &base);
    MPI_Address(&out[0].kind, &at[0]);
    MPI_Address(out[0].at, &at[1]);
    MPI_Address(&out[0].id, &at[2]);
    MPI_Address(&out[1], &at[3]);
    for (int i = 0; i < 4; i++) at[i] -= base;
    CHECK(MPI_Type_struct(4, lengths, at, types, &type) == MPI_SUCCESS);
    MPI_Type_commit(&type);
    BOUNDS(type, 0, (MPI_Aint)sizeof(struct particle));
    for (int i = 0; i < 5; i++) {
        out[i].kind = (char)('a' + i), out[i].id = 100 * rank + i;
        for (int k = 0; k < 3; k++) out[i].at[k] = rank + i + k / 8.0;
    }
    MPI_Isend(out, 5, type, (rank + 1) % size, 0, MPI_COMM_WORLD, &request);
    MPI_Recv(in, 5, type, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < 5; i++) {
        const int from = (rank + size - 1) % size;
        CHECK(in[i].kind == 'a' + i && in[i].id == 100 * from + i && in[i].at[2] == from + i + 0.25);
    }
    MPI_Type_free(&type);
}

// MPI-1.1 section 3.12.3, and its example 3.26.
static void marks(void) {
    int lengths[3] = {1, 1, 1};
    MPI_Aint at[3] = {-3, 0, 6};
    MPI_Datatype types[3] = {MPI_LB, MPI_INT, MPI_UB}, one, two, outer, dup;
    MPI_Type_struct(3, lengths, at, types, &one);
    BOUNDS(one, -3, 6);
    MPI_Type_contiguous(2, one, &two);
    BOUNDS(two, -3, 15);
    MPI_Type_dup(two, &dup);
    BOUNDS(dup, -3, 15);
    MPI_Type_free(&dup);
    MPI_Type_free(&two);
    // MPI_UB alone leaves the lower bound to the data, also of what is built of it.
    MPI_Aint ends[2] = {0, 8};
    MPI_Datatype padded[2] = {MPI_INT, MPI_UB}, around[3] = {MPI_INT, MPI_DATATYPE_NULL, MPI_UB};
    MPI_Type_struct(2, lengths, ends, padded, &two);
    BOUNDS(two, 0, 8);
    MPI_Type_dup(two, &dup);
    BOUNDS(dup, 0, 8);
    MPI_Aint places[3] = {0, 8, 24};
    around[1] = dup;
    MPI_Type_struct(3, lengths, places, around, &outer);
    BOUNDS(outer, 0, 24);
    MPI_Type_free(&outer);
    // MPI_LB alone leaves the upper bound to the data.
    MPI_Aint starts[2] = {-8, 0};
    MPI_Datatype lowered[2] = {MPI_LB, MPI_INT};
    MPI_Type_struct(2, lengths, starts, lowered, &outer);
    BOUNDS(outer, -8, 4);
    MPI_Type_free(&outer);
    // A mark inside wins over data further out.
    MPI_Aint far[2] = {0, 100};
    MPI_Datatype with[2] = {two, MPI_INT};
    MPI_Type_struct(2, lengths, far, with, &outer);
    BOUNDS(outer, 0, 8);
    MPI_Type_free(&outer);
    // Nothing but a mark; and the marks themselves.
    MPI_Aint end[1] = {16};
    MPI_Datatype mark[1] = {MPI_UB};
    int bytes = -1;
    MPI_Type_struct(1, lengths, end, mark, &outer);
    MPI_Type_size(outer, &bytes);
    CHECK(bytes == 0);
    BOUNDS(outer, 0, 16);
    BOUNDS(MPI_UB, 0, 0);
    BOUNDS(MPI_LB, 0, 0);
    MPI_Type_free(&outer);
    // What made it tells the marks again.
    int integers[4], n[4];
    MPI_Aint addresses[3];
    MPI_Datatype inside[3];
    MPI_Type_get_envelope(one, &n[0], &n[1], &n[2], &n[3]);
    CHECK(n[2] == 3 && n[3] == MPI_COMBINER_STRUCT);
    MPI_Type_get_contents(one, 4, 3, 3, integers, addresses, inside);
    CHECK(inside[0] == MPI_LB && inside[1] == MPI_INT && inside[2] == MPI_UB);
    switch (n[3]) {
    case MPI_COMBINER_HVECTOR_INTEGER:
    case MPI_COMBINER_HINDEXED_INTEGER:
    case MPI_COMBINER_STRUCT_INTEGER: CHECK(0); break;
    case MPI_COMBINER_STRUCT: break;
    default: CHECK(0);
    }
    MPI_Type_free(&dup);
    MPI_Type_free(&two);
    MPI_Type_free(&one);
}

static void constructors(void) {
    int lengths[2] = {2, 1}, v[12], w[12];
    MPI_Aint at[2] = {0, 16};
    MPI_Datatype rows, list;
    for (int i = 0; i < 12; i++) v[i] = i, w[i] = -1;
    MPI_Type_hvector(2, 1, 8, MPI_INT, &rows);
    BOUNDS(rows, 0, 12);
    MPI_Type_hindexed(2, lengths, at, MPI_INT, &list);
    BOUNDS(list, 0, 20);
    MPI_Type_commit(&list);
    MPI_Sendrecv(v, 1, list, rank, 0, w, 3, MPI_INT, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(w[0] == 0 && w[1] == 1 && w[2] == 4 && w[3] == -1);
    MPI_Type_free(&rows);
    MPI_Type_free(&list);
    int code = MPI_Type_extent(MPI_DATATYPE_NULL, &at[0]), error = 0;
    MPI_Error_class(code, &error);
    CHECK(error == MPI_ERR_TYPE);
    CHECK(MPI_Type_ub(MPI_INT, NULL) != MPI_SUCCESS);
}

static void attributes(void) {
    int key, flag, value = 3, *found;
    MPI_Keyval_create(MPI_NULL_COPY_FN, MPI_NULL_DELETE_FN, &key, NULL);
    MPI_Attr_put(MPI_COMM_WORLD, key, &value);
    MPI_Attr_get(MPI_COMM_WORLD, key, &found, &flag);
    CHECK(flag && found == &value);
    MPI_Attr_delete(MPI_COMM_WORLD, key);
    MPI_Keyval_free(&key);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    errors();
    particles();
    marks();
    constructors();
    attributes();
    MPI_Finalize();
    return failures != 0;
}
