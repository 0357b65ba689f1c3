#!/usr/bin/env bash
# What is said about jobs that hang, or are ended while ranks wait (tests/rollcall), with an installed Farpost.
#
#   PREFIX=dir scripts/test-rollcall.sh [-v] [NAME...]
#
# MPICH's mpiexec.hydra, where it can be had (scripts/fetch-peers.sh), starts the ranks that have to say it themselves.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
PREFIX=$(cd "${PREFIX:?set PREFIX to the install tree to test}" && pwd) || exit 1
export PREFIX PYTHONDONTWRITEBYTECODE=1
if peer=$("$here/scripts/fetch-peers.sh" mpich); then
    export HYDRA=${HYDRA:-${peer#* }/bin/mpiexec.hydra}
fi
exec timeout -k 30 600 python3 "$here/tests/rollcall/test_rollcall.py" "$@"
