// A library of the user's, with an object of its own.
#include <map>
#include <string>

static std::map<int, std::string> object{{-1, "made before main"}};

std::map<int, std::string> &of_library() {
    return object;
}
