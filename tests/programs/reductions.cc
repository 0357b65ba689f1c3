// ranks: 1 2 3 4 7 16
// C++ with the standard library and exceptions around MPI: pi by midpoint rule and a histogram, compared with a serial
// computation; reduction of a std::complex and a user-defined operation on a C++ struct.
#include <array>
#include <cmath>
#include <complex>
#include <cstdio>
#include <mpi.h>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

struct Extremes {
    double low, high;
    long where;
};

extern "C" void join(void *in, void *inout, int *n, MPI_Datatype *) {
    auto *a = static_cast<Extremes *>(in), *b = static_cast<Extremes *>(inout);
    for (int i = 0; i < *n; i++) {
        b[i].low = std::min(a[i].low, b[i].low);
        if (a[i].high > b[i].high || (a[i].high == b[i].high && a[i].where < b[i].where)) b[i].high = a[i].high, b[i].where = a[i].where;
    }
}

static void need(bool ok, const std::string &what) {
    if (!ok) throw std::runtime_error(what);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, size = 0, bad = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    try {
        const long steps = 100000;
        std::vector<double> terms(steps);
        for (long i = 0; i < steps; i++) terms[i] = 4.0 / (1.0 + ((i + 0.5) / steps) * ((i + 0.5) / steps)) / steps;
        const double serial = std::accumulate(terms.begin(), terms.end(), 0.0);
        double part = 0, pi = 0;
        for (long i = rank; i < steps; i += size) part += terms[i];
        MPI_Allreduce(&part, &pi, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        need(std::abs(pi - serial) < 1e-11, "pi is " + std::to_string(pi));

        std::complex<double> z(rank + 1, -rank), sum;
        MPI_Allreduce(&z, &sum, 1, MPI_CXX_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD);
        need(sum == std::complex<double>(size * (size + 1) / 2.0, -size * (size - 1) / 2.0), "complex sum");

        std::array<int, 10> mine{}, all{}, whole{};
        for (long i = 0; i < 1000; i++) {
            const auto bin = static_cast<size_t>((i * i) % 10);
            whole[bin]++;
            if (i % size == rank) mine[bin]++;
        }
        MPI_Allreduce(mine.data(), all.data(), 10, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        need(all == whole, "histogram");

        MPI_Op op;
        MPI_Datatype type;
        const int lengths[2] = {2, 1};
        const MPI_Aint at[2] = {offsetof(Extremes, low), offsetof(Extremes, where)};
        const MPI_Datatype types[2] = {MPI_DOUBLE, MPI_LONG};
        MPI_Type_create_struct(2, lengths, at, types, &type);
        MPI_Type_commit(&type);
        MPI_Op_create(join, 1, &op);
        Extremes e{std::cos(rank), std::sin(rank), rank}, got{}, want{1, -2, 0};
        for (int r = 0; r < size; r++) {
            want.low = std::min(want.low, std::cos(r));
            if (std::sin(r) > want.high) want.high = std::sin(r), want.where = r;
        }
        MPI_Allreduce(&e, &got, 1, type, op, MPI_COMM_WORLD);
        need(got.low == want.low && got.high == want.high && got.where == want.where, "extremes");
        MPI_Op_free(&op);
        MPI_Type_free(&type);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "rank %d: wrong: %s\n", rank, e.what());
        bad = 1;
    }
    int all = 0;
    MPI_Allreduce(&bad, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) std::printf("C++ on %d: %s\n", size, all ? "WRONG" : "right");
    MPI_Finalize();
    return all;
}
