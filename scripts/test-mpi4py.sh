#!/usr/bin/env bash
# Builds mpi4py from its source package with an installed MPI's mpicc and runs mpi4py's own tests.
#
#   PREFIX=dir scripts/test-mpi4py.sh [MODULE...]          e.g. PREFIX=build/install scripts/test-mpi4py.sh test_comm
#
#   PREFIX    install tree of a standard-ABI MPI: bin/mpicc (or bin/mpicc_abi), bin/mpiexec, lib/libmpi_abi.so.1
#   RANKS     numbers of ranks, default "1 2 3 5"
#   MODE      all: every module in one run, then one by one only what failed (default); each: one by one from the start
#   PART      I/N: of all modules only the I-th and every N-th after it, I from 0
#   TIMEOUT   seconds for one module, default 120
#   SKIP      list of what is left out, default tests/mpi4py/skip.txt
#
# The virtual environment and the downloaded package stay in build/cache (or TEST_CACHE). One line a case, logs
# of failures in build/test-logs/mpi4py, a final `N passed, N failed, N skipped`; exit code 1 if anything failed.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
cache=${TEST_CACHE:-$here/build/cache}
logs=${LOGS:-$here/build/test-logs}/mpi4py
skip=${SKIP:-$here/tests/mpi4py/skip.txt}
ranks=${RANKS:-1 2 3 5}
mode=${MODE:-all}
limit=${TIMEOUT:-120}
version=4.1.2
prefix=$(cd "${PREFIX:?set PREFIX to the install tree to test}" && pwd) || exit 1
mpicc=$prefix/bin/mpicc_abi
[ -x "$mpicc" ] || mpicc=$prefix/bin/mpicc
mpiexec=${MPIEXEC:-$prefix/bin/mpiexec}
export LD_LIBRARY_PATH=$prefix/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore
mkdir -p "$cache/mpi4py" "$logs"
rm -f "$logs"/*.log

fail() { echo "test-mpi4py.sh: $*" >&2; exit 1; }

# One environment a wrapper and header: a changed mpi.h or mpicc means building again, a changed library does not
# (that is what the standard ABI is for).
# The Python itself, not a wrapper that looks for it: hosts of tests/net may find it by another way.
python=$("${PYTHON:-python3}" -c 'import os, sys; print(os.path.realpath(sys.executable))') || fail "python3 is missing"
key=$(cat "$mpicc" "$prefix"/include/*.h "$python" | cat - <(echo "$prefix $version") | sha256sum | cut -c1-12)
venv=$cache/mpi4py/venv-$key
src=$cache/mpi4py/mpi4py-$version
exec 9>"$cache/mpi4py/.lock"
flock 9
if [ ! -f "$venv/.ready" ]; then
    rm -rf "$venv"
    "${PYTHON:-python3}" -m venv "$venv" || fail "cannot make a Python virtual environment (Debian: apt install python3-venv)"
    pip() { "$venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"; }
    if [ ! -f "$src.tar.gz" ]; then
        pip download --no-deps --no-build-isolation --no-binary mpi4py --dest "$cache/mpi4py" "mpi4py==$version" >"$logs/download.log" 2>&1 ||
            pip download --no-deps --no-binary mpi4py --dest "$cache/mpi4py" "mpi4py==$version" >"$logs/download.log" 2>&1
        [ -f "$src.tar.gz" ] || fail "cannot download mpi4py $version; see $logs/download.log"
    fi
    pip install numpy >"$logs/numpy.log" 2>&1 || fail "cannot install numpy; see $logs/numpy.log"
    # mpi4py cuts the compiler's name at blanks: a link leads to a wrapper whose path has some.
    links=$(mktemp -d "${TMPDIR:-/tmp}/farpost-mpi4py.XXXXXX") || exit 1
    trap 'rm -rf "$links"' EXIT
    trap 'exit 130' INT TERM
    ln -s "$mpicc" "$links/$(basename "$mpicc")"
    # -O0: the module is a binding layer; compiling it takes a quarter of the time.
    MPI4PY_BUILD_MPICC=$links/$(basename "$mpicc") CFLAGS=-O0 pip install --no-binary mpi4py "$src.tar.gz" >"$logs/build.log" 2>&1 ||
        fail "cannot build mpi4py with $mpicc; see $logs/build.log"
    rm -rf "$links"
    touch "$venv/.ready"
fi
rm -rf "$src"
tar xzf "$src.tar.gz" -C "$cache/mpi4py" || fail "cannot unpack $src.tar.gz"
# mpi4py knows of parts missing when it is compiled; ours are there and answer MPI_ERR_UNSUPPORTED_OPERATION.
# (git apply inside another repository would do nothing, and say nothing: it must not find one.)
(cd "$src" && { patch -s -p1 <"$here/tests/mpi4py/guards.patch" || GIT_CEILING_DIRECTORIES=$cache/mpi4py git apply "$here/tests/mpi4py/guards.patch"; }) &&
    grep -q 'NotImplementedError, MPI.Exception' "$src/test/test_errhandler.py" ||
    fail "tests/mpi4py/guards.patch does not fit mpi4py $version"
flock -u 9
python=$venv/bin/python

passed=0 failed=0 skipped=0
modules=() patterns=()
declare -A module_skipped
while IFS= read -r line; do
    case $line in '' | '#'*) continue ;; esac
    name=${line%%:*} reason=${line#*: }
    case $name in
    *.*) patterns+=(-x "$name") ;;
    *) module_skipped[$name]=$reason ;;
    esac
    [ $# -gt 0 ] || echo "skip mpi4py $name: $reason"
    skipped=$((skipped + 1))
done <"$skip"
if [ $# -gt 0 ]; then
    modules=("$@")
    skipped=0
else
    for f in "$src"/test/test_*.py; do
        m=$(basename "$f" .py)
        [ -n "${module_skipped[$m]:-}" ] || modules+=("$m")
    done
    if [ -n "${PART:-}" ]; then
        all=("${modules[@]}") modules=()
        for ((i = ${PART%/*}; i < ${#all[@]}; i += ${PART#*/})); do modules+=("${all[i]}"); done
    fi
