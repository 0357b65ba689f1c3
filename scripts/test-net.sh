#!/usr/bin/env bash
# Tests across hosts, which are emulated on this machine with namespaces (tests/net/hosts.py).
#
#   PREFIX=dir scripts/test-net.sh [PART...]     parts: hosts launchers doctor
#
#   PREFIX     Farpost's install tree
#   LOGS       where logs of failures go, default build/test-logs
#
# hosts: the emulation itself. launchers: joining a job under mpiexec.hydra, prterun and srun, as far as they can be had.
# doctor: farpost doctor --hosts.
# Needs root or user namespaces; where there are neither, it says so, and this is no failure.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
PREFIX=$(cd "${PREFIX:?set PREFIX to the install tree to test}" && pwd) || exit 1
export PREFIX LOGS=${LOGS:-$here/build/test-logs}
export PYTHONDONTWRITEBYTECODE=1
mkdir -p "$LOGS"

# The Python that started, not a wrapper that looks for it every time.
python=$(python3 -c 'import sys; print(sys.executable)') || { echo "test-net.sh: python3 is missing"; exit 1; }
why=$("$python" -c "
import sys
sys.path.insert(0, '$here/tests/net')
import hosts
print(hosts.skipped_because() or '')") || exit 1
if [ -n "$why" ]; then
    echo "*** SKIPPED: everything across hosts (${*:-all of test-net.sh}): $why"
    exit 0
fi

failed=0
[ $# -gt 0 ] || set -- hosts launchers doctor
for part in "$@"; do
    case $part in
    hosts) timeout -k 30 300 "$python" "$here/tests/net/test_hosts.py" -v || failed=1 ;;
    launchers) timeout -k 30 600 "$python" "$here/tests/net/test_launchers.py" -v || failed=1 ;;
    doctor) timeout -k 30 300 "$python" "$here/tests/net/test_doctor.py" -v || failed=1 ;;
    *)
        echo "test-net.sh: part $part: allowed are hosts, launchers, doctor" >&2
        exit 2
        ;;
    esac
done
exit $failed
