#!/usr/bin/env bash
# Compiles and runs the C and C++ test programs with an installed standard-ABI MPI.
#
#   PREFIX=dir scripts/test-programs.sh [NAME...]      NAME: a suite (examples, programs, mpi, badinput, check, stress, interfaces) or mpi/p2p_order
#
#   PREFIX     install tree: bin/mpicc (or bin/mpicc_abi), bin/mpiexec, lib/libmpi_abi.so.1
#   MPIEXEC    launcher, default PREFIX/bin/mpiexec
#   RANKS      run only with these numbers of ranks (of those that a program lists)
#   TIMEOUT    seconds a case may take, default 120 (a program may ask for more)
#   LOGS       where logs of failures go, default build/test-logs
#   FARPOST    1 when the tree is Farpost (then what only Farpost promises is checked too); found out by itself
#
# A program says in its first lines how it wants to be run:
#   // ranks: 1 2 4        // timeout: 300        // args: a | b (two cases)        // farpost: only
#   // settings: A=1 | B=2 C=3 (once more with each, one or several variables, with the largest of its numbers of ranks up to 3)
#   // interface: fm rsm   uses these beside MPI or instead of it: compiled with pkg-config; in Rust by Cargo
# Those that say so are the suite interfaces, wherever they are; it runs when it is named: scripts/test-all.sh has a step for it.
# One line a case, a final `N passed, N failed, N skipped`; exit code 1 if anything failed.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
prefix=$(cd "${PREFIX:?set PREFIX to the install tree to test}" && pwd) || exit 1
logs=${LOGS:-$here/build/test-logs}
mpicc=$prefix/bin/mpicc_abi mpicxx=$prefix/bin/mpicxx_abi
[ -x "$mpicc" ] || mpicc=$prefix/bin/mpicc mpicxx=$prefix/bin/mpicxx
mpiexec=${MPIEXEC:-$prefix/bin/mpiexec}
[ -n "${FARPOST:-}" ] || { [ -x "$prefix/bin/farpost" ] && FARPOST=1 || FARPOST=0; }
export FARPOST PREFIX=$prefix MPIEXEC=$mpiexec LOGS=$logs
export LD_LIBRARY_PATH=$prefix/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
bin=$(mktemp -d "${TMPDIR:-/tmp}/farpost-tests.XXXXXX") || exit 1
trap 'rm -rf "$bin"' EXIT
trap 'exit 130' INT TERM
mkdir -p "$logs"

passed=0 failed=0 skipped=0
pass() { passed=$((passed + 1)); echo "ok   $1"; }
skip() { skipped=$((skipped + 1)); echo "skip $1: $2"; }
flunk() {
    failed=$((failed + 1))
    echo "FAIL $1: $2"
[ -s "$3" ] || return 0
    local missing
    missing=$(grep -aoE 'MPI_[A-Za-z_]+: not in this version' "$3" | sed 's/:.*//' | sort -u | tr '\n' ' ')
    [ -z "$missing" ] || echo "       not there yet: $missing"
    grep -aE 'FAIL|rror|farpost|mpiexec' "$3" | grep -avE 'not in this version|not a communicator, or already freed' |
        sed 's/rank [0-9]* of [0-9]*: //' | awk '!seen[$0]++' | head -6 | cut -c1-300 | sed 's/^/       /'
}

directive() { sed -n "1,12s|^// *$2: *||p" "$1" | head -1; }

# compile_interface SOURCE OUTPUT [c|c++] INTERFACES
compile_interface() {
    local compiler='cc -std=c99 -D_GNU_SOURCE' flags
    [ "$3" = c++ ] && compiler='c++ -x c++ -std=c++17'
    # shellcheck disable=SC2046
    flags=$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs $(printf 'farpost-%s ' $4)) || return
    # shellcheck disable=SC2086
    $compiler -O1 -g -Wall -Wextra -o "$2" "$1" $flags -lm -lpthread
}

# compile SOURCE OUTPUT [c|c++]
compile() {
    local src=$1 out=$2 lang=$3 define=() interfaces
    interfaces=$(directive "$src" interface)
    case $src in
    *.rs) # Cargo built it before; its own tests build it as well.
        cp "${CARGO_TARGET_DIR:-$here/target}/debug/examples/$(basename "${src%.rs}")" "$out"
        return
        ;;
    esac
    if [ -n "$interfaces" ]; then
        compile_interface "$src" "$out" "$lang" "$interfaces"
        return
    fi
    [ "$FARPOST" = 1 ] && define=(-DFARPOST)
    if [ "$lang" = c++ ]; then
        "$mpicxx" -x c++ -std=c++17 -O1 -g -Wall -Wextra ${define[@]+"${define[@]}"} -I"$here/tests/mpi" -o "$out" "$src" -lm -lpthread
    else
        "$mpicc" -std=gnu11 -O1 -g -Wall -Wextra ${define[@]+"${define[@]}"} -I"$here/tests/mpi" -o "$out" "$src" -lm -lpthread
    fi
}

