#!/usr/bin/env bash
# The C and C++ test programs on every simulated machine, but for those whose first lines say why not: // simulated: no, REASON
#
#   PREFIX=dir scripts/test-sim-programs.sh [--turn N | MACHINE...]      MACHINE: as farpost sim --list names them; default all
#
#   --turn N   the machine whose turn it is when they take turns
#
#   PREFIX     Farpost's install tree
#   RANKS      as for scripts/test-programs.sh, default 2 4
#   NAMES      programs, e.g. "mpi/comm programs/ring"; default all of examples, programs and mpi
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
PREFIX=$(cd "${PREFIX:?set PREFIX to the install tree to test}" && pwd) || exit 1
export PREFIX MPIEXEC=$here/tests/sim/mpiexec RANKS=${RANKS:-2 4}
# A run of a long program takes minutes: processes take turns.
export TIMEOUT=${TIMEOUT:-900}
mapfile -t machines < <("$PREFIX/bin/farpost" sim --list | sed 's/ .*//')
[ ${#machines[@]} != 0 ] || { echo "test-sim-programs.sh: farpost sim --list names no machine" >&2; exit 1; }
case ${1:-} in
"") ;;
--turn) machines=("${machines[$2 % ${#machines[@]}]}") ;;
*) machines=("$@") ;;
esac
names=()
for source in "$here"/{examples,tests/programs,tests/mpi}/*.{c,cc}; do
    [ -f "$source" ] && ! sed -n 1,12p "$source" | grep -qE '^// (interface:|simulated: no, )' || continue
    names+=("$(basename "$(dirname "$source")")/$(basename "${source%.*}")")
done
[ -z "${NAMES:-}" ] || read -r -a names <<<"$NAMES"
failed=0
for machine in "${machines[@]}"; do
    echo "== $machine"
    SIM_MACHINE=$machine "$here/scripts/test-programs.sh" "${names[@]}" || failed=1
done
exit $failed
