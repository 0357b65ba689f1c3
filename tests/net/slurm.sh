#!/usr/bin/env bash
# Runs a command with a small Slurm of its own around it, and takes that Slurm down afterwards.
#
#   tests/net/slurm.sh [-N NODES | -H HOST,HOST... -R RSH] COMMAND...
#
#   tests/net/slurm.sh -N 2 srun --mpi=pmi2 -n 4 program
#   tests/net/slurm.sh -H h1,h2 -R "$(tests/net/hosts.py rsh)" srun --mpi=pmi2 -n 4 program
#
# -N NODES (default 2): that many slurmd processes on this machine, named n1, n2 and so on. Ranks on them could share memory,
# although Slurm takes them for several hosts; a program that believes Slurm does, too.
# -H, -R: a slurmd on each of these hosts, reached by the remote shell RSH (as ssh is called), slurmctld and COMMAND on the first.
# They must see the same files as this machine.
# COMMAND `hold` prints a line, SLURM_CONF=FILE, and waits for the end of its input: meanwhile others can use srun with that variable set.
#
# Each node has cores enough for 16 tasks. Everything (munge with a key of its own, configuration, state, logs) lives in a temporary
# directory; KEEP_LOGS=DIRECTORY copies the logs there. Needs root, slurmctld, slurmd, srun and munged (Debian: slurm-wlm, munge);
# exit code 77 and one line when something is missing, 75 when Slurm did not come up.
set -u
nodes=2
hosts=
rsh=
while getopts N:H:R: option; do
    case $option in
    N) nodes=$OPTARG ;;
    H) hosts=${OPTARG//,/ } ;;
    R) rsh=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
if [ $# = 0 ] || { [ -n "$hosts" ] && [ -z "$rsh" ]; }; then
    sed -n '2,/^set -u/{s/^# \{0,1\}//;/^set -u/d;p}' "$0" >&2
    exit 2
fi
PATH=$PATH:/usr/sbin:/sbin
skip() {
    echo "slurm.sh: SKIPPED: $*" >&2
    exit 77
}
[ "$(id -u)" = 0 ] || skip "starting slurmctld, slurmd and munged takes root"
for tool in slurmctld slurmd srun munged; do
    command -v $tool >/dev/null || skip "no $tool; on Debian: apt-get install slurm-wlm munge"
done

here=$(hostname)
first=$here
if [ -n "$hosts" ]; then
    first=${hosts%% *}
else
    for i in $(seq 1 "$nodes"); do hosts="$hosts n$i"; done
fi
# Runs a command on a host.
on() {
    local host=$1
    shift
    if [ -n "$rsh" ]; then
        "$rsh" "$host" "$(printf '%q ' env "SLURM_CONF=$SLURM_CONF" "PATH=$PATH" "$@")"
    else
        "$@"
    fi
}

dir=$(mktemp -d "${TMPDIR:-/tmp}/farpost-slurm.XXXXXX") || exit 1
started=()
finish() {
    trap '' INT TERM
    local pid name host left
    for name in slurmctld $(for host in $hosts; do echo "slurmd.$host"; done); do
        host=${name#slurmd.}
        [ "$name" = slurmctld ] && host=$first
        pid=$(cat "$dir/$name.pid" 2>/dev/null) && on "$host" kill "$pid" 2>/dev/null
    done
    for _ in $(seq 1 100); do
        left=0
        for pid in "${started[@]:1}"; do kill -0 "$pid" 2>/dev/null && left=1; done
        [ $left = 1 ] || break
        sleep 0.05
    done
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null; done
    # What did not go of itself, and step daemons, which detach: the directory is on their command line or in their environment.
    for pid in $(for name in slurmstepd slurmd slurmctld munged; do pgrep -x $name; done); do
        grep -qsa -- "$dir" "/proc/$pid/environ" "/proc/$pid/cmdline" && kill -9 "$pid" 2>/dev/null
    done
    wait 2>/dev/null
    [ -n "${KEEP_LOGS:-}" ] && cp -r "$dir"/*.log "$dir"/*.out "$KEEP_LOGS"/ 2>/dev/null
    rm -rf "$dir"
}
trap finish EXIT
trap 'exit 130' INT TERM

# munged insists on directories that nobody else can write.
chmod 755 "$dir"
mkdir -m 755 "$dir/munge"
head -c 128 /dev/urandom >"$dir/munge/key"
chmod 400 "$dir/munge/key"
munged --force --foreground --socket="$dir/munge/socket" --key-file="$dir/munge/key" --pid-file="$dir/munge/pid" \
    --seed-file="$dir/munge/seed" --log-file="$dir/munge.log" --num-threads=2 >"$dir/munge.out" 2>&1 </dev/null &
started+=($!)

port() { python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'; }
mkdir -p "$dir/state"
export SLURM_CONF=$dir/slurm.conf
{
    cat <<END
ClusterName=farpost
SlurmctldHost=$first$([ -n "$rsh" ] || echo '(127.0.0.1)')
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
    for host in $hosts; do
        address=127.0.0.1
        name=$here
        [ -n "$rsh" ] && address=$host && name=$host
        echo "NodeName=$host NodeHostname=$name NodeAddr=$address Port=$(port) CPUs=16 State=UNKNOWN"
        mkdir -p "$dir/spool.$host" "$dir/tmp.$host"
    done
} >"$SLURM_CONF"

# slurmd wants cgroups that it has no use for here; the old plug-in does without their file system, where there is none.
on "$first" test -e /sys/fs/cgroup/cgroup.controllers </dev/null || echo CgroupPlugin=cgroup/v1 >"$dir/cgroup.conf"

for _ in $(seq 1 100); do
    [ -S "$dir/munge/socket" ] && break
    sleep 0.05
done
on "$first" slurmctld -D >"$dir/slurmctld.out" 2>&1 </dev/null &
started+=($!)
for host in $hosts; do
    on "$host" slurmd -D -N "$host" >"$dir/slurmd.$host.out" 2>&1 </dev/null &
    started+=($!)
done
wanted="idle $(echo $hosts | wc -w)"
for _ in $(seq 1 200); do
    [ "$(on "$first" sinfo -h -o '%T %D' 2>/dev/null </dev/null | tr -d '\n')" = "$wanted" ] && ready=1 && break
    sleep 0.1
done
if [ -z "${ready:-}" ]; then
    tail -n 5 "$dir"/*.log "$dir"/*.out >&2
    echo "slurm.sh: Slurm did not come up within 20 s; the ends of its logs are above" >&2
    exit 75
fi
if [ "$1" = hold ]; then
    echo "SLURM_CONF=$SLURM_CONF"
    cat >/dev/null
else
    on "$first" "$@"
fi
