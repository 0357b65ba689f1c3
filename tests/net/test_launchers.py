#!/usr/bin/env python3
"""Joining a job under other people's launchers, across emulated hosts: Hydra, PRRTE and Slurm, as they really are.

The program is crates/job/examples/show.rs: each rank publishes a card, reads those of all others, compares the job's secret, and
prints who is where. SHOW=PATH names a built one; otherwise cargo builds it. Launchers come from scripts/fetch-peers.sh, Slurm
from the system; one that cannot be had is skipped by name.
"""

import os
import re
import shutil
import subprocess
import time
import unittest

from hosts import ROOT, Hosts

RANK = re.compile(r"rank (\d+) of (\d+) by (\w+): (.*) on (\d+) hosts, here \[([\d, ]*)\]")


def show_program():
    path = os.environ.get("SHOW")
    if not path:
        subprocess.run(["cargo", "build", "-q", "-p", "farpost-job", "--example", "show"], cwd=ROOT, check=True)
        path = os.path.join(os.environ.get("CARGO_TARGET_DIR", f"{ROOT}/target"), "debug", "examples", "show")
    return os.path.abspath(path)


def peer(name):
    fetched = subprocess.run([f"{ROOT}/scripts/fetch-peers.sh", name], stdout=subprocess.PIPE, text=True)
    words = fetched.stdout.split()
    if fetched.returncode != 0 or len(words) != 2:
        raise unittest.SkipTest(f"{name} could not be fetched")
    return words[1]


class Launcher:
    """What all launchers' tests have in common; a subclass says how to start a job."""

    speaks = None
    # Whether the exit code of the launcher is that of the rank that aborted the job.
    passes_code = True

    @classmethod
    def setUpClass(cls):
        cls.show = show_program()
        share = [os.path.dirname(cls.show), *filter(None, [cls.prepare()])]
        cls.hosts = Hosts(3, share=share)
        cls.addClassCleanup(cls.hosts.close)

    @classmethod
    def prepare(cls):
        """Look for the launcher; the directory that it is in, if hosts must be told of it."""

    def command(self, hosts, per_host, ranks, variables):
        """The launcher's command line: `ranks` ranks on `hosts` (names), at most `per_host` on each."""
        raise NotImplementedError

    def launch(self, count, per_host, *args, variables=None, program=None, ranks=None, timeout=60):
        names = self.hosts.names[:count]
        command = self.command(names, per_host, ranks or count * per_host, variables or {})
        result = self.hosts.run("h1", [*command, program or self.show, *args], timeout=timeout, env=self.environment())
        deadline = time.monotonic() + 10
        for name in names:
            while left := [line for line in self.hosts.leftovers(name) if not self.expected(line)]:
                self.assertLess(time.monotonic(), deadline, f"{name} after {command}: {left} {result}")
                time.sleep(0.05)
        return result

    def environment(self):
        return {}

    def expected(self, _line):
        """Whether something that is left on a host belongs there."""
        return False

    def seen(self, result, ranks):
        """{rank: (ranks beside it, hosts of all ranks)}"""
        found = {}
        for line in RANK.finditer(result.out):
            rank, size, origin, places, hosts, here = line.groups()
            self.assertEqual((int(size), origin), (ranks, self.speaks), result)
            where = [p.split("@")[1] for p in places.split()]
            self.assertEqual(int(hosts), len(set(where)), result)
            found[int(rank)] = ([int(r) for r in here.split(",")], where)
        self.assertEqual(sorted(found), list(range(ranks)), result)
        return found

    def meet(self, count, per_host):
        result = self.launch(count, per_host)
        self.assertEqual(result.code, 0, result)
        seen = self.seen(result, count * per_host)
        where = seen[0][1]
        for rank, (here, places) in seen.items():
            self.assertEqual(places, where, result)
            self.assertEqual(here, [r for r in range(len(where)) if where[r] == where[rank]], result)
        for name in self.hosts.names[:count]:
            self.assertEqual(where.count(name), per_host, result)

    def test_2_hosts_1_rank_each(self):
        self.meet(2, 1)

    def test_2_hosts_2_ranks_each(self):
        self.meet(2, 2)

    def test_3_hosts_5_ranks_each(self):
        self.meet(3, 5)

    def test_1_host(self):
        self.meet(1, 3)

    def test_one_rank(self):
        result = self.launch(1, 1)
        self.assertEqual(result.code, 0, result)
        self.seen(result, 1)

    def test_an_abort_ends_the_job_everywhere(self):
        result = self.launch(2, 2, "abort", "7", "3")
        self.assertIn("rank 3: aborted with code 7: as asked", result.out + result.err)
        self.assertNotEqual(result.code, 0, result)
        if self.passes_code:
            self.assertEqual(result.code, 7, result)

    def test_a_rank_that_does_not_come_is_not_waited_for(self):
        result = self.launch(2, 2, "late", "30", "2", variables={"FARPOST_START_TIMEOUT": "2"})
        self.assertNotEqual(result.code, 0, result)
        said = re.search(r"start-up on host (h\d) has waited 2 s, since \d\d:\d\d:\d\d UTC, for ", result.out + result.err)
        self.assertIsNotNone(said, result)

    def test_a_secret_that_only_some_ranks_were_given(self):
        path = f"{self.hosts.directory}/secret"
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as f:
            f.write(os.urandom(32))
        self.addCleanup(os.unlink, path)
        script = f'[ $HOSTNAME_HERE = h2 ] || export FARPOST_SECRET_FILE={path}; exec {self.show} "$@"'
        wrapper = ["-c", "HOSTNAME_HERE=$(uname -n); " + script, "sh"]
        result = self.launch(2, 1, *wrapper, program="/bin/sh")
        self.assertNotEqual(result.code, 0, result)
        self.assertIn("FARPOST_SECRET_FILE must be set for all ranks or for none", result.out + result.err)
        everywhere = ["-c", f'export FARPOST_SECRET_FILE={path}; exec {self.show} "$@"', "sh"]
        result = self.launch(2, 1, *everywhere, program="/bin/sh")
        self.assertEqual(result.code, 0, result)
        self.seen(result, 2)


