// simulated: no, gigabytes packet by packet take hours
// ranks: 2
// timeout: 300
// Messages above 4 GiB, contiguous and strided, through the large-count functions. Needs memory: skipped with less than
// 12 GiB free (or LARGE=0). Counts above 2^31 of a big type come back through MPI_Get_count and MPI_Get_elements_c.
// Requirements of MPI-5.0 section 3.4.
#include "check.h"
#include <sys/mman.h>

static double available_gib(void) {
    FILE *f = fopen("/proc/meminfo", "r");
    char line[256];
    double kib = 0;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lf", &kib) == 1) break;
    if (f) fclose(f);
    return kib / 1048576;
}

static const MPI_Count BIG = ((MPI_Count)4 << 30) + 4099;

// Marks at places that a 32-bit length or offset would get wrong.
static const MPI_Count marks[] = {0, 1, 4095, ((MPI_Count)1 << 31) - 1, (MPI_Count)1 << 31, ((MPI_Count)1 << 32) - 1, (MPI_Count)1 << 32, ((MPI_Count)1 << 32) + 4098};

TEST(contiguous) {
    unsigned char *p = mmap(NULL, (size_t)BIG + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        check_fail(__FILE__, __LINE__, "no memory");
        return;
    }
    if (check_rank == 0) {
        for (int i = 0; i < COUNT(marks); i++) p[marks[i]] = (unsigned char)(i + 1);
        for (MPI_Count i = 8191; i < BIG; i += 1048576) p[i] = (unsigned char)(i >> 20 | 1);
        MPI(MPI_Send_c(p, BIG, MPI_BYTE, 1, 1, MPI_COMM_WORLD));
    } else {
        MPI_Status st;
        MPI_Count n = -1;
        int small = 0;
        MPI(MPI_Recv_c(p, BIG, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &st));
        MPI(MPI_Get_count_c(&st, MPI_BYTE, &n));
        CHECK_EQ(n, BIG);
        MPI(MPI_Get_elements_c(&st, MPI_BYTE, &n));
        CHECK_EQ(n, BIG);
        MPI(MPI_Get_count(&st, MPI_BYTE, &small));
        CHECK_EQ(small, MPI_UNDEFINED);
        for (int i = 0; i < COUNT(marks); i++) CHECK_EQ(p[marks[i]], i + 1);
        for (MPI_Count i = 8191; i < BIG; i += 1048576)
            if (p[i] != (unsigned char)(i >> 20 | 1)) {
                check_fail(__FILE__, __LINE__, "wrong at byte %lld", (long long)i);
                break;
            }
        CHECK_EQ(p[BIG], 0);
    }
    munmap(p, (size_t)BIG + 1);
}

// A small count of a huge type, with a hole in it on one side.
TEST(strided) {
    const MPI_Count block = (MPI_Count)1 << 30, stride = block + 4096;
    const MPI_Count room = 4 * stride + 64;
    unsigned char *p = mmap(NULL, (size_t)room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        check_fail(__FILE__, __LINE__, "no memory");
        return;
    }
    MPI_Datatype t;
    MPI(MPI_Type_vector_c(4, block, stride, MPI_BYTE, &t));
    MPI(MPI_Type_commit(&t));
    if (check_rank == 0) {
        for (int b = 0; b < 4; b++) {
            p[b * stride] = (unsigned char)(10 + b);
            p[b * stride + block - 1] = (unsigned char)(20 + b);
            if (b < 3) p[b * stride + block] = 0x55; // in the hole: stays here
        }
        MPI(MPI_Send(p, 1, t, 1, 2, MPI_COMM_WORLD));
    } else {
        MPI_Status st;
        MPI_Count n = -1;
        int one = -1;
        MPI(MPI_Recv(p, 1, t, 0, 2, MPI_COMM_WORLD, &st));
        MPI(MPI_Get_count(&st, t, &one));
        CHECK_EQ(one, 1);
        MPI(MPI_Get_elements_c(&st, t, &n));
        CHECK_EQ(n, 4 * block);
        for (int b = 0; b < 4; b++) {
            CHECK_EQ(p[b * stride], 10 + b);
            CHECK_EQ(p[b * stride + block - 1], 20 + b);
            CHECK_EQ(p[b * stride + block], 0);
        }
    }
    MPI(MPI_Type_free(&t));
    munmap(p, (size_t)room);
}

int main(int argc, char **argv) {
    check_init(&argc, &argv);
    int enough = available_gib() > 12 && !(getenv("LARGE") && getenv("LARGE")[0] == '0'), all = 0;
    MPI(MPI_Allreduce(&enough, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    if (!all) {
        if (check_rank == 0) printf("SKIP: less than 12 GiB of memory available\n");
        return check_done();
    }
    RUN(contiguous);
    RUN(strided);
    return check_done();
}
