#!/usr/bin/env bash
# Tests of an installed tree: the compiler wrappers, pkg-config files, CMake's FindMPI, and moving the tree.
#
#   PREFIX=dir scripts/check-wrappers.sh
#
# The tree is copied to a directory with blanks in its name and used there through a symbolic link: whatever has the old
# path in it fails. One line a case; exit code 1 if anything failed.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
prefix=$(cd "${PREFIX:?set PREFIX to the install tree to test}" && pwd) || exit 1
work=$(mktemp -d "${TMPDIR:-/tmp}/farpost wrappers.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
unset LD_LIBRARY_PATH FARPOST_CC MPICH_CC OMPI_CC FARPOST_CXX MPICH_CXX OMPI_CXX MPI_HOME CPATH LIBRARY_PATH
mkdir "$work/a tree"
cp -a "$prefix/." "$work/a tree/"
ln -s "$work/a tree" "$work/link"
tree=$(cd "$work/link" && pwd -P)
bin=$work/links
mkdir "$bin"
ln -s "../a tree/bin/mpicc" "$bin/mpicc"
cd "$work" || exit 1

passed=0 failed=0 skipped=0
# check NAME COMMAND...: passes if the command succeeds.
check() {
    local name=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        passed=$((passed + 1))
        echo "ok   $name"
    else
        failed=$((failed + 1))
        echo "FAIL $name: $*"
        sed 's/^/       /' "$work/log" | tail -8
    fi
}
skip() { skipped=$((skipped + 1)); echo "skip $1: $2"; }
says() { # says TEXT COMMAND...: the output contains the text
    local text=$1
    shift
    "$@" 2>&1 | tee "$work/said" | grep -qF -- "$text" || { cat "$work/said"; return 1; }
}
never() { ! says "$@" >/dev/null; }

cat >hello.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("rank %d of %d\n", rank, size);
    return MPI_Finalize();
}
C
cat >hello.cc <<'C'
#include <mpi.h>
#include <iostream>
#include <vector>
int main() {
    MPI_Init(nullptr, nullptr);
    std::vector<int> v(1, 7);
    std::cout << "v " << v[0] << std::endl;
    return MPI_Finalize();
}
C
mpicc=$tree/bin/mpicc mpicxx=$tree/bin/mpicxx mpiexec=$tree/bin/mpiexec

check "compile and link" "$mpicc" hello.c -o hello
check "runs alone" says "rank 0 of 1" ./hello
check "runs under mpiexec" says "rank 1 of 2" "$mpiexec" -n 2 ./hello
check "mpirun is mpiexec" says "rank 1 of 2" "$tree/bin/mpirun" -n 2 ./hello
check "through a symbolic link" "$bin/mpicc" hello.c -o hello2
check "through PATH" env PATH="$tree/bin:$PATH" sh -c 'mpicc hello.c -o hello3 && ./hello3'
check "C++" sh -c '"$1" hello.cc -o hellocc && ./hellocc | grep -q "v 7"' sh "$mpicxx"
for name in mpic++ mpiCC; do
    check "$name" sh -c '"$1" hello.cc -o "hello-$2" && "./hello-$2" | grep -q "v 7"' sh "$tree/bin/$name" "$name"
done
# An option at the end that waits for its value must not take the library for it.
for option in -I -L -isystem -idirafter -iquote; do
    check "$option at the end of the line" sh -c '"$1" hello.c -o dangling "$2" && ./dangling' sh "$mpicc" "$option"
done
check "-l at the end is an error" sh -c '! "$1" hello.c -o dangling -l' sh "$mpicc"
check "-o at the end is an error" sh -c '! "$1" hello.c -o' sh "$mpicc"
# A library of the user's directory with our library's name is not taken for it.
mkdir false && : >false/libmpi_abi.so
check "-L before ours" sh -c '"$1" hello.c -Lfalse -o hello5 && ./hello5' sh "$mpicc"
# A tool that takes the place of functions is found before the library that has them.
cat >tool.c <<'C'
#include <mpi.h>
#include <stdio.h>
int MPI_Comm_size(MPI_Comm comm, int *size) {
    puts("tool");
    return PMPI_Comm_size(comm, size);
}
C
check "a tool's library" sh -c '"$1" -shared -fPIC tool.c -o libtool.so && "$1" hello.c -o tooled -L. -ltool -Wl,-rpath,. &&
    ./tooled | grep -q tool' sh "$mpicc"
