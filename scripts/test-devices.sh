#!/usr/bin/env bash
# MPI's tests over each device beside the default one: Fast Messages, JAM (by JAM also within the host) and Portals, in each process itself
# and by way of agents (portals:generic, portals:accelerated).
#
#   PREFIX=dir scripts/test-devices.sh [--turn N] [all | NAME...]     NAME: as for test-programs.sh, or mpi4py
#
# all: every program with every number of ranks, bad input, and all of mpi4py's tests on 2 and 3 ranks, over every device: a
# half an hour and more. By default, over every device, bad input and the core of the protocol; and of everything
# else a part: a program runs over one device with one number of ranks, the next one over another, and in the next turn
# over that and with another number; of mpi4py's modules one in nine, on 2 ranks. Agents carry the core too, and of what runs over Portals
# one half, of each kind in its turn. The turn is made from the content of the commit
# (scripts/tree.sh); the first line tells it, --turn N or TREE=... repeats it.
#   DEVICES    which of them, default "fm jam portals"
#   RANKS      numbers of ranks in place of the script's choice (of a named program: of all that it lists)
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
turn=$("$here/scripts/tree.sh" --number) || exit 2
if [ "${1:-}" = --turn ]; then
    turn=${2:?--turn needs a number}
    shift 2
fi
read -r -a devices <<<"${DEVICES:-fm jam portals}"
export FARPOST_JAM_LOCAL=0
failed=0

# with DEVICE COMMAND...
with() {
    local portals=
    case $1 in *:*) portals=${1#*:} ;; esac
    FARPOST_DEVICE=${1%:*} FARPOST_PORTALS=$portals "${@:2}" || failed=1
}
# of DEVICE RANKS NAME...: programs
of() {
    RANKS=$2 with "$1" "$here/scripts/test-programs.sh" "${@:3}"
}
# python DEVICE RANKS [MODULE...]
python() {
    RANKS=$2 with "$1" "$here/scripts/test-mpi4py.sh" "${@:3}"
}

if [ $# -gt 0 ]; then
    what=("$@")
    [ "$*" != all ] || what=(examples programs mpi badinput stress mpi4py)
    for device in "${devices[@]}"; do
        echo "== FARPOST_DEVICE=$device"
        for name in "${what[@]}"; do
            case $name in
            mpi4py) python "$device" "${RANKS:-2 3}" ;;
            *) of "$device" "${RANKS:-}" "$name" ;;
            esac
        done
    done
    exit $failed
fi

echo "turn $turn (scripts/test-devices.sh --turn $turn)"
core=(mpi/p2p_order mpi/p2p_modes mpi/p2p_parts mpi/coll_blocking programs/samplesort)
rest=()
for source in "$here"/{examples,tests/programs,tests/mpi}/*.{c,cc}; do
    [ -f "$source" ] && ! grep -q '^// interface:' "$source" || continue
    name=$(basename "$(dirname "$source")")/$(basename "${source%.*}")
    case " ${core[*]} " in *" $name "*) ;; *) rest+=("$name") ;; esac
done
numbers=(2 3 4 5)
kinds=(generic accelerated)
for place in "${!devices[@]}"; do
    device=${devices[$place]}
    echo "== FARPOST_DEVICE=$device"
    of "$device" "${RANKS:-2 4}" badinput
    # The finding is told before what the device makes of it, and messages carry their headers.
    CASES="function nonblocking message-types truncated unreceived" of "$device" "" check/wrong
    of "$device" "${RANKS:-4 5}" "${core[@]}"
    if [ "$device" = portals ]; then
        for kind in "${kinds[@]}"; do
            echo "== FARPOST_DEVICE=portals FARPOST_PORTALS=$kind"
            of "portals:$kind" "${RANKS:-3}" "${core[@]}"
        done
    fi
    # Programs that take few numbers of ranks meet theirs: each group of programs is asked for two.
    for group in 0 1; do
        chosen=()
        for number in "${!rest[@]}"; do
            [ $(((number + turn + place) % ${#devices[@]})) = 0 ] && [ $((number / ${#devices[@]} % 2)) = $group ] && chosen+=("${rest[$number]}")
        done
        [ ${#chosen[@]} -gt 0 ] || continue
        first=$(((turn / ${#devices[@]} + group) % 2))
        over=$device
        [ "$device" != portals ] || [ "$group" = 0 ] || over=portals:${kinds[turn % 2]}
        of "$over" "${RANKS:-${numbers[first]} ${numbers[first + 2]}}" "${chosen[@]}"
    done
    PART=$(((turn + 4 * place) % 9))/9 python "$device" "${RANKS:-2}"
done
exit $failed
