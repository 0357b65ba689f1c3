// Objects of a C++ program, of a thread's, of a function's and of a library's, which take memory before main; and exceptions under way while other ranks run.
#include <iostream>
#include <map>
#include <mpi.h>
#include <stdexcept>
#include <string>
#include <vector>

std::map<int, std::string> &of_library();

static int rank = -1, wrong;

static void others_run() {
    MPI_Barrier(MPI_COMM_WORLD);
}

struct Object {
    std::vector<int> numbers{1, 2, 3};
    std::string text{"text that is longer than what a string has room for itself"};
    const char *name;
    explicit Object(const char *name) : name(name) {}
    ~Object() {
        std::cout << "rank " << rank << " ends " << name << ": " << numbers.size() << " numbers, " << text << std::endl;
    }
};

static Object object("object of the program");
static thread_local Object of_thread("object of the thread");

static void check(bool right, const char *what) {
    if (!right) std::cout << "rank " << rank << ": wrong " << what << std::endl, wrong++;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    static Object of_function("object of the function");
    const std::string mine = "text of rank " + std::to_string(rank);
    for (Object *each : {&object, &of_thread, &of_function}) {
        each->numbers.push_back(rank);
        each->text = mine;
    }
    of_library()[rank] = mine;
    others_run();
    for (Object *each : {&object, &of_thread, &of_function}) check(each->numbers.back() == rank && each->text == mine, each->name);
    check(of_library().size() == 2 && of_library()[rank] == mine, "object of the library");
    try {
        others_run();
        throw 5 * rank;
    } catch (int number) {
        try {
            others_run();
            throw std::runtime_error(mine);
        } catch (const std::exception &error) {
            others_run();
            check(error.what() == mine, "inner exception");
        }
        others_run();
        check(number == 5 * rank, "exception");
        try {
            throw;
        } catch (int again) {
            check(again == 5 * rank, "exception that is thrown again");
        }
    }
    others_run();
    std::cout << "rank " << rank << ": " << wrong << " wrong" << std::endl;
    MPI_Finalize();
    return 0;
}
