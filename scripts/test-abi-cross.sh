#!/usr/bin/env bash
# One executable, several libraries: programs built here run on MPICH's and Intel MPI's standard-ABI libraries with their
# launchers, programs built by MPICH's wrapper run here, MPICH's launcher starts our programs; and build systems find us.
#
#   PREFIX=dir scripts/test-abi-cross.sh
#
# The peers are fetched by scripts/fetch-peers.sh; without a network those cases are skipped, and said to be. One line a
# case, logs of failures in build/test-logs/abi-cross, a final `N passed, N failed, N skipped`; exit code 1 on failure.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
prefix=$(cd "${PREFIX:?set PREFIX to the install tree to test}" && pwd) || exit 1
logs=${LOGS:-$here/build/test-logs}/abi-cross
cases=$here/tests/abi-cross
work=$(mktemp -d "${TMPDIR:-/tmp}/farpost-tests.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
mkdir -p "$logs"
rm -f "$logs"/*.log
unset LD_LIBRARY_PATH
passed=0 failed=0 skipped=0

# try NAME PATTERN COMMAND...: exit code 0 and PATTERN in the output
try() {
    local name=$1 pattern=$2 log code
    log=$logs/$(echo "$1" | tr -c 'A-Za-z0-9\n' _).log
    shift 2
    timeout -k 5 120 "$@" </dev/null >"$log" 2>&1
    code=$?
    if [ $code -eq 0 ] && { [ -z "$pattern" ] || grep -aqE "$pattern" "$log"; }; then
        passed=$((passed + 1))
        echo "ok   abi-cross $name"
        rm -f "$log"
    else
        failed=$((failed + 1))
        if [ $code -eq 0 ]; then echo "FAIL abi-cross $name: output lacks '$pattern'; $log"; else echo "FAIL abi-cross $name: exit code $code; $log"; fi
        head -6 "$log" | cut -c1-200 | sed 's/^/       /'
        return 1
    fi
}
skip() { skipped=$((skipped + 1)); echo "skip abi-cross $1: $2"; }

name=Farpost
[ -x "$prefix/bin/farpost" ] || name=. # another standard-ABI tree: for trying out this script
mpicc=$prefix/bin/mpicc mpicxx=$prefix/bin/mpicxx
[ -x "$mpicc"_abi ] && mpicc=${mpicc}_abi mpicxx=${mpicxx}_abi
build() { # build COMPILER DIRECTORY
    mkdir -p "$2"
    "$1" -O1 -o "$2/which" "$cases/which.c" && for p in ring samplesort matmul; do "$1" -O1 -o "$2/$p" "$here/tests/programs/$p.c" || return 1; done &&
        "$1" -std=gnu11 -O1 -I"$here/tests/mpi" -o "$2/datatype" "$here/tests/mpi/datatype.c" &&
        "$1" -std=gnu11 -O1 -I"$here/tests/mpi" -o "$2/coll_blocking" "$here/tests/mpi/coll_blocking.c"
}

"$here/scripts/fetch-peers.sh" mpich impi-rt >"$work/peers" 2>"$logs/peers.log" || sed 's/^/       /' "$logs/peers.log"
# Wrappers of others, and the shell that pkg-config's answers pass through, know nothing of blanks in a path: links lead
# to the trees.
linked() { # linked NAME DIRECTORY
    [ -z "$2" ] || { ln -s "$2" "$work/$1" && echo "$work/$1"; }
}
mpich=$(linked mpich "$(sed -n 's/^mpich //p' "$work/peers")")
intel=$(linked intel "$(sed -n 's/^impi-rt //p' "$work/peers")")
tree=$(linked tree "$prefix")

if build "$mpicc" "$work/ours" >"$logs/build.log" 2>&1; then
    try 'our program on our library' "4 ranks, ABI 1.0, .*$name" "$prefix/bin/mpiexec" -n 4 "$work/ours/which"
    try 'our program alone, no launcher' "1 ranks, ABI 1.0" "$work/ours/which"
    if [ -n "$mpich" ]; then
        export LD_LIBRARY_PATH=$mpich/lib
        try "our which on MPICH's library" '4 ranks, ABI 1.0, MPICH' "$mpich/bin/mpiexec" -n 4 "$work/ours/which"
        for p in ring samplesort matmul datatype coll_blocking; do
            try "our $p on MPICH's library" '' "$mpich/bin/mpiexec" -n 3 "$work/ours/$p"
        done
        unset LD_LIBRARY_PATH
        # MPICH's launcher, our library: PMI-1 over the inherited descriptor.
        try 'mpiexec.hydra of MPICH starts our programs' "4 ranks, ABI 1.0, .*$name" "$mpich/bin/mpiexec.hydra" -n 4 "$work/ours/which"
        try 'mpiexec.hydra of MPICH, 1 rank' "1 ranks, ABI 1.0, .*$name" "$mpich/bin/mpiexec.hydra" -n 1 "$work/ours/which"
        for p in ring samplesort; do
            try "mpiexec.hydra of MPICH, $p" 'right' "$mpich/bin/mpiexec.hydra" -n 5 "$work/ours/$p"
        done
        # Built by the other's wrapper, run here.
        if build "$mpich/bin/mpicc_abi" "$work/theirs" >"$logs/build-mpich.log" 2>&1; then
            export LD_LIBRARY_PATH=$prefix/lib
            try "MPICH's which on our library" "4 ranks, ABI 1.0, .*$name" "$prefix/bin/mpiexec" -n 4 "$work/theirs/which"
            for p in ring samplesort matmul datatype coll_blocking; do
                try "MPICH's $p on our library" '' "$prefix/bin/mpiexec" -n 3 "$work/theirs/$p"
            done
            unset LD_LIBRARY_PATH
        else
            failed=$((failed + 1))
            echo "FAIL abi-cross building with MPICH's mpicc_abi; $logs/build-mpich.log"
        fi
    else
        skip 'MPICH' 'not fetched'
    fi
    if [ -n "$intel" ]; then
        export LD_LIBRARY_PATH=$intel/lib I_MPI_ROOT=$intel I_MPI_FABRICS=shm
        try "our which on Intel MPI's library" '4 ranks, ABI 1.0, Intel' "$intel/bin/mpiexec.hydra" -n 4 "$work/ours/which"
        for p in ring samplesort matmul coll_blocking; do
            try "our $p on Intel MPI's library" '' "$intel/bin/mpiexec.hydra" -n 3 "$work/ours/$p"
        done
        unset LD_LIBRARY_PATH I_MPI_ROOT I_MPI_FABRICS
    else
        skip 'Intel MPI' 'not fetched'
    fi
else
    failed=$((failed + 1))
    echo "FAIL abi-cross building with $mpicc; $logs/build.log"
fi

# A launcher that we do not understand: one error line, never N jobs of one.
if [ "$name" = Farpost ] && [ -x "$work/ours/which" ]; then
    for env in 'OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=1' 'PMIX_RANK=1 PMIX_NAMESPACE=x PMIX_SERVER_URI2=nowhere' 'SLURM_NTASKS=4 SLURM_PROCID=1 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4'; do
        # shellcheck disable=SC2086
        env $env timeout 20 "$work/ours/which" </dev/null >"$work/foreign" 2>&1
        code=$?
        # The PMIx library, where there is one, adds lines of its own.
        sed -i '/\] PMIX ERROR: /d' "$work/foreign"
        if [ $code -ne 0 ] && [ "$(grep -c . "$work/foreign")" = 1 ] && grep -q '^farpost: ' "$work/foreign"; then
            passed=$((passed + 1))
            echo "ok   abi-cross foreign launcher refused (${env%% *})"
        else
            failed=$((failed + 1))
            echo "FAIL abi-cross foreign launcher (${env%% *}): exit code $code, $(grep -c . "$work/foreign") lines: $(head -c 200 "$work/foreign")"
        fi
    done
fi

# Build systems.
if [ "$name" = . ]; then
    skip 'CMake, pkg-config, a moved tree' 'only for a Farpost tree'
else
    if command -v cmake >/dev/null; then
        try 'CMake finds us (MPI_HOME)' 'MPI_C_VERSION 5.0' env PATH=/usr/local/bin:/usr/bin:/bin cmake -S "$cases/cmake" -B "$work/cmake" -DMPI_HOME="$prefix" &&
            try 'CMake project builds' '' cmake --build "$work/cmake" && try 'CMake project runs' '100% tests passed' cmake --build "$work/cmake" --target test
        try 'CMake finds us (PATH)' 'MPI_C_VERSION 5.0' env PATH="$prefix/bin:/usr/local/bin:/usr/bin:/bin" cmake -S "$cases/cmake" -B "$work/cmake2"
    else
        skip 'CMake' 'cmake is not installed'
    fi
    if command -v pkg-config >/dev/null; then
        for pc in "$prefix"/lib/pkgconfig/*.pc; do
            pc=$(basename "$pc" .pc)
            # shellcheck disable=SC2046
            try "pkg-config $pc" '' env PKG_CONFIG_PATH="$tree/lib/pkgconfig" sh -c "cc -o '$work/pc-$pc' '$cases/which.c' \$(pkg-config --cflags --libs $pc)" &&
                try "program built with pkg-config $pc runs" '2 ranks' env LD_LIBRARY_PATH="$prefix/lib" "$prefix/bin/mpiexec" -n 2 "$work/pc-$pc"
        done
    else
        skip 'pkg-config' 'not installed'
    fi
    cp -a "$prefix" "$work/first place" && mv "$work/first place" "$work/second place"
    moved="$work/second place"
    try 'nothing in the tree names its old place' 'clean' sh -c "! grep -rl --binary-files=text -F '$prefix' '$moved' && echo clean"
    try 'a moved tree compiles' '' "$moved/bin/mpicc" -o "$work/moved" "$cases/which.c" && try 'a moved tree runs' '3 ranks' "$moved/bin/mpiexec" -n 3 "$work/moved"
    cp "$cases/which.c" "$work/which.cc"
    try 'a moved tree compiles C++' '' "$moved/bin/mpicxx" -o "$work/movedxx" "$work/which.cc" && try 'a moved tree runs C++' '3 ranks' "$moved/bin/mpirun" -np 3 "$work/movedxx"
    if command -v pkg-config >/dev/null; then
        mv "$moved" "$work/third"
        try 'pkg-config of a moved tree' "$work/third" env PKG_CONFIG_PATH="$work/third/lib/pkgconfig" pkg-config --cflags --libs mpi
    fi
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
