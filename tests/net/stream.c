// Streams messages between pairs of ranks on different hosts and looks at every byte; for tests that break the network
// in the middle. Not run by itself: tests/net/faults.py runs it on emulated hosts.
//
//   stream SECONDS [return|stay]     return: errors are told and end the rank with code 3; stay: the rank lives on for 30 s, to be
//                                    looked at; else errors are fatal
//
// Rank i talks to rank i + size / 2. Rank 0 says "moving" when all is under way, and at the end what the longest
// time for one exchange was.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZES = 4, HEAD = 3 };
static const int words_of[SIZES] = {4, 1024, 64 << 10, 1 << 20};

static int rank, size;
static double began;
static int stays;

// What word i of exchange `number` of a rank holds.
static unsigned word(unsigned who, unsigned number, unsigned i) { return (who * 2654435761u) ^ (number * 40503u) ^ (i * 97u); }

static void check(int code, const char *what) {
    char text[MPI_MAX_ERROR_STRING];
    int length, class;
    if (code == MPI_SUCCESS) return;
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    printf("rank %d: %s failed after %.3f s with class %d: %s\n", rank, what, MPI_Wtime() - began, class, text);
    fflush(stdout);
    if (stays) sleep(30);
    _exit(3);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double seconds = argc > 1 ? atof(argv[1]) : 1;
    stays = argc > 2 && strcmp(argv[2], "stay") == 0;
    if (stays || (argc > 2 && strcmp(argv[2], "return") == 0)) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int partner = (rank + size / 2) % size;
    int leads = rank < partner;
    unsigned *out = malloc(sizeof(unsigned) * words_of[SIZES - 1]), *in = malloc(sizeof(unsigned) * words_of[SIZES - 1]);
    double longest = 0, start = MPI_Wtime(), bytes = 0;
    long wrong = 0;
    unsigned number = 0, last = 0;
    while (!last) {
        int words = words_of[number % SIZES];
        for (int i = 0; i < words; i++) out[i] = word(rank, number, i);
        // The first words say which exchange it is and whether it is the last.
        if (leads) last = MPI_Wtime() - start > seconds;
        out[0] = rank;
        out[1] = number;
        out[2] = last;
        memset(in, 0, sizeof(unsigned) * words);
        began = MPI_Wtime();
        MPI_Request requests[2];
        check(MPI_Irecv(in, words, MPI_UNSIGNED, partner, number % 7, MPI_COMM_WORLD, &requests[0]), "MPI_Irecv");
        check(MPI_Isend(out, words, MPI_UNSIGNED, partner, number % 7, MPI_COMM_WORLD, &requests[1]), "MPI_Isend");
        for (int i = 0; i < 2; i++) check(MPI_Wait(&requests[i], MPI_STATUS_IGNORE), "MPI_Wait");
        double took = MPI_Wtime() - began;
        if (took > longest) longest = took;
        bytes += sizeof(unsigned) * words;
        wrong += in[0] != (unsigned)partner;
        wrong += in[1] != number;
        for (int i = HEAD; i < words; i++) wrong += in[i] != word(partner, number, i);
        if (!leads) last = in[2];
        if (++number == 2 * SIZES && rank == 0) {
            printf("moving\n");
            fflush(stdout);
        }
    }
    double most = 0, total = 0;
    long all_wrong = 0;
    began = MPI_Wtime();
    check(MPI_Reduce(&longest, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD), "MPI_Reduce");
    check(MPI_Reduce(&bytes, &total, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD), "MPI_Reduce");
    check(MPI_Reduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD), "MPI_Reduce");
    if (rank == 0) printf("moved %.0f MB, longest exchange %.3f s, %ld wrong\n", total / 1e6, most, all_wrong);
    free(out);
    free(in);
    MPI_Finalize();
    return wrong != 0;
}
