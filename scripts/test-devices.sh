#!/usr/bin/env bash
# The MPI test programs over each device beside the default one: Fast Messages and JAM (by JAM also within the host).
#
#   PREFIX=dir scripts/test-devices.sh [all | NAME...]     NAME: as for test-programs.sh; all: everything but stress
#
# By default a selection of the programs: each way that a message takes through the protocol, collectives with and without
# boards, and threads, with few ranks. What lies above messages (datatypes, topologies, attributes) is the same on each device.
#   DEVICES    which of them, default "fm jam"
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
export RANKS=${RANKS:-2 4 5}
what=${*:-mpi/p2p_order mpi/p2p_modes mpi/p2p_large mpi/p2p_sync mpi/coll_blocking mpi/threads programs/jacobi programs/samplesort}
[ "$what" = all ] && what="examples programs mpi badinput"
failed=0
for device in ${DEVICES:-fm jam}; do
    echo "== FARPOST_DEVICE=$device"
    # shellcheck disable=SC2086
    FARPOST_DEVICE=$device FARPOST_JAM_LOCAL=0 "$here/scripts/test-programs.sh" $what || failed=1
done
exit $failed
