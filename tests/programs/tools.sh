#!/usr/bin/env bash
# Programs under tools that people use: AddressSanitizer with its search for leaks, and valgrind, neither of which has anything to
# say of a right program. Run by scripts/test-programs.sh.
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/farpost-tools.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
# run NAME COMMAND...: passes when it succeeds, and shows what it said when not.
run() {
    local name=$1
    shift
    if timeout 120 "$@" </dev/null >"$work/log" 2>&1; then
        echo "ok   programs/tools $name"
    else
        echo "FAIL programs/tools $name: exit code $?"
        grep -avE 'unhandled amd64-linux syscall|You may be able|README_MISSING|Nevertheless we|it at http' "$work/log" | head -40
        failed=1
    fi
}

# What a sanitizer cannot do here is found out with a program that has nothing to do with MPI.
printf 'int main(void) { return 0; }\n' >"$work/empty.c"
if "$CC" -fsanitize=address "$work/empty.c" -o "$work/empty" 2>/dev/null && "$work/empty" 2>/dev/null; then
    for program in ring transfers; do
        "$CC" -g -O1 -fsanitize=address "$here/$program.c" -o "$work/$program" -lm || exit 1
        run "AddressSanitizer $program" "$MPIEXEC" -n 2 "$work/$program"
        run "AddressSanitizer $program alone" "$work/$program"
    done
    # Proof that leaks are looked for. Far down the stack, and several: a register may still hold the latest.
    cat >"$work/leaks.c" <<'C'
#include <mpi.h>
#include <stdlib.h>
static void *volatile kept;
static __attribute__((noinline)) void leak(int deep) {
    if (deep > 0) {
        leak(deep - 1);
        kept = NULL;
        return;
    }
    for (int i = 0; i < 10; i++) kept = malloc(1234);
    kept = NULL;
}
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    leak(20);
    return MPI_Finalize();
}
C
    "$CC" -g -fsanitize=address "$work/leaks.c" -o "$work/leaks" || exit 1
    "$work/leaks" >"$work/log" 2>&1
    found=$(sed -nE 's/^SUMMARY: .*: ([0-9]+) byte\(s\) leaked.*/\1/p' "$work/log")
    if [ -z "$found" ]; then
        echo "skip programs/tools leaks: LeakSanitizer finds nothing here"
    elif [ "$found" -gt 12340 ] || [ $((found % 1234)) != 0 ]; then
        echo "FAIL programs/tools leaks: $found bytes, more than the program's own"
        grep -a ' leak of ' -A 6 "$work/log" | head -40
        failed=1
    else
        echo "ok   programs/tools leaks: the program's own are found, and no others"
    fi
else
    echo "skip programs/tools AddressSanitizer: the compiler has none, or it does not run here"
fi

if ! command -v valgrind >/dev/null 2>&1 && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    apt-get install -y -q valgrind >/dev/null 2>&1 || { apt-get update -q && apt-get install -y -q valgrind; } >/dev/null 2>&1
fi
if command -v valgrind >/dev/null 2>&1; then
    "$CC" -g -O1 "$here/transfers.c" -o "$work/transfers" || exit 1
    run "valgrind" "$MPIEXEC" -n 2 valgrind -q --error-exitcode=9 "$work/transfers"
    run "valgrind, blocks only" env FARPOST_SHM_CMA=0 "$MPIEXEC" -n 2 valgrind -q --error-exitcode=9 "$work/transfers"
    run "valgrind, Portals" env FARPOST_DEVICE=portals "$MPIEXEC" -n 2 valgrind -q --error-exitcode=9 "$work/transfers"
else
    echo "skip programs/tools valgrind: it is missing, and only root may install it"
fi
exit $failed