# one_program NAME SOURCE LANG RANKS
one_program() {
    local name=$1 src=$2 lang=$3 ranks=$4 exe log limit n args tag all
    exe=$bin/$(echo "$name" | tr '/ +' '___')
    log=$logs/$(echo "$name" | tr '/ +' '___')
    limit=$(directive "$src" timeout)
    limit=${limit:-${TIMEOUT:-120}}
    if [ "$(directive "$src" farpost)" = only ] && [ "$FARPOST" != 1 ]; then
        skip "$name" "is about Farpost only"
        return
    fi
    if ! compile "$src" "$exe" "$lang" >"$log.log" 2>&1; then
        flunk "$name" "does not compile with $([ "$lang" = c++ ] && echo "$mpicxx" || echo "$mpicc")" "$log.log"
        return
    fi
    if [ -s "$log.log" ]; then
        flunk "$name" "compiler warnings" "$log.log"
    else
        rm -f "$log.log"
    fi
    all=$(directive "$src" args)
    IFS='|' read -r -a cases <<<"${all:- }"
    local setting settings few
    few=$(for n in $ranks; do [ "$n" -le 3 ] && echo "$n"; done | tail -n 1)
    IFS='|' read -r -a settings <<<"$(directive "$src" settings)"
    # Several variables are one word here, joined by &.
    for n in $ranks $(for setting in ${few:+"${settings[@]}"}; do echo "$few:$(echo $setting | tr ' ' '&')"; done); do
        setting=${n#*:}
        [ "$setting" = "$n" ] && setting=
        setting=${setting//&/ }
        n=${n%%:*}
        for args in "${cases[@]}"; do
            args=$(echo $args)
            tag="$name${args:+ $args} -n $n${setting:+, $setting}"
            # The program's own clock rings first, so that it can name the test that hangs.
            # shellcheck disable=SC2086
            env $setting CHECK_SECONDS=$((limit - limit / 8)) timeout -k 5 "$limit" "$mpiexec" -n "$n" "$exe" $args </dev/null >"$log-$n.log" 2>&1
            code=$?
            if [ $code -eq 0 ] && grep -aq '^SKIP: ' "$log-$n.log"; then
                skip "$tag" "$(grep -a '^SKIP: ' "$log-$n.log" | head -1 | cut -c7-)"
                rm -f "$log-$n.log"
            elif [ $code -eq 0 ]; then
                pass "$tag"
                rm -f "$log-$n.log"
            elif [ $code -eq 124 ] || grep -aq 'no end in sight' "$log-$n.log"; then
                flunk "$tag" "hung, stopped after $limit s; $log-$n.log" "$log-$n.log"
            else
                flunk "$tag" "exit code $code; $log-$n.log" "$log-$n.log"
            fi
        done
    done
    rm -f "$exe"
}

# A script is one or many cases of its own; it prints the same lines, and its counts are added up here.
one_script() {
    local name=$1 src=$2 log
    log=$logs/$(echo "$name" | tr / _).log
    BIN=$bin CC=$mpicc CXX=$mpicxx ROOT=$here timeout -k 5 600 bash "$src" >"$log" 2>&1
    code=$?
    grep -aE '^(ok   |skip |FAIL )' "$log"
    passed=$((passed + $(grep -acE '^ok   ' "$log")))
    failed=$((failed + $(grep -acE '^FAIL ' "$log")))
    skipped=$((skipped + $(grep -acE '^skip ' "$log")))
    if [ $code -ne 0 ] && ! grep -aqE '^FAIL ' "$log"; then flunk "$name" "exit code $code; $log" "$log"; fi
    [ $code -eq 0 ] && rm -f "$log"
}

wanted() {
    [ ${#names[@]} -eq 0 ] && return 0
    local w
    for w in "${names[@]}"; do
        case $1 in "$w" | "$w"/*) return 0 ;; esac
    done
    return 1
}

only_ranks() {
    local n
    [ $# -gt 0 ] || set -- 1 2 3 4 5 8
    for n in "$@"; do
        case " ${RANKS:-$n} " in *" $n "*) echo "$n" ;; esac
    done
}

names=("$@")
case " ${names[*]-}" in
*" interfaces"*) (cd "$here" && "${CARGO:-cargo}" build -q -p farpost-node --examples) || flunk interfaces "the examples in Rust do not build" /dev/null ;;
esac
for suite in examples programs mpi badinput check stress interfaces; do
    dir=$here/tests/$suite
    [ $suite = examples ] && dir=$here/examples
    for src in "$dir"/*.c "$dir"/*.cc "$dir"/*.rs "$dir"/*.sh; do
        [ -f "$src" ] || continue
        base=$(basename "$src")
        name=$suite/${base%.*}
        [ -z "$(directive "$src" interface)" ] || name=interfaces/${base%.*}
        case $name in interfaces/*) [ ${#names[@]} -gt 0 ] || continue ;; esac
        wanted "$name" || continue
        case $src in
        *.sh)
            one_script "$name" "$src"
            continue
            ;;
        esac
        ranks=$(directive "$src" ranks)
        case $name in interfaces/*) ranks=${ranks:-2 3 8} ;; esac
        ranks=$(only_ranks $ranks)
        [ -n "$ranks" ] || continue
        lang=c
        [ "${src##*.}" = cc ] && lang=c++
        one_program "$name" "$src" "$lang" "$ranks"
        # The programs are also C++: the same source through the other wrapper.
        [ $suite = programs ] && [ $lang = c ] && one_program "$name c++" "$src" c++ "$(only_ranks 1 4)"
    done
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
