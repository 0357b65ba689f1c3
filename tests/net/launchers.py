"""The launchers that tests start jobs with on emulated hosts: MPICH's Hydra, PRRTE, Slurm.

The first two come from the build cache (scripts/fetch-peers.sh), Slurm from the system; one that is missing gives a reason to
skip. Jobs are started through Farpost's own mpiexec, which hands them on, or directly as a site would.
"""

import os
import shutil
import subprocess
import sys
import time

from hosts import ROOT, Failed

PREFIX = os.environ.get("PREFIX", os.path.join(ROOT, "build", "install"))
MPIEXEC = os.path.join(PREFIX, "bin", "mpiexec")
TOOLS = "/usr/local/sbin:/usr/sbin:/sbin"


def peers():
    """Directories of the peers that could be fetched, by name."""
    sys.path.insert(0, os.path.join(ROOT, "scripts"))
    env = dict(os.environ)
    try:
        import compare

        env["PYTHON"] = compare.python_with_pip()
    except (ImportError, SystemExit):
        pass
    script = os.path.join(ROOT, "scripts", "fetch-peers.sh")
    done = subprocess.run([script, "mpich", "openmpi"], stdout=subprocess.PIPE, text=True, check=False, env=env)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)


class Launcher:
    """One way to start a job. `missing`: why it cannot be used here, or None."""

    def __init__(self, name, path, missing=None):
        self.name, self.path, self.missing = name, path, missing

    def prepare(self, hosts):
        """Bring up what it needs on the hosts."""

    def finish(self):
        """End what `prepare` brought up."""

    def unstick(self, hosts):  # noqa: ARG002, what subclasses take
        """Is it a defect of the launcher's own that a job hangs? Then end what hangs; a test may try again."""
        return False

    def environment(self, hosts):
        return {"FARPOST_RSH": hosts.rsh}

    def mpiexec(self, hosts, ranks, command, options=()):
        """Through Farpost's mpiexec. `ranks`: {host: ranks}."""
        named = ",".join(f"{host}:{n}" for host, n in ranks.items())
        total = str(sum(ranks.values()))
        return [MPIEXEC, "-q", "--launcher", self.path, "-host", named, "-n", total, *options, *command]

    def direct(self, hosts, ranks, command):
        """As a site would start it."""
        raise NotImplementedError


class Hydra(Launcher):
    def direct(self, hosts, ranks, command):
        named = ",".join(f"{host}:{n}" for host, n in ranks.items())
        shell = ["-launcher", "ssh", "-launcher-exec", hosts.rsh]
        return [self.path, *shell, "-hosts", named, "-n", str(sum(ranks.values())), *command]


class Prterun(Launcher):
    def unstick(self, hosts):
        """PRRTE 3.0 forks ranks while it has other threads; one in some dozens never gets as far as its program.
        Whether that is what hangs here; if so, end it."""
        found = False
        for name in hosts.names:
            daemons = {pid: parent for pid, parent, _, line in hosts.processes(name) if "/prted " in line.split(" --")[0] + " "}
            forked = [pid for pid, parent in daemons.items() if parent in daemons]
            found = found or bool(forked)
        for name in hosts.names if found else ():
            hosts.run(name, ["sh", "-c", "pkill -9 -x prted; pkill -9 -x prterun; rm -rf /tmp/prted.* /tmp/prtrn.*"])
        return found

    def environment(self, hosts):
        return {**super().environment(hosts), "PMIX_MCA_gds": "hash"}  # its shared memory store needs room in /tmp

    def direct(self, hosts, ranks, command):
        named = ",".join(f"{host}:{n}" for host, n in ranks.items())
        top = os.path.dirname(os.path.dirname(self.path))
        options = ["--prefix", top, "--allow-run-as-root", "--prtemca", "plm_ssh_agent", hosts.rsh]
        options += ["--map-by", "slot:OVERSUBSCRIBE", "--bind-to", "none", "--host", named]
        for name in sorted(os.environ):
            if name.startswith(("FARPOST_", "LD_")):
                options += ["-x", name]
        return [self.path, *options, "-n", str(sum(ranks.values())), *command]


SLURM_CONF = """
ClusterName=farpost
SlurmctldHost=h1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=/dev/shm/.munge/socket
CredType=cred/munge
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool.%n
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd.%n.pid
SlurmctldLogFile={dir}/slurmctld.log
SlurmdLogFile={dir}/slurmd.%n.log
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
PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=INFINITE OverSubscribe=YES
"""


