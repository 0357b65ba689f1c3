// ranks: 1 3
// Pi by throwing darts, in C++: every rank throws its share, a reduction adds the hits up.
// mpicxx -O2 -o pi pi.cc && mpiexec -n 4 ./pi 10000000
#include <cstdio>
#include <cstdlib>
#include <mpi.h>
#include <random>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, size = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    const long throws = argc > 1 ? std::atol(argv[1]) : 1000000;
    std::mt19937_64 random(2024 + rank);
    std::uniform_real_distribution<double> coordinate(0.0, 1.0);
    long hits = 0, all = 0;
    for (long i = rank; i < throws; i += size) {
        const double x = coordinate(random), y = coordinate(random);
        hits += x * x + y * y < 1.0;
    }
    MPI_Reduce(&hits, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) std::printf("pi is about %.4f, says a throw of %ld darts by %d ranks\n", 4.0 * all / throws, throws, size);
    MPI_Finalize();
}