fi

# run N LOG SECONDS MODULE...: 0 passed, 1 failed, 124 hung
run() {
    local n=$1 log=$2 seconds=$3 include=
    shift 3
    include="^($(IFS='|'; echo "$*"))\\.py\$"
    (cd "$src" && timeout -k 10 "$seconds" "$mpiexec" -n "$n" "$python" -X faulthandler test/main.py --no-builddir \
        -v -f ${patterns[@]+"${patterns[@]}"} -i "$include" </dev/null >"$log" 2>&1)
}

for n in $ranks; do
    start=$SECONDS
    if [ "$mode" = all ] && [ ${#modules[@]} -gt 1 ]; then
        log=$logs/all-$n.log
        if run "$n" "$log" $((limit * 5)) "${modules[@]}"; then
            count=$(grep -o 'Ran [0-9]* tests' "$log" | head -1)
            echo "ok   mpi4py ${#modules[@]} modules -n $n: $count in $((SECONDS - start)) s"
            passed=$((passed + ${#modules[@]}))
            rm -f "$log"
            continue
        fi
        echo "     mpi4py all modules in one run -n $n failed (see $log); now one by one"
    fi
    for m in "${modules[@]}"; do
        log=$logs/$m-$n.log
        start=$SECONDS
        run "$n" "$log" "$limit" "$m"
        code=$?
        if [ $code -eq 0 ]; then
            echo "ok   mpi4py $m -n $n ($((SECONDS - start)) s)"
            passed=$((passed + 1))
            rm -f "$log"
            continue
        fi
        failed=$((failed + 1))
        if [ $code -ge 124 ] && [ $((SECONDS - start)) -ge "$limit" ]; then what="hung, stopped after $limit s"; else what="exit code $code"; fi
        echo "FAIL mpi4py $m -n $n: $what; $log"
        grep -aE '^(FAIL|ERROR): |^[A-Za-z0-9_.]*(Error|Exception):' "$log" | sort | uniq -c | sort -rn | head -4 | cut -c1-200
    done
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
