#!/usr/bin/env bash
# Tests of farpost sim: programs on simulated machines, and what is said when they cannot run (tests/sim).
#
#   PREFIX=dir scripts/test-sim.sh [NAME...]      NAME: as unittest's, e.g. Programs.test_sixty_four_ranks
#
#   PREFIX     Farpost's install tree
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
PREFIX=$(cd "${PREFIX:?set PREFIX to the install tree to test}" && pwd) || exit 1
export PREFIX PYTHONDONTWRITEBYTECODE=1
export LD_LIBRARY_PATH=$PREFIX/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
cd "$here/tests/sim" || exit 1
# Names are of cases in test_sim.py.
[ $# != 0 ] || python3 test_paper.py || failed=1
python3 test_sim.py "$@" || failed=1
exit ${failed:-0}
