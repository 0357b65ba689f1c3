#!/usr/bin/env bash
# Tests across hosts, which are emulated on this machine with namespaces (tests/net/hosts.py).
#
#   PREFIX=dir scripts/test-net.sh [--full] [PART...]     parts: hosts launchers doctor conformance mpiexec rollcall bad_input ipv6 ofi_strangers rails interfaces devices programs faults
#
#   PREFIX     Farpost's install tree
#   LOGS       where logs of failures go, default build/test-logs
#   --full     (or FULL=1) interfaces, devices, programs and faults: everything under every launcher, instead of a selection (more than an hour)
#
# hosts: the emulation itself. launchers: joining a job under mpiexec.hydra, prterun and srun, as far as they can be had.
# doctor: farpost doctor --hosts. conformance: the fabrics' conformance suites between hosts. mpiexec: Farpost's own, which
# hands jobs on several hosts to them. rollcall: what is said when a job hangs. bad_input: jobs that cannot run are refused in a line. ipv6: over
# networks with IPv6 addresses only. ofi_strangers: at the ports of libfabric's endpoints. rails: long
# puts and gets of RSMAPI over two rails, by the bytes that each carries.
# interfaces: those beside MPI, Portals by way of agents too. devices: MPI by Fast Messages, JAM and Portals, a part of the programs. programs: the C and C++ test programs and mpi4py's tests on 2 to 4 hosts.
# faults: what happens when networks, ranks, hosts and launchers fail.
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

# run SECONDS FILE [ARGUMENT...]
run() {
    local seconds=$1 file=$2 began=$SECONDS code
    shift 2
    timeout -k 30 "$seconds" "$python" "$here/tests/net/$file" "$@"
    code=$?
    echo "-- $file: $([ $code = 0 ] && echo ok || echo "FAILED, exit code $code") ($((SECONDS - began)) s)"
    [ $code = 0 ] || failed=1
}

failed=0
full=()
[ "${FULL:-0}" = 0 ] || full=(--full)
if [ "${1:-}" = --full ]; then
    full=(--full)
    shift
fi
limit=1500
[ ${#full[@]} = 0 ] || limit=14400
[ $# -gt 0 ] || set -- hosts launchers doctor conformance mpiexec rollcall bad_input ipv6 ofi_strangers rails interfaces devices programs faults
for part in "$@"; do
    case $part in
    hosts) run 300 test_hosts.py -v ;;
    launchers) run 600 test_launchers.py -v ;;
    doctor) run 300 test_doctor.py -v ;;
    conformance) run 300 test_conformance.py -v ;;
    mpiexec) run 600 test_launch.py -v ;;
    rollcall) run 600 test_rollcall.py -v ;;
    bad_input)
        run 200 test_bad_input.py -v
        run 300 test_variables.py -v
        ;;
    ipv6) run 120 test_ipv6.py -v ;;
    ofi_strangers) run 200 test_ofi_strangers.py -v ;;
    rails) run 200 test_rails.py -v ;;
    interfaces)
        FULL=${#full[@]} run 400 test_interfaces.py -v
        FULL=${#full[@]} run 300 test_portals_agents.py -v
        ;;
    devices)
        FULL=${#full[@]} run 600 test_devices.py -v
        if [ ${#full[@]} != 0 ]; then
            for device in fm jam portals; do FARPOST_DEVICE=$device run $limit programs.py --full --launchers hydra --layouts 2x2,3x5 mpi4py; done
        fi
        ;;
    programs) run $limit programs.py ${full[@]+"${full[@]}"} ;;
    faults)
        run 300 test_deaths.py -v
        run $limit faults.py ${full[@]+"${full[@]}"}
        ;;
    *)
        echo "test-net.sh: part $part: allowed are hosts, launchers, doctor, conformance, mpiexec, rollcall, bad_input, ipv6, ofi_strangers, rails, interfaces, devices, programs, faults" >&2
        exit 2
        ;;
    esac
done
exit $failed
