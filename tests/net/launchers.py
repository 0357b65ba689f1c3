"""The launchers that tests start jobs with on emulated hosts: MPICH's Hydra, PRRTE, Slurm.

The first two come from the build cache (scripts/fetch-peers.sh), Slurm from the system; one that is missing gives a reason to
skip. Jobs are started through Farpost's own mpiexec, which hands them on, or directly as a site would.
"""

import os
import shutil
import subprocess
import sys
import tempfile
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

    # Daemons of its own stay on the hosts between jobs.
    stays = False

    def prepare(self, hosts):
        """Bring up what it needs on the hosts."""

    def finish(self):
        """End what `prepare` brought up."""

    # What its own defect is, if it has one that tests know.
    sticks = ""

    def unstick(self, hosts):  # noqa: ARG002, what subclasses take
        """Is it a defect of the launcher's own that a job hangs? Then end what hangs; a test may try again."""
        return False

    def run(self, hosts, command, seconds, **options):
        """Run a command on the first host to its end, anew when the launcher itself hangs: (result, how many starts).
        Past `seconds` it is killed and Failed is raised."""
        starts = 1
        process = hosts.start(hosts.names[0], command, **options)
        deadline = time.monotonic() + seconds
        while process.wait(10) is None and time.monotonic() < deadline:
            if starts < 3 and self.unstick(hosts):
                process.close()
                process = hosts.start(hosts.names[0], command, **options)
                deadline = time.monotonic() + seconds
                starts += 1
        return process.result(0.1), starts

    def miss(self, hosts, name):
        """Tell it that a host is gone, if it would take minutes to find out."""

    def sweep(self, hosts):
        """Remove the files that its daemons leave when they are killed."""

    def clear(self, hosts):
        """End whatever a job has left on the hosts, and make them ready for the next."""
        for name in hosts.names:
            hosts.crash(name)

    def environment(self, hosts):
        return {"FARPOST_RSH": hosts.rsh}

    def mpiexec(self, hosts, ranks, command, quiet=True):
        """Through Farpost's mpiexec. `ranks`: {host: ranks}."""
        named = ",".join(f"{host}:{n}" for host, n in ranks.items())
        total = str(sum(ranks.values()))
        return [MPIEXEC, *(["-q"] if quiet else []), "--launcher", self.path, "-host", named, "-n", total, *command]

    def direct(self, hosts, ranks, command):
        """As a site would start it."""
        raise NotImplementedError


class Hydra(Launcher):
    def direct(self, hosts, ranks, command):
        named = ",".join(f"{host}:{n}" for host, n in ranks.items())
        shell = ["-launcher", "ssh", "-launcher-exec", hosts.rsh]
        return [self.path, *shell, "-hosts", named, "-n", str(sum(ranks.values())), *command]