class Hydra1(Launcher, unittest.TestCase):
    speaks = "Pmi1"
    variables = {}

    @classmethod
    def prepare(cls):
        top = peer("mpich")
        cls.mpiexec = f"{top}/bin/mpiexec.hydra"
        return top

    def command(self, hosts, per_host, ranks, variables):
        places = ",".join(f"{h}:{per_host}" for h in hosts)
        sets = [w for k, v in {**self.variables, **variables}.items() for w in ("-genv", k, v)]
        return [self.mpiexec, "-launcher", "ssh", "-launcher-exec", self.hosts.rsh, "-hosts", places, *sets, "-n", ranks]

    def test_round_robin(self):
        result = self.launch(2, 1, ranks=5)
        self.assertEqual(result.code, 0, result)
        self.assertEqual(self.seen(result, 5)[4][0], [0, 2, 4], result)


class Hydra1Port(Hydra1):
    """PMI over TCP."""

    def command(self, *args):
        command = super().command(*args)
        return [command[0], "-pmi-port", *command[1:]]


class Hydra2(Hydra1):
    speaks = "Pmi2"
    variables = {"FARPOST_PMI_VERSION": "2"}


class Prrte(Launcher, unittest.TestCase):
    speaks = "Pmix"

    @classmethod
    def prepare(cls):
        cls.top = peer("openmpi")
        return cls.top

    def environment(self):
        return {"OPAL_PREFIX": self.top, "PRTE_PREFIX": self.top, "PMIX_PREFIX": self.top}

    def command(self, hosts, per_host, ranks, variables):
        places = ",".join(f"{h}:{per_host}" for h in hosts)
        sets = [w for k, v in variables.items() for w in ("-x", f"{k}={v}")]
        return [
            *[f"{self.top}/bin/prterun", "--allow-run-as-root", "--prtemca", "plm_ssh_agent", self.hosts.rsh],
            *["--prefix", self.top, "--host", places, "--map-by", "slot:oversubscribe", "--bind-to", "none", *sets, "-n", ranks],
        ]


class Slurm(Launcher):
    plugin = None
    # Slurm kills the step; which rank's code it ends with is a matter of which it hears of first.
    passes_code = False

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        script = [f"{ROOT}/tests/net/slurm.sh", "-H", ",".join(cls.hosts.names), "-R", cls.hosts.rsh, "hold"]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        # Where all hosts see it.
        process = subprocess.Popen(script, text=True, env=dict(os.environ, TMPDIR=cls.hosts.directory), **pipes)

        def end():
            process.stdin.close()
            process.wait(30)
            process.stdout.close()
            process.stderr.close()

        cls.addClassCleanup(end)
        said = process.stdout.readline().strip()
        if not said.startswith("SLURM_CONF="):
            why = process.stderr.read().strip()
            if process.wait(30) == 77:
                raise unittest.SkipTest(why)
            raise AssertionError(why)
        cls.conf = said.split("=", 1)[1]

    @classmethod
    def prepare(cls):
        for tool in ("srun", "slurmd"):
            if not shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
                raise unittest.SkipTest(f"no {tool} here (Debian: slurm-wlm)")
        plugins = subprocess.run(["srun", "--mpi=list"], capture_output=True, text=True)
        if cls.plugin not in (plugins.stdout + plugins.stderr).split() and plugins.returncode == 0:
            raise unittest.SkipTest(f"this Slurm has no mpi/{cls.plugin}")

    def environment(self):
        return {"SLURM_CONF": self.conf}

    def command(self, hosts, per_host, ranks, variables):
        sets = [f"{k}={v}" for k, v in variables.items()]
        places = ["-w", ",".join(hosts), "-N", len(hosts), f"--ntasks-per-node={per_host}", "-n", ranks]
        return ["env", *sets, "srun", f"--mpi={self.plugin}", "--kill-on-bad-exit=1", *places]

    def expected(self, line):
        return any(daemon in line for daemon in ("slurmd ", "slurmctld", "slurmscriptd"))


class SlurmPmi2(Slurm, unittest.TestCase):
    speaks = "Pmi2"
    plugin = "pmi2"

    def test_a_step_without_pmi_is_refused(self):
        result = self.hosts.run("h1", ["srun", "--mpi=none", "-N", 2, "-n", 2, self.show], env=self.environment())
        self.assertNotEqual(result.code, 0, result)
        self.assertIn("srun --mpi=pmi2", result.err + result.out)


class SlurmPmix(Slurm, unittest.TestCase):
    speaks = "Pmix"
    plugin = "pmix"


if __name__ == "__main__":
    unittest.main()
