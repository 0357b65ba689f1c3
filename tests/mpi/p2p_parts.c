// ranks: 2 3 8
// settings: FARPOST_PORTALS_AGENT_MEMORY=64k | FARPOST_PORTALS_AGENT_MEMORY=4096 | FARPOST_PORTALS_AGENT_MEMORY=64k FARPOST_PORTALS_EXPOSED=0 FARPOST_PORTALS_POSTED=0 FARPOST_PORTALS_FETCHES=1 | FARPOST_PORTALS_AGENT_MEMORY=256k FARPOST_SHM_CMA=0
// Messages longer than what carries them can hold at a time, above all a Portals agent: in every mode of sending and way of receiving,
// waited for and not, one and many, cut, cancelled, with gaps, in collectives. Requirements of MPI-5.0 sections 3.4, 3.5, 3.8.1, 3.8.3, 3.8.4.
#include "check.h"

enum { MOST = 3 << 20 };
// By a small agent parts are few bytes: lengths are chosen by it, so that no case takes for ever.
static int most = MOST;
static const int lengths[] = {0, 1, 4095, 4096, 4097, 16384, 16385, 65536, 65537, 200001, MOST - 5};
static unsigned char *out, *in;

static unsigned char byte_at(int salt, long at) { return (unsigned char)(at * 31 + (at >> 12) * 7 + salt * 13 + 1); }

static void fill(unsigned char *p, int n, int salt) {
    for (int i = 0; i < n; i++) p[i] = byte_at(salt, i);
}

static void check_bytes(const char *file, int line, const unsigned char *p, int n, int salt) {
    for (int i = 0; i < n; i++)
        if (p[i] != byte_at(salt, i)) {
            check_fail(file, line, "byte %d of %d is %d, not %d", i, n, p[i], byte_at(salt, i));
            return;
        }
}
#define BYTES(p, n, salt) check_bytes(__FILE__, __LINE__, p, n, salt)

static int length(int which) { return lengths[which] < most ? lengths[which] : most - which; }

static void check_status(const char *file, int line, MPI_Status *st, int source, int tag, int n) {
    int count = -1;
    MPI_Get_count(st, MPI_BYTE, &count);
    if (st->MPI_SOURCE != source || st->MPI_TAG != tag || count != n)
        check_fail(file, line, "status of %d bytes from %d with tag %d, not %d from %d with %d", count, st->MPI_SOURCE, st->MPI_TAG, n, source, tag);
}
#define STATUS(st, source, tag, n) check_status(__FILE__, __LINE__, &(st), source, tag, n)

static int next(void) { return (check_rank + 1) % check_size; }
static int last(void) { return (check_rank + check_size - 1) % check_size; }

enum { SEND, SSEND, BSEND, RSEND, PERSISTENT, WAYS };

// Begin a send of n bytes to the next rank.
static MPI_Request begin(int way, unsigned char *p, int n, int tag) {
    MPI_Request r = MPI_REQUEST_NULL;
    switch (way) {
    case SEND: MPI(MPI_Isend(p, n, MPI_BYTE, next(), tag, MPI_COMM_WORLD, &r)); break;
    case SSEND: MPI(MPI_Issend(p, n, MPI_BYTE, next(), tag, MPI_COMM_WORLD, &r)); break;
    case BSEND: MPI(MPI_Ibsend(p, n, MPI_BYTE, next(), tag, MPI_COMM_WORLD, &r)); break;
    case RSEND: MPI(MPI_Irsend(p, n, MPI_BYTE, next(), tag, MPI_COMM_WORLD, &r)); break;
    default:
        MPI(MPI_Send_init(p, n, MPI_BYTE, next(), tag, MPI_COMM_WORLD, &r));
        MPI(MPI_Start(&r));
    }
    return r;
}

static void end(int way, MPI_Request *r) {
    MPI(MPI_Wait(r, MPI_STATUS_IGNORE));
    if (way == PERSISTENT) MPI(MPI_Request_free(r));
}

TEST(posted) {
    for (int way = 0; way < WAYS; way++)
        for (int i = 0; i < COUNT(lengths); i++) {
            const int n = length(i), any = i % 2;
            MPI_Request r, s;
            MPI_Status st;
            memset(in, 0, (size_t)n + 1);
            fill(out, n, i + way);
            MPI(MPI_Irecv(in, MOST, MPI_BYTE, any ? MPI_ANY_SOURCE : last(), any ? MPI_ANY_TAG : i, MPI_COMM_WORLD, &r));
            MPI(MPI_Barrier(MPI_COMM_WORLD));
            s = begin(way, out, n, i);
            MPI(MPI_Wait(&r, &st));
            STATUS(st, last(), i, n);
            BYTES(in, n, i + way);
            CHECK_EQ(in[n], 0);
            end(way, &s);
        }
}

