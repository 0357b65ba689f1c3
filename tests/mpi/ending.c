// ranks: 1 2 3
// What ends: communicators that wait for their messages (MPI-5.0 section 11.10.4), and MPI_Finalize, which deletes the attributes of
// MPI_COMM_SELF before anything else (MPI-5.0 section 11.2.4).
#include "check.h"

static int next_of(void) { return (check_rank + 1) % check_size; }
static int prev_of(void) { return (check_rank + check_size - 1) % check_size; }

// Whoever has left MPI_Comm_disconnect owns what was sent, also by requests that it let go: nothing is read from there any more.
static void goes_out_of(MPI_Comm c, int peer_to, int peer_from) {
    static const int sizes[] = {0, 40, 3000, 70000, 3 << 20};
    enum { KINDS = 3, EACH = COUNT(sizes) };
    char *out[EACH * KINDS], *in = malloc((size_t)sizes[EACH - 1] + 1);
    int n = 0, buffered = 0;
    for (int i = 0; i < EACH; i++) buffered += sizes[i] + MPI_BSEND_OVERHEAD;
    void *attached = malloc((size_t)buffered);
    MPI(MPI_Buffer_attach(attached, buffered));
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < EACH; i++, n++) {
            MPI_Request r;
            out[n] = malloc((size_t)sizes[i] + 1);
            check_fill(out[n], (size_t)sizes[i], (unsigned)(check_rank * 100 + n));
            if (kind == 0) {
                MPI(MPI_Bsend(out[n], sizes[i], MPI_CHAR, peer_to, n, c));
                continue;
            }
            if (kind == 1) MPI(MPI_Isend(out[n], sizes[i], MPI_CHAR, peer_to, n, c, &r));
            else MPI(MPI_Issend(out[n], sizes[i], MPI_CHAR, peer_to, n, c, &r));
            MPI(MPI_Request_free(&r));
        }
    // They are received late, by ranks that do not come at the same time.
    usleep(20000 * (unsigned)(check_rank % 3));
    for (int i = n - 1; i >= 0; i--) {
        int size = sizes[i % EACH];
        MPI(MPI_Recv(in, size, MPI_CHAR, peer_from, i, c, MPI_STATUS_IGNORE));
        CHECK_EQ(check_wrong(in, (size_t)size, (unsigned)(peer_from * 100 + i)), -1);
    }
    free(in);
    MPI(MPI_Comm_disconnect(&c));
    CHECK(c == MPI_COMM_NULL);
    for (int i = 0; i < n; i++) {
        memset(out[i], 0x55, (size_t)sizes[i % EACH]);
        free(out[i]);
    }
    void *back = NULL;
    int length = 0;
    MPI(MPI_Buffer_detach(&back, &length));
    CHECK(back == attached && length == buffered);
    free(attached);
}

TEST(disconnect_waits) {
    MPI_Comm c;
    MPI(MPI_Comm_dup(MPI_COMM_WORLD, &c));
    goes_out_of(c, next_of(), prev_of());
}

// The sender is in MPI_Comm_disconnect while its message has not been asked for, and is there until it has gone.
TEST(disconnect_waits_for_the_receiver) {
    const int bytes = 4 << 20;
    char *data = malloc((size_t)bytes);
    MPI_Comm c;
    MPI(MPI_Comm_dup(MPI_COMM_WORLD, &c));
    if (check_size > 1 && check_rank == 0) {
        MPI_Request r;
        check_fill(data, (size_t)bytes, 9);
        MPI(MPI_Isend(data, bytes, MPI_CHAR, 1, 5, c, &r));
        MPI(MPI_Request_free(&r));
        MPI(MPI_Comm_disconnect(&c));
        memset(data, 0, (size_t)bytes);
    } else {
        if (check_rank == 1) {
            usleep(100000);
            MPI(MPI_Recv(data, bytes, MPI_CHAR, 0, 5, c, MPI_STATUS_IGNORE));
            CHECK_EQ(check_wrong(data, (size_t)bytes, 9), -1);
        }
        MPI(MPI_Comm_disconnect(&c));
    }
    CHECK(c == MPI_COMM_NULL);
    free(data);
}

static int gone;
static int goes(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)extra;
    gone += (int)(intptr_t)value;
    return MPI_SUCCESS;
}

TEST(disconnect_deletes_attributes) {
    MPI_Comm c;
    int key;
    MPI(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, goes, &key, NULL));
    MPI(MPI_Comm_dup(MPI_COMM_WORLD, &c));
    MPI(MPI_Comm_set_attr(c, key, (void *)3));
    MPI(MPI_Comm_disconnect(&c));
    CHECK_EQ(gone, 3);
    MPI(MPI_Comm_free_keyval(&key));
}