class Prterun(Launcher):
    sticks = "PRRTE hung while it started ranks"

    def unstick(self, hosts):
        """PRRTE 3.0 forks ranks while it has other threads; one in some dozens never gets as far as its program.
        Whether that is what hangs here; if so, end it."""

        def forked():
            """Children of its daemons that are still what their parents are. `prted` is a parent and a child to begin with."""
            found = set()
            for name in hosts.names:
                running = {pid: (parent, line) for pid, parent, _, line in hosts.processes(name)}
                for pid, (parent, line) in running.items():
                    above, parents = 0, parent
                    while running.get(parents, (0, ""))[1] == line:
                        above, parents = above + 1, running[parents][0]
                    if above > {"prterun": 0, "prted": 1}.get(os.path.basename(line.split(" ")[0]), above):
                        found.add((name, pid))
            return found

        found = forked()
        if found:
            time.sleep(1)
            found &= forked()
        if found:  # ranks that did start wait for the others, each for as long as FARPOST_START_TIMEOUT says
            self.clear(hosts)
        return bool(found)

    def sweep(self, hosts):
        for name in hosts.names:
            hosts.run(name, ["sh", "-c", "rm -rf /tmp/prted.* /tmp/prtrn.*"])

    def clear(self, hosts):
        super().clear(hosts)
        self.sweep(hosts)

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

    plugin = "pmi2"
    stays = True

    def prepare(self, hosts):
        top = f"{hosts.directory}/slurm"
        os.makedirs(f"{top}/state")
        with open(f"{top}/key", "wb") as f:
            f.write(os.urandom(128))
        lines = [SLURM_CONF.format(dir=top).strip()]
        for name in hosts.names:
            os.makedirs(f"{top}/spool.{name}")
            lines.append(f"NodeName={name} NodeHostname={name} NodeAddr={hosts.addresses[name][0]} CPUs=16 State=UNKNOWN")
        with open(f"{top}/slurm.conf", "w", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")
        self.running = {}
        self._raise(hosts, hosts.names)
        self._ready(hosts)

    def _raise(self, hosts, names):
        """Start the daemons of hosts."""
        env = self.environment(hosts)
        top = f"{hosts.directory}/slurm"
        # munged insists on directories that others cannot write.
        munge = (
            f"umask 022; d=/dev/shm/.munge; mkdir -p $d; cp -f {top}/key $d/key; chmod 400 $d/key; exec munged --force --foreground"
            " --socket=$d/socket --key-file=$d/key --pid-file=$d/pid --seed-file=$d/seed --log-file=$d/log --num-threads=2"
        )
        for name in names:
            self.running[name] = [hosts.start(name, ["sh", "-c", munge], env=env)]
        for name in names:
            self._until(lambda name=name: hosts.run(name, ["munge", "-n", "-S", "/dev/shm/.munge/socket"]).code == 0, "munged")
        for name in names:
            commands = ([["slurmctld", "-D"]] if name == "h1" else []) + [["slurmd", "-D", "-N", name]]
            self.running[name] += [hosts.start(name, command, env=env) for command in commands]

    def _ready(self, hosts):
        env = self.environment(hosts)
        wanted = f"idle {len(hosts.names)}"
        self._until(lambda: hosts.run("h1", ["sinfo", "-h", "-o", "%T %D"], env=env).out.strip() == wanted, "slurmd")

    def _until(self, true, what):
        deadline = time.monotonic() + 60
        while not true():
            if time.monotonic() > deadline:
                said = "\n".join("".join(p.said())[-500:] for ps in self.running.values() for p in ps)
                raise Failed(f"Slurm's {what} did not come up: {said}")
            time.sleep(0.1)

    def finish(self):
        for process in (p for ps in self.running.values() for p in ps):
            process.close()
        self.running = {}

    def environment(self, hosts):
        path = os.environ.get("PATH", "") + ":" + TOOLS
        conf = f"{hosts.directory}/slurm/slurm.conf"
        # What Farpost's mpiexec looks at; srun itself does, too.
        return {**super().environment(hosts), "SLURM_CONF": conf, "PATH": path, "SLURM_MPI_TYPE": self.plugin}

    def miss(self, hosts, name):
        command = ["scontrol", "update", f"NodeName={name}", "State=DOWN", "Reason=crashed"]
        hosts.run("h1", command, env=self.environment(hosts))

    def sweep(self, hosts):
        for name in hosts.names:
            hosts.run(name, ["sh", "-c", "rm -rf /tmp/spmix_appdir_*"])

    def clear(self, hosts):
        """Its daemons end what a job has left."""
        env = self.environment(hosts)
        hosts.run("h1", ["scancel", "--user=root", "--signal=KILL"], env=env)
        hosts.run("h1", ["scancel", "--user=root"], env=env)
        self.sweep(hosts)
        fallen = [name for name in hosts.names if any(p.wait(0.01) is not None for p in self.running[name])]
        for name in fallen:
            hosts.crash(name)
            self.miss(hosts, name)
        self._raise(hosts, fallen)
        for name in fallen:
            hosts.run("h1", ["scontrol", "update", f"NodeName={name}", "State=RESUME"], env=env)
        self._ready(hosts)

    def _allocation(self, ranks, command):
        return ["salloc", "-Q", "-N", str(len(ranks)), "-w", ",".join(ranks), *command]

    def mpiexec(self, hosts, ranks, command, quiet=True):
        return self._allocation(ranks, super().mpiexec(hosts, ranks, command, quiet))

    def direct(self, hosts, ranks, command):
        plain = ["srun", f"--mpi={self.plugin}", "-O", "-N", str(len(ranks)), "-w", ",".join(ranks), "-n", str(sum(ranks.values()))]
        return self._allocation(ranks, [*plain, *command])


class SlurmPmix(Slurm):
    """The same with Slurm's other plug-in."""

    plugin = "pmix"


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
    return launchers + slurms()


def slurms():
    """Slurm with each of its plug-ins."""
    path = os.environ.get("PATH", "") + ":" + TOOLS
    lacking = [t for t in ("srun", "salloc", "slurmctld", "slurmd", "munged") if not shutil.which(t, path=path)]
    why = None
    if lacking:
        why = f"{lacking[0]} is missing (on Debian and Ubuntu: apt-get install slurm-wlm munge)"
    elif os.geteuid() != 0:
        why = "starting Slurm's daemons takes root"
    if why:
        return [Slurm("srun", None, why), SlurmPmix("srun-pmix", None, why)]
    srun = shutil.which("srun", path=path)
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:  # it does not even list its plug-ins without one
        conf.write("ClusterName=none\nSlurmctldHost=localhost\nNodeName=localhost\n")
        conf.flush()
        listed = subprocess.run([srun, "--mpi=list"], capture_output=True, text=True, check=False, env={**os.environ, "SLURM_CONF": conf.name})
    lacks = None if "pmix" in (listed.stdout + listed.stderr).split() else "this Slurm has no plug-in mpi/pmix"
    return [Slurm("srun", srun), SlurmPmix("srun-pmix", srun, lacks)]


def has_library(name):
    """Can the dynamic linker find it?"""
    text = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, env={"PATH": TOOLS}, check=False).stdout
    return name in text