TEST(unexpected) {
    for (int way = 0; way < WAYS; way++)
        for (int i = 0; i < COUNT(lengths); i++) {
            const int n = length(i);
            MPI_Request s;
            MPI_Status st;
            MPI_Message message;
            if (way == RSEND) continue;
            fill(out, n, i + way);
            s = begin(way, out, n, i);
            MPI(MPI_Probe(last(), i, MPI_COMM_WORLD, &st));
            STATUS(st, last(), i, n);
            if (i % 2) {
                MPI(MPI_Mprobe(MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &message, &st));
                STATUS(st, last(), i, n);
                MPI(MPI_Mrecv(in, n, MPI_BYTE, &message, &st));
            } else {
                MPI(MPI_Recv(in, n, MPI_BYTE, MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &st));
            }
            STATUS(st, last(), i, n);
            BYTES(in, n, i + way);
            end(way, &s);
        }
}

// A message that is longer than its buffer, and one in a buffer that is longer than anything.
TEST(cut) {
    static const int capacities[] = {0, 1, 7, 5000, 70000};
    for (int posted = 0; posted < 2; posted++)
        for (int i = 0; i < COUNT(capacities); i++) {
            const int n = most - 3;
            const int room = capacities[i] < n ? capacities[i] : n - 1;
            MPI_Request r = MPI_REQUEST_NULL, s = MPI_REQUEST_NULL;
            MPI_Status st;
            memset(in, 0, (size_t)n);
            fill(out, n, i);
            if (!posted) MPI(MPI_Issend(out, n, MPI_BYTE, next(), 1, MPI_COMM_WORLD, &s));
            if (!posted) MPI(MPI_Probe(last(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            MPI(MPI_Irecv(in, room, MPI_BYTE, last(), 1, MPI_COMM_WORLD, &r));
            if (posted) MPI(MPI_Issend(out, n, MPI_BYTE, next(), 1, MPI_COMM_WORLD, &s));
            MPI_FAILS(MPI_Wait(&r, &st), MPI_ERR_TRUNCATE);
            BYTES(in, room, i);
            CHECK_EQ(in[room], 0);
            MPI(MPI_Wait(&s, MPI_STATUS_IGNORE));
            MPI(MPI_Sendrecv(&i, sizeof i, MPI_BYTE, next(), 2, in, MOST, MPI_BYTE, last(), 2, MPI_COMM_WORLD, &st));
            STATUS(st, last(), 2, (int)sizeof i);
        }
}

// Long and short messages of one tag keep their order, whether they are waited for or not.
TEST(order) {
    enum { N = 12 };
    MPI_Request r[N], s[N];
    MPI_Status st;
    const int each = most / N;
    for (int late = 0; late < 2; late++) {
        for (int i = 0; i < N; i++) {
            const int n = i % 3 == 1 ? 9 : each - i;
            fill(out + i * each, n, i);
            if (!late) MPI(MPI_Irecv(in + i * each, each, MPI_BYTE, last(), 4, MPI_COMM_WORLD, &r[i]));
        }
        for (int i = 0; i < N; i++) MPI(MPI_Isend(out + i * each, i % 3 == 1 ? 9 : each - i, MPI_BYTE, next(), 4, MPI_COMM_WORLD, &s[i]));
        for (int i = 0; i < N; i++) {
            const int n = i % 3 == 1 ? 9 : each - i;
            if (late) MPI(MPI_Recv(in + i * each, each, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &st));
            else MPI(MPI_Wait(&r[i], &st));
            STATUS(st, last(), 4, n);
            BYTES(in + i * each, n, i);
        }
        MPI(MPI_Waitall(N, s, MPI_STATUSES_IGNORE));
    }
}

// From everybody to everybody at once, received from the last to the first.
TEST(many) {
    enum { N = 4 };
    MPI_Request s[16 * N];
    int begun = 0;
    const int n = most / (N * check_size);
    for (int to = 0; to < check_size; to++)
        for (int k = 0; k < N; k++) {
            unsigned char *p = out + (to * N + k) * n;
            fill(p, n, check_rank + k);
            MPI(MPI_Isend(p, n, MPI_BYTE, to, k, MPI_COMM_WORLD, &s[begun++]));
        }
    for (int k = N - 1; k >= 0; k--)
        for (int from = check_size - 1; from >= 0; from--) {
            MPI_Status st;
            MPI(MPI_Recv(in, n, MPI_BYTE, from, k, MPI_COMM_WORLD, &st));
            STATUS(st, from, k, n);
            BYTES(in, n, from + k);
        }
    MPI(MPI_Waitall(begun, s, MPI_STATUSES_IGNORE));
}

// With gaps at either side: few pieces, and more than are described one by one.
TEST(gaps) {
    for (int block = most / 8; block > 0; block = block > 64 ? 64 : 0)
        for (int side = 0; side < 3; side++) {
            const int blocks = most / 2 / block, n = blocks * block;
            MPI_Datatype type;
            MPI_Request s;
            MPI_Status st;
            MPI(MPI_Type_vector(blocks, block, 2 * block, MPI_BYTE, &type));
            MPI(MPI_Type_commit(&type));
            fill(out, most, 3);
            if (side != 1)
                for (int i = 0; i < blocks; i++)
                    for (int j = 0; j < block; j++) out[2 * i * block + j] = byte_at(3, i * block + j);
            memset(in, 0, (size_t)most);
            if (side != 1) MPI(MPI_Isend(out, 1, type, next(), 6, MPI_COMM_WORLD, &s));
            else MPI(MPI_Isend(out, n, MPI_BYTE, next(), 6, MPI_COMM_WORLD, &s));
            if (block == 64) MPI(MPI_Probe(last(), 6, MPI_COMM_WORLD, &st));
            if (side != 0) MPI(MPI_Recv(in, 1, type, last(), 6, MPI_COMM_WORLD, &st));
            else MPI(MPI_Recv(in, n, MPI_BYTE, last(), 6, MPI_COMM_WORLD, &st));
            STATUS(st, last(), 6, n);
            for (int i = 0; i < blocks; i++) {
                const int at = side != 0 ? 2 * i * block : i * block;
                if (in[at] != byte_at(3, i * block) || in[at + block - 1] != byte_at(3, i * block + block - 1)) {
                    check_fail(__FILE__, __LINE__, "block %d of %d bytes, side %d, is wrong", i, block, side);
                    break;
                }
                if (side != 0 && i + 1 < blocks) CHECK_EQ(in[at + block], 0);
            }
            MPI(MPI_Wait(&s, MPI_STATUS_IGNORE));
            MPI(MPI_Type_free(&type));
        }
}

// A send that nobody receives is cancelled; one that is matched is not.
TEST(cancelled) {
    MPI_Request s;
    MPI_Status st;
    int flag = 0, word = 0;
    fill(out, most, 8);
    MPI(MPI_Isend(out, most, MPI_BYTE, next(), 9, MPI_COMM_WORLD, &s));
    MPI(MPI_Probe(last(), 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    MPI(MPI_Cancel(&s));
    MPI(MPI_Wait(&s, &st));
    MPI(MPI_Test_cancelled(&st, &flag));
    CHECK(flag);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    MPI(MPI_Iprobe(last(), 9, MPI_COMM_WORLD, &flag, &st));
    CHECK(!flag);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
    MPI(MPI_Sendrecv(&check_rank, 1, MPI_INT, next(), 9, &word, 1, MPI_INT, last(), 9, MPI_COMM_WORLD, &st));
    CHECK_EQ(word, last());
}

TEST(collectives) {
    const int n = most / 4, each = n / check_size;
    int *a = (int *)out, *b = (int *)in;
    if (check_rank == check_size - 1) fill(in, most, 5);
    MPI(MPI_Bcast(in, most, MPI_BYTE, check_size - 1, MPI_COMM_WORLD));
    BYTES(in, most, 5);
    for (int i = 0; i < n; i++) a[i] = i + check_rank;
    MPI(MPI_Allreduce(a, b, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < n; i += 97) CHECK_EQ(b[i], i * check_size + check_size * (check_size - 1) / 2);
    MPI(MPI_Alltoall(a, each, MPI_INT, b, each, MPI_INT, MPI_COMM_WORLD));
    for (int r = 0; r < check_size; r++) CHECK_EQ(b[r * each + each - 1], check_rank * each + each - 1 + r);
    MPI(MPI_Gather(a, each, MPI_INT, b, each, MPI_INT, 0, MPI_COMM_WORLD));
    for (int r = 0; check_rank == 0 && r < check_size; r++) CHECK_EQ(b[r * each + each - 1], each - 1 + r);
}

// Longer than an agent's memory by default, and a receive that could hold more.
TEST(longest) {
    const int n = 68000000, room = 100000000;
    unsigned char *p = calloc(1, (size_t)room);
    MPI_Status st;
    if (check_rank == 0) {
        for (int i = 0; i < n; i += 4093) p[i] = byte_at(2, i);
        MPI(MPI_Send(p, n, MPI_BYTE, 1, 1, MPI_COMM_WORLD));
        MPI(MPI_Send(p, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD));
    } else if (check_rank == 1) {
        MPI(MPI_Recv(p, room, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &st));
        STATUS(st, 0, 1, n);
        for (int i = 0; i < n; i += 4093)
            if (p[i] != byte_at(2, i)) {
                check_fail(__FILE__, __LINE__, "wrong at byte %d", i);
                break;
            }
        CHECK_EQ(p[n], 0);
        MPI(MPI_Recv(p, room, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &st));
        STATUS(st, 0, 1, 8);
    }
    free(p);
    MPI(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv) {
    const char *memory = getenv("FARPOST_PORTALS_AGENT_MEMORY");
    // What was sent may be in it until its receiver has it: of both tests with buffered sends.
    const int size = 4 * MOST;
    unsigned char *buffered = malloc((size_t)size);
    check_init(&argc, &argv);
    if (memory) most = atoi(memory) > 1000 ? 150000 : 600000;
    out = malloc(MOST + 16);
    in = malloc(MOST + 16);
    MPI(MPI_Buffer_attach(buffered, size));
    RUN(posted);
    RUN(unexpected);
    RUN(cut);
    RUN(order);
    RUN(many);
    RUN(gaps);
    RUN(cancelled);
    RUN(collectives);
    if (!memory) RUN(longest);
    MPI(MPI_Buffer_detach(&buffered, &(int){0}));
    free(buffered);
    free(out);
    free(in);
    return check_done();
}