class Slurm(Launcher):
    """A Slurm of the set's own: slurmctld on h1, slurmd and munged on every host."""

    def prepare(self, hosts):
        top = f"{hosts.directory}/slurm"
        if os.path.exists(top):
            return
        os.makedirs(f"{top}/state")
        with open(f"{top}/key", "wb") as f:
            f.write(os.urandom(128))
        lines = [SLURM_CONF.format(dir=top).strip()]
        for name in hosts.names:
            os.makedirs(f"{top}/spool.{name}")
            lines.append(f"NodeName={name} NodeHostname={name} NodeAddr={hosts.addresses[name][0]} CPUs=16 State=UNKNOWN")
        with open(f"{top}/slurm.conf", "w", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")
        env = self.environment(hosts)
        # munged insists on directories that others cannot write.
        munge = (
            f"umask 022; d=/dev/shm/.munge; mkdir -p $d; cp {top}/key $d/key; chmod 400 $d/key; exec munged --force --foreground"
            " --socket=$d/socket --key-file=$d/key --pid-file=$d/pid --seed-file=$d/seed --log-file=$d/log --num-threads=2"
        )
        self.running = []
        for name in hosts.names:
            self.running.append(hosts.start(name, ["sh", "-c", munge], env=env))
        for name in hosts.names:
            self._until(lambda name=name: hosts.run(name, ["test", "-S", "/dev/shm/.munge/socket"]).code == 0, "munged")
        self.running.append(hosts.start("h1", ["slurmctld", "-D"], env=env))
        for name in hosts.names:
            self.running.append(hosts.start(name, ["slurmd", "-D", "-N", name], env=env))
        wanted = f"idle {len(hosts.names)}"
        self._until(lambda: hosts.run("h1", ["sinfo", "-h", "-o", "%T %D"], env=env).out.strip() == wanted, "slurmd")

    def _until(self, true, what):
        deadline = time.monotonic() + 30
        while not true():
            if time.monotonic() > deadline:
                said = "\n".join("".join(p.said())[-500:] for p in self.running)
                raise Failed(f"Slurm's {what} did not come up: {said}")
            time.sleep(0.1)

    def finish(self):
        for process in getattr(self, "running", []):
            process.close()
        self.running = []

    def environment(self, hosts):
        path = os.environ.get("PATH", "") + ":" + TOOLS
        return {**super().environment(hosts), "SLURM_CONF": f"{hosts.directory}/slurm/slurm.conf", "PATH": path}

    def _allocation(self, hosts, command):
        return ["salloc", "-Q", "-N", str(len(hosts.names)), "-w", ",".join(hosts.names), *command]

    def mpiexec(self, hosts, ranks, command, options=()):
        return self._allocation(hosts, super().mpiexec(hosts, ranks, command, options))

    def direct(self, hosts, ranks, command):
        plain = ["srun", "--mpi=pmi2", "-O", "-N", str(len(ranks)), "-w", ",".join(ranks), "-n", str(sum(ranks.values()))]
        return self._allocation(hosts, [*plain, *command])


def all_launchers():
    """Every launcher, with the reasons why some are missing."""
    found = peers()
    launchers = []
    if "mpich" in found:
        launchers.append(Hydra("hydra", os.path.join(found["mpich"], "bin", "mpiexec.hydra")))
    else:
        launchers.append(Hydra("hydra", None, "scripts/fetch-peers.sh could not fetch mpich"))
    if "openmpi" not in found:
        launchers.append(Prterun("prterun", None, "scripts/fetch-peers.sh could not fetch openmpi"))
    elif not has_library("libpmix.so.2"):
        launchers.append(Prterun("prterun", None, "libpmix.so.2 is missing (on Debian and Ubuntu: apt-get install libpmix2)"))
    else:
        launchers.append(Prterun("prterun", os.path.join(found["openmpi"], "bin", "prterun")))
    path = os.environ.get("PATH", "") + ":" + TOOLS
    lacking = [t for t in ("srun", "salloc", "slurmctld", "slurmd", "munged") if not shutil.which(t, path=path)]
    if lacking:
        launchers.append(Slurm("srun", None, f"{lacking[0]} is missing (on Debian and Ubuntu: apt-get install slurm-wlm munge)"))
    elif os.geteuid() != 0:
        launchers.append(Slurm("srun", None, "starting Slurm's daemons takes root"))
    else:
        launchers.append(Slurm("srun", shutil.which("srun", path=path)))
    return launchers


def has_library(name):
    """Can the dynamic linker find it?"""
    text = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, env={"PATH": TOOLS}, check=False).stdout
    return name in text
