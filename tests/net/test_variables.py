#!/usr/bin/env python3
"""What launchers tell their ranks in variables, spoilt on the way: each rank says in one line which variable it is, and the job ends
with a failure code. Nobody runs as a job of one by mistake."""

import os
import subprocess
import tempfile
import unittest

from hosts import ROOT, Hosts
from launchers import PREFIX, all_launchers
from test_bad_input import PROGRAM

SECONDS = 40
LAUNCHERS = {launcher.name: launcher for launcher in all_launchers()}

PMI = (
    ("export PMI_RANK=zz", "PMI_RANK=zz: must be a rank"),
    ("export PMI_RANK=99", "PMI_RANK=99: PMI_SIZE=2 has no such rank"),
    ("export PMI_RANK=", "PMI_RANK=: must be a rank"),
    ("unset PMI_RANK", "PMI_RANK=: is not set"),
    ("export PMI_SIZE=-1", "PMI_SIZE=-1: must be the number of ranks"),
    ("export PMI_SIZE=0", "PMI_SIZE=0"),
    ("unset PMI_SIZE", "PMI_SIZE=: is not set"),
    ("export PMI_FD=77", "PMI_FD=77: no such descriptor"),
    ("export PMI_FD=x", "PMI_FD=x: must be the descriptor"),
)
PMIX = (
    ("export PMIX_RANK=zz", "PMIX_RANK=zz: must be a rank"),
    ("export PMIX_RANK=-2", "PMIX_RANK=-2: must be a rank"),
    ("export PMIX_RANK=", "PMIX_RANK=: must be a rank"),
    ("unset PMIX_RANK", "PMIX_RANK=: must be set"),
    ("unset PMIX_NAMESPACE", "PMIX_NAMESPACE=: must be set"),
    ("export PMIX_NAMESPACE=", "PMIX_NAMESPACE=: must have 1 to "),
    (f"export PMIX_NAMESPACE={'n' * 300}", "PMIX_NAMESPACE=nnn"),
)


class Variables:
    """The same for all launchers; a subclass names one and what can go wrong with it."""

    name = None
    spoilt = ()

    @classmethod
    def setUpClass(cls):
        cls.launcher = LAUNCHERS[cls.name]
        if cls.launcher.missing:
            raise unittest.SkipTest(cls.launcher.missing)
        os.makedirs(f"{ROOT}/build", exist_ok=True)
        built = tempfile.TemporaryDirectory(prefix="net-tests.", dir=f"{ROOT}/build")
        cls.addClassCleanup(built.cleanup)
        cls.program = f"{built.name}/program"
        with open(f"{cls.program}.c", "w", encoding="utf-8") as f:
            f.write(PROGRAM)
        subprocess.run([f"{PREFIX}/bin/mpicc", f"{cls.program}.c", "-o", cls.program], check=True)
        cls.hosts = Hosts(2, share=[PREFIX])
        cls.addClassCleanup(cls.hosts.close)
        cls.launcher.prepare(cls.hosts)
        cls.addClassCleanup(cls.launcher.finish)
        cls.before = {name: cls.hosts.leftovers(name) for name in cls.hosts.names}

    def job(self, shell):
        """Two ranks on two hosts, which run `shell` first."""
        script = ["/bin/sh", "-c", f"{shell}; exec {self.program}"]
        command = self.launcher.direct(self.hosts, {"h1": 1, "h2": 1}, script)
        ran, _ = self.launcher.run(self.hosts, command, SECONDS, env=self.launcher.environment(self.hosts))
        for host in self.hosts.names:
            self.assertEqual(self.hosts.settled(host, 10, ignore=self.before[host]), [], f"left on {host} after {ran}")
        return ran

    def test_what_is_right_runs(self):
        ran = self.job("true")
        self.assertEqual(ran.code, 0, ran)

    def test_what_is_spoilt_is_named(self):
        for shell, words in self.spoilt:
            with self.subTest(shell[:60]):
                ran = self.job(shell)
                self.assertNotEqual(ran.code, 0, ran)
                said = [line for line in (ran.out + ran.err).splitlines() if "farpost:" in line]
                self.assertTrue(0 < len(said) <= 2, ran)  # a line for each rank
                for line in said:
                    self.assertIn(words, line)


class Hydra(Variables, unittest.TestCase):
    name = "hydra"
    spoilt = (*PMI, ("unset PMI_FD", "PMI_SIZE=2"))


class Prterun(Variables, unittest.TestCase):
    name = "prterun"
    spoilt = PMIX


class SlurmPmi2(Variables, unittest.TestCase):
    name = "srun"
    spoilt = (*PMI, ("unset PMI_FD", "PMI_SIZE=2"), ("unset PMI_FD PMI_SIZE", "SLURM_STEP_NUM_TASKS=2"))


class SlurmPmix(Variables, unittest.TestCase):
    name = "srun-pmix"
    spoilt = PMIX


if __name__ == "__main__":
    unittest.main()
