#!/usr/bin/env bash
# Runs a command with a small Slurm of its own around it, and takes that Slurm down afterwards.
#
#   tests/net/slurm.sh [-N NODES] COMMAND...      e.g. tests/net/slurm.sh -N 2 srun --mpi=pmi2 -n 4 program
#
# NODES (default 2) are slurmd processes on this machine, named n1, n2 and so on, with cores enough for 16 tasks each. Ranks on
# them are on one host for all that sharing memory is concerned, although Slurm takes them for several: a program that
# trusts Slurm treats them as several hosts. Everything (munge with a key of its own, configuration, state, logs) lives in a
# temporary directory. Needs root, slurmctld, slurmd, srun and munged (Debian: slurm-wlm, munge); exit code 77 and one line
# when something is missing.
set -u
nodes=2
if [ "${1:-}" = -N ]; then
    nodes=$2
    shift 2
fi
[ $# -gt 0 ] || { sed -n '2,/^set -u/{s/^# \{0,1\}//;/^set -u/d;p}' "$0" >&2; exit 2; }
PATH=$PATH:/usr/sbin:/sbin
skip() { echo "slurm.sh: SKIPPED: $*" >&2; exit 77; }
[ "$(id -u)" = 0 ] || skip "starting slurmctld, slurmd and munged takes root"
for tool in slurmctld slurmd srun munged; do
    command -v $tool >/dev/null || skip "no $tool; on Debian: apt-get install slurm-wlm munge"
done

dir=$(mktemp -d "${TMPDIR:-/tmp}/farpost-slurm.XXXXXX") || exit 1
started=()
finish() {
    local pid i
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null; done
    for i in $(seq 1 100); do
        alive=0
        for pid in "${started[@]}"; do kill -0 "$pid" 2>/dev/null && alive=1; done
        [ $alive = 1 ] || break
        sleep 0.05
    done
    for pid in "${started[@]}"; do kill -9 "$pid" 2>/dev/null; done
    wait 2>/dev/null
    # Step daemons detach; they carry the directory of their node's state on their command line or in their environment.
    for pid in $(pgrep -x slurmstepd); do
        grep -qs -- "$dir" "/proc/$pid/environ" "/proc/$pid/cmdline" && kill -9 "$pid" 2>/dev/null
    done
    [ -n "${KEEP_LOGS:-}" ] && cp -r "$dir"/*.log "$KEEP_LOGS"/ 2>/dev/null
    rm -rf "$dir"
}
trap finish EXIT
trap 'exit 130' INT TERM

# munged insists on directories that nobody else can write; the temporary directory's parent may be one that all can.
chmod 755 "$dir"
mkdir -m 755 "$dir/munge"
head -c 128 /dev/urandom >"$dir/munge/key"
chmod 400 "$dir/munge/key"
munged --force --foreground --socket="$dir/munge/socket" --key-file="$dir/munge/key" --pid-file="$dir/munge/pid" \
    --seed-file="$dir/munge/seed" --log-file="$dir/munge.log" --num-threads=2 >"$dir/munge.err" 2>&1 &
started+=($!)

host=$(hostname)
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'; }
mkdir -p "$dir/state"
{
    cat <<END
ClusterName=farpost
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(port)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool.%n
TmpFS=$dir/tmp.%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/linear
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=2
MessageTimeout=20
SlurmctldTimeout=60
SlurmdTimeout=60
PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=INFINITE OverSubscribe=YES
END
    for i in $(seq 1 "$nodes"); do
        echo "NodeName=n$i NodeHostname=$host NodeAddr=127.0.0.1 Port=$(port) CPUs=16 State=UNKNOWN"
        mkdir -p "$dir/spool.n$i" "$dir/tmp.n$i"
    done
} >"$dir/slurm.conf"
export SLURM_CONF=$dir/slurm.conf

for _ in $(seq 1 100); do [ -S "$dir/munge/socket" ] && break; sleep 0.05; done
[ -S "$dir/munge/socket" ] || { cat "$dir"/munge.err "$dir"/munge.log >&2; echo "slurm.sh: munged did not start" >&2; exit 1; }
slurmctld -D >"$dir/slurmctld.out" 2>&1 &
started+=($!)
for i in $(seq 1 "$nodes"); do
    slurmd -D -N "n$i" >"$dir/slurmd.n$i.out" 2>&1 &
    started+=($!)
done
for _ in $(seq 1 200); do
    [ "$(sinfo -h -o '%T %D' 2>/dev/null | tr -d '\n')" = "idle $nodes" ] && ready=1 && break
    sleep 0.1
done
if [ -z "${ready:-}" ]; then
    tail -n 5 "$dir"/*.log "$dir"/*.out >&2
    sinfo >&2
    echo "slurm.sh: the nodes did not become idle within 20 s" >&2
    exit 1
fi
"$@"
