// ranks: 2 4
// farpost: only
// A message received as another basic type than it was sent: MPI_ERR_TYPE with both types in the text, and the next message
// is right. One-byte types and packed data match everything.
#include "../mpi/check.h"

static int partner(void) { return check_rank ^ 1; }

static void mismatch(int count, MPI_Datatype sent, MPI_Datatype received, int posted) {
    char *out = calloc((size_t)count, 16), *in = calloc((size_t)count, 32), text[MPI_MAX_ERROR_STRING], a[MPI_MAX_OBJECT_NAME], b[MPI_MAX_OBJECT_NAME];
    int n;
    MPI(MPI_Type_get_name(sent, a, &n));
    MPI(MPI_Type_get_name(received, b, &n));
    if (check_rank % 2 == 0) {
        if (posted) MPI(MPI_Recv(NULL, 0, MPI_BYTE, partner(), 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MPI_Request r;
        MPI(MPI_Isend(out, count, sent, partner(), 1, MPI_COMM_WORLD, &r));
        MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
    } else {
        MPI_Request r;
        MPI(MPI_Irecv(in, count * 2, received, partner(), 1, MPI_COMM_WORLD, &r));
        if (posted) MPI(MPI_Send(NULL, 0, MPI_BYTE, partner(), 8, MPI_COMM_WORLD));
        const int code = MPI_Wait(&r, MPI_STATUS_IGNORE);
        int class_ = -1;
        if (code != MPI_SUCCESS) MPI_Error_class(code, &class_);
        if (class_ != MPI_ERR_TYPE)
            check_fail(__FILE__, __LINE__, "%d %s received as %s (%s): class %d, not MPI_ERR_TYPE", count, a, b, posted ? "posted" : "unexpected", class_);
        else {
            MPI(MPI_Error_string(code, text, &n));
            if (!strstr(text, "MPI_Wait") || !strstr(text, b)) check_fail(__FILE__, __LINE__, "the message does not name MPI_Wait and %s: %s", b, text);
        }
    }
    // The next message is right.
    int x = 5, y = 0;
    MPI(MPI_Sendrecv(&x, 1, MPI_INT, partner(), 2, &y, 1, MPI_INT, partner(), 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(y, 5);
    free(out), free(in);
}

TEST(basic_types) {
    static const int counts[] = {1, 2, 100, 3000, 100000};
    for (int i = 0; i < COUNT(counts); i++)
        for (int posted = 0; posted < 2; posted++) {
            mismatch(counts[i], MPI_INT, MPI_DOUBLE, posted);
            mismatch(counts[i], MPI_FLOAT, MPI_INT, posted);
            mismatch(counts[i], MPI_DOUBLE, MPI_LONG, posted);
            mismatch(counts[i], MPI_SHORT, MPI_INT, posted);
        }
}

TEST(bytes_match_everything) {
    int v[4] = {1, 2, 3, 4}, w[4] = {0};
    MPI(MPI_Sendrecv(v, 4, MPI_INT, partner(), 1, w, 16, MPI_BYTE, partner(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(w[3], 4);
    memset(w, 0, sizeof w);
    MPI(MPI_Sendrecv(v, 16, MPI_BYTE, partner(), 1, w, 4, MPI_INT, partner(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(w[3], 4);
    // Types of one kind and size are one type here: int32_t is int, int64_t is long.
    MPI(MPI_Sendrecv(v, 4, MPI_INT, partner(), 1, w, 4, MPI_INT32_T, partner(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MPI(MPI_Sendrecv(v, 2, MPI_LONG, partner(), 1, w, 2, MPI_INT64_T, partner(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    // Derived types of one basic type count as that.
    MPI_Datatype t;
    MPI(MPI_Type_vector(2, 1, 2, MPI_INT, &t));
    MPI(MPI_Type_commit(&t));
    MPI(MPI_Sendrecv(v, 1, t, partner(), 1, w, 2, MPI_INT, partner(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(w[1], 3);
    MPI(MPI_Type_free(&t));
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    RUN(basic_types);
    RUN(bytes_match_everything);
    return check_done();
}