check "compile, then link" sh -c '"$1" -c hello.c -o hello.o && "$1" hello.o -o hello4 && ./hello4' sh "$mpicc"
for header in "$tree"/include/farpost/*.h; do
    name=$(basename "$header" .h)
    printf '#include <mpi.h>\n#include <farpost/%s.h>\nint main(void) { return 0; }\n' "$name" >"$name.c"
    check "farpost/$name.h" sh -c '"$1" -Wall -Werror "$2.c" -o "$2" && "./$2"' sh "$mpicc" "$name"
done
check "-c does not link" sh -c '! "$1" -show -c hello.c | grep -q mpi_abi' sh "$mpicc"
check "-E does not link" says "MPI_Init" "$mpicc" -E hello.c
check "-M names the header" says "include/mpi.h" "$mpicc" -M hello.c
check "--version is the compiler's" "$mpicc" --version
for option in --help -help; do check "$option is the wrapper's" says "usage: mpicc [options" "$mpicc" "$option"; done
check "--help-compiler is the compiler's" says "Usage: " "$mpicc" --help-compiler
check "--help=... is the compiler's" never "usage: mpicc [options" "$mpicc" --help=common
check "-echo" sh -c '"$1" -echo hello.c -o echoed 2>&1 | grep -q -- -lmpi_abi && ./echoed' sh "$mpicc"
mkdir "source dir"
cp hello.c "source dir/hello world.c"
check "blanks in file names" "$mpicc" "source dir/hello world.c" -o "source dir/a program"
check "-D with a blank and quotes" "$mpicc" '-DTEXT="a b"' -c hello.c -o d.o
check "an error stays an error" sh -c '! "$1" no-such-file.c -o x' sh "$mpicc"
check "-show" says "-lmpi_abi" "$mpicc" -show hello.c -o x
check "-show runs as printed" sh -c 'eval "$("$1" -show hello.c -o shown)" && ./shown' sh "$mpicc"
check "-compile_info" says "-I" "$mpicc" -compile_info
check "-link_info" says "-lmpi_abi" "$mpicc" -link_info
for question in compile:-I link:-lmpi_abi incdirs:include libdirs:lib libs:mpi_abi version:Farpost; do
    check "--showme:${question%%:*}" says "${question#*:}" "$mpicc" "--showme:${question%%:*}"
    check "-showme:${question%%:*}" says "${question#*:}" "$mpicc" "-showme:${question%%:*}"
done
printf '#!/bin/sh\necho "my compiler $*"\n' >"$work/my cc"
chmod +x "$work/my cc"
for variable in FARPOST_CC MPICH_CC OMPI_CC; do
    check "$variable" says "my compiler" env "$variable=$work/my cc" "$mpicc" hello.c
done
check "-cc=" says "my compiler" "$mpicc" "-cc=$work/my cc" hello.c
check "a compiler with arguments" says "-DX" env FARPOST_CC="echo -DX" "$mpicc" hello.c
check "FARPOST_CXX" says "my compiler" env "FARPOST_CXX=$work/my cc" "$mpicxx" hello.cc

# Nothing in the tree may know where it was installed or built.
check "no absolute path in the tree" sh -c '! grep -rlF -- "$1" "$2/bin/mpicc" "$2/bin/mpicxx" "$2/lib/pkgconfig" "$2/include"' \
    sh "$prefix" "$tree"
nowhere() { ! grep -arlF -- "$1/" "$tree/bin" "$tree/lib" "$tree/include"; }
check "no path of the checkout in the tree" nowhere "$here"
[ "${HOME:-/}" = / ] || check "no path of a home directory in the tree" nowhere "$HOME"
[ -z "${CARGO_HOME:-}" ] || check "no path of Cargo's in the tree" nowhere "$CARGO_HOME"
if command -v readelf >/dev/null 2>&1; then
    check "SONAME" says "[libmpi_abi.so.1]" readelf -d "$tree/lib/libmpi_abi.so.1"
    check "programs need libmpi_abi.so.1" says "[libmpi_abi.so.1]" readelf -d hello
else
    skip "SONAME" "readelf is missing"
fi

if command -v pkg-config >/dev/null 2>&1; then
    # pkgconf passes blanks on in -I and -L, and not in -Wl,-rpath: a path without blanks leads to the tree.
    plain=$(mktemp -d "${TMPDIR:-/tmp}/farpost-pc.XXXXXX")
    trap 'rm -rf "$work" "$plain"' EXIT
    ln -s "$tree" "$plain/tree"
    export PKG_CONFIG_PATH=$plain/tree/lib/pkgconfig
    for name in farpost mpi_abi mpi mpi-c mpi-cxx; do
        check "pkg-config $name" says "-lmpi_abi" pkg-config --libs "$name"
    done
    for header in "$tree"/include/farpost/*.h; do
        name=$(basename "$header" .h)
        check "pkg-config farpost-$name" sh -c 'eval "cc $1.c -o pc-$1 $(pkg-config --cflags --libs farpost-$1)" && "./pc-$1"' sh "$name"
    done
    check "pkg-config builds" sh -c 'eval "cc hello.c -o pc $(pkg-config --cflags --libs farpost)" && ./pc'
    check "pkg-config version" pkg-config --atleast-version=5.0 mpi
    unset PKG_CONFIG_PATH
else
    skip "pkg-config" "it is missing"
fi

if command -v cmake >/dev/null 2>&1; then
    mkdir cm
    cp hello.c hello.cc cm/
    cat >cm/CMakeLists.txt <<'C'
cmake_minimum_required(VERSION 3.10)
project(hello C CXX)
find_package(MPI REQUIRED COMPONENTS C CXX)
message(STATUS "MPI ${MPI_C_VERSION} ${MPIEXEC_EXECUTABLE}")
add_executable(hello hello.c)
target_link_libraries(hello PRIVATE MPI::MPI_C)
add_executable(hellocc hello.cc)
target_link_libraries(hellocc PRIVATE MPI::MPI_CXX)
C
    # A compiler may be named, found in PATH, or found beside a root; a blank in the path is CMake's to bear.
    check "FindMPI, compilers named" cmake -S cm -B cm1 "-DMPI_C_COMPILER=$mpicc" "-DMPI_CXX_COMPILER=$mpicxx"
    check "  builds" cmake --build cm1
    check "  runs" says "rank 0 of 1" cm1/hello
    check "FindMPI, MPI_HOME" says "MPI 5.0 $tree/bin/mpiexec" env MPI_HOME="$tree" cmake -S cm -B cm2
    check "  builds" cmake --build cm2
    check "FindMPI, PATH" says "$tree/bin/mpiexec" env PATH="$tree/bin:$PATH" cmake -S cm -B cm3
    check "CC=mpicc" env CC="$mpicc" CXX="$mpicxx" cmake -S cm -B cm4
    check "  builds" cmake --build cm4
else
    skip "FindMPI" "cmake is missing"
fi

# Programs keep the library of the tree they were built with; LD_LIBRARY_PATH overrules it.
mv "$work/a tree" "$work/another tree"
check "moved tree: its wrapper" "$work/another tree/bin/mpicc" hello.c -o moved
check "moved tree: runs" says "rank 1 of 2" "$work/another tree/bin/mpiexec" -n 2 ./moved
check "moved tree: older programs with LD_LIBRARY_PATH" env LD_LIBRARY_PATH="$work/another tree/lib" ./hello

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