TEST(disconnect_between_groups) {
    if (check_size < 2) return;
    MPI_Comm half, inter;
    int side = check_rank % 2;
    MPI(MPI_Comm_split(MPI_COMM_WORLD, side, check_rank, &half));
    MPI(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 4, &inter));
    // Rank 0 of each side; the others have nothing to say there.
    char out = (char)side, in = 7;
    int me;
    MPI(MPI_Comm_rank(half, &me));
    if (me == 0) {
        MPI_Request r;
        MPI(MPI_Isend(&out, 1, MPI_CHAR, 0, 1, inter, &r));
        MPI(MPI_Request_free(&r));
        MPI(MPI_Recv(&in, 1, MPI_CHAR, 0, 1, inter, MPI_STATUS_IGNORE));
        CHECK_EQ(in, 1 - side);
    }
    MPI(MPI_Comm_disconnect(&inter));
    MPI(MPI_Comm_disconnect(&half));
    CHECK(inter == MPI_COMM_NULL && half == MPI_COMM_NULL);
}

TEST(disconnect_of_predefined) {
    MPI_Comm c = MPI_COMM_WORLD;
    MPI_FAILS(MPI_Comm_disconnect(&c), MPI_ERR_COMM);
    CHECK(c == MPI_COMM_WORLD);
    c = MPI_COMM_SELF;
    MPI_FAILS(MPI_Comm_disconnect(&c), MPI_ERR_COMM);
    CHECK(c == MPI_COMM_SELF);
}

// --- MPI_Finalize ---------------------------------------------------------------------------------------------------------------
static int order[8], deleted, world_attribute_deleted;

static int last_words(MPI_Comm comm, int key, void *value, void *extra) {
    int finalized = 1, me = -1, sum = 0, got = -1;
    (void)key;
    CHECK(comm == MPI_COMM_SELF);
    CHECK(extra == (void *)order);
    if (deleted < COUNT(order)) order[deleted] = (int)(intptr_t)value;
    deleted++;
    // Everything works still, with the others as well.
    MPI(MPI_Finalized(&finalized));
    CHECK(!finalized);
    MPI(MPI_Comm_rank(MPI_COMM_WORLD, &me));
    CHECK_EQ(me, check_rank);
    MPI(MPI_Sendrecv(&me, 1, MPI_INT, next_of(), 6, &got, 1, MPI_INT, prev_of(), 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(got, prev_of());
    me = 1;
    MPI(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQ(sum, check_size);
    return MPI_SUCCESS;
}

static int of_the_world(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)value, (void)extra;
    world_attribute_deleted++;
    return MPI_SUCCESS;
}

static int keys[4];

TEST(attributes_of_self) {
    int key;
    for (int i = 0; i < 4; i++) MPI(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, last_words, &keys[i], order));
    // Not in the order of the keys.
    MPI(MPI_Comm_set_attr(MPI_COMM_SELF, keys[2], (void *)(intptr_t)30));
    MPI(MPI_Comm_set_attr(MPI_COMM_SELF, keys[0], (void *)(intptr_t)10));
    MPI(MPI_Comm_set_attr(MPI_COMM_SELF, keys[3], (void *)(intptr_t)40));
    MPI(MPI_Comm_set_attr(MPI_COMM_SELF, keys[1], (void *)(intptr_t)20));
    // One has gone before; keys that are freed serve still.
    MPI(MPI_Comm_delete_attr(MPI_COMM_SELF, keys[0]));
    CHECK(deleted == 1 && order[0] == 10);
    deleted = 0;
    for (int i = 0; i < 4; i++) MPI(MPI_Comm_free_keyval(&keys[i]));
    // Attributes of MPI_COMM_WORLD are not part of this.
    MPI(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, of_the_world, &key, NULL));
    MPI(MPI_Comm_set_attr(MPI_COMM_WORLD, key, NULL));
    MPI(MPI_Comm_free_keyval(&key));
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    RUN(disconnect_waits);
    RUN(disconnect_waits_for_the_receiver);
    RUN(disconnect_deletes_attributes);
    RUN(disconnect_between_groups);
    RUN(disconnect_of_predefined);
    RUN(attributes_of_self);
    int before = deleted;
    check_done();
    const char *only = getenv("ONLY");
    if (!only || !*only || strcmp(only, "attributes_of_self") == 0) {
        // The one that was set last went first.
        check_test = "attributes_of_self, in MPI_Finalize";
        CHECK_EQ(before, 0);
        CHECK_EQ(deleted, 3);
        CHECK(order[0] == 20 && order[1] == 40 && order[2] == 30);
        int finalized = 0;
        MPI_Finalized(&finalized);
        CHECK(finalized);
    }
    return check_failures ? 1 : 0;
}
