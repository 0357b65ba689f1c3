// ranks: 2 4
// Bursts of messages of all lengths from all to all, with rests between them that are long enough for the memory of queues and
// blocks to be given back: everything arrives, once and in order, whatever the ranks do meanwhile. And the memory does go back.
#include "check.h"
#include <dirent.h>
#include <sys/stat.h>
#include <time.h>

enum { BURST = 140, LONGEST = 70000, MOST = 4 };

static unsigned char out[BURST][LONGEST], in[MOST][BURST][LONGEST];
static MPI_Request requests[2 * MOST * BURST];

static int length(int number) {
    static const int lengths[] = {0, 8, 24, 40, 200, 272, 273, 1000, 1024, 1025, 2000, 8192, 9000, 20000, 65536, LONGEST};
    return lengths[number % COUNT(lengths)];
}

static unsigned seed(int from, int round, int number) { return (unsigned)(from * 4096 + round * 256 + number); }

// Each sends `count` messages to each of the others.
static void burst(int round, int count) {
    int posted = 0;
    for (int from = 0; from < check_size; from++)
        for (int n = 0; n < count && from != check_rank; n++)
            MPI(MPI_Irecv(in[from][n], LONGEST, MPI_BYTE, from, round, MPI_COMM_WORLD, requests + posted++));
    for (int n = 0; n < count; n++) {
        check_fill(out[n], (size_t)length(n), seed(check_rank, round, n));
        for (int to = 0; to < check_size; to++)
            if (to != check_rank) MPI(MPI_Isend(out[n], length(n), MPI_BYTE, to, round, MPI_COMM_WORLD, requests + posted++));
    }
    MPI(MPI_Waitall(posted, requests, MPI_STATUSES_IGNORE));
    for (int from = 0; from < check_size; from++)
        for (int n = 0; n < count && from != check_rank; n++)
            CHECK_EQ(check_wrong(in[from][n], (size_t)length(n), seed(from, round, n)), -1);
}

static void away(void) {
    struct timespec time = {1, 200000000};
    nanosleep(&time, NULL);
}

static void polls(void) {
    time_t end = time(NULL) + 2;
    for (int flag = 0; time(NULL) < end;) {
        MPI(MPI_Iprobe(MPI_ANY_SOURCE, 9999, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
    }
}

// KiB that this process has in mappings without a name and in its memory files: areas for peers are there, and the heap is not, of
// which pages that are used in part stay. -1: the system does not tell, or there are other things in such mappings.
static long mapped_kib(void) {
#ifdef __SANITIZE_ADDRESS__
    return -1;
#endif
    char line[512], version[MPI_MAX_LIBRARY_VERSION_STRING];
    const char *fabric = getenv("FARPOST_FABRIC"), *device = getenv("FARPOST_DEVICE");
    int len;
    MPI(MPI_Get_library_version(version, &len));
    // libfabric's buffers of messages stay, and other libraries give nothing back.
    if (!strstr(version, "Farpost") || (fabric && strcmp(fabric, "tcp") != 0 && strcmp(fabric, "auto") != 0)) return -1;
    if (device && strcmp(device, "postbox") != 0) return -1;
    FILE *smaps = fopen("/proc/self/smaps", "r");
    DIR *files = opendir("/proc/self/fd");
    long kib = -1, here;
    if (smaps && files) {
        int unnamed = 0;
        kib = 0;
        while (fgets(line, sizeof line, smaps)) {
            unsigned long inode;
            char name[2];
            int found = sscanf(line, "%*x-%*x %*s %*s %*s %lu %1s", &inode, name);
            if (found >= 1) unnamed = found == 1 && inode == 0;
            if (unnamed && sscanf(line, "Anonymous: %ld kB", &here) == 1) kib += here;
        }
        for (struct dirent *file; (file = readdir(files));) {
            struct stat about;
            snprintf(line, sizeof line, "/proc/self/fd/%s", file->d_name);
            char to[64] = "";
            if (readlink(line, to, sizeof to - 1) > 0 && strncmp(to, "/memfd:farpost-segment", 22) == 0 && stat(line, &about) == 0)
                kib += (long)about.st_blocks / 2;
        }
    }
    if (smaps) fclose(smaps);
    if (files) closedir(files);
    return kib;
}

// However long it takes until all of it has gone back: what is left is a few pages for each peer.
TEST(memory_goes_back) {
    enum { PATIENCE = 60, LEFT = 64, LEFT_OF_PEER = 48 };
    memset(out, 1, sizeof out);
    memset(in, 1, sizeof in);
    burst(60, 2);
    polls();
    long before = mapped_kib();
    burst(61, BURST);
    long most = before + LEFT + LEFT_OF_PEER * (check_size - 1), after;
    // The others look as well, until they have seen theirs go back.
    MPI_Request all = MPI_REQUEST_NULL;
    time_t end = time(NULL) + PATIENCE;
    int over = 0;
    do {
        polls();
        after = mapped_kib();
        if (all == MPI_REQUEST_NULL && (after <= most || time(NULL) > end)) MPI(MPI_Ibarrier(MPI_COMM_WORLD, &all));
        if (all != MPI_REQUEST_NULL) MPI(MPI_Test(&all, &over, MPI_STATUS_IGNORE));
    } while (!over);
    if (after > most) check_fail(__FILE__, __LINE__, "%ld KiB are mapped for peers after a rest, and %ld were before", after, before);
}

TEST(nobody_calls_meanwhile) {
    for (int round = 0; round < 3; round++) {
        burst(round, round == 1 ? 1 : BURST);
        away();
    }
    burst(3, BURST);
}

TEST(all_look_meanwhile) {
    burst(10, BURST);
    polls();
    burst(11, 1);
    polls();
    burst(12, BURST);
}

// The others wait in a call for rank 0, which is away; then it is the other way round.
TEST(some_wait_meanwhile) {
    for (int turn = 0; turn < 2; turn++) {
        burst(20 + turn, BURST);
        if ((check_rank == 0) == (turn == 0)) away();
        burst(30 + turn, 3);
        burst(40 + turn, BURST);
    }
}

// What was sent before the rest is received after it.
TEST(messages_wait_meanwhile) {
    burst(50, BURST);
    int to = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size;
    for (int n = 0; n < 10; n++) {
        check_fill(out[n], 500, seed(check_rank, 51, n));
        MPI(MPI_Isend(out[n], 500, MPI_BYTE, to, 51, MPI_COMM_WORLD, requests + n));
    }
    check_rank % 2 ? away() : polls();
    for (int n = 0; n < 10; n++) {
        MPI(MPI_Recv(in[0][n], 500, MPI_BYTE, from, 51, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(check_wrong(in[0][n], 500, seed(from, 51, n)), -1);
    }
    MPI(MPI_Waitall(10, requests, MPI_STATUSES_IGNORE));
    burst(52, BURST);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    RUN(memory_goes_back);
    RUN(nobody_calls_meanwhile);
    RUN(all_look_meanwhile);
    RUN(some_wait_meanwhile);
    RUN(messages_wait_meanwhile);
    return check_done();
}
