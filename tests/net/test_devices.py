#!/usr/bin/env python3
"""MPI by Fast Messages and by JAM between emulated hosts: some of the test programs, and a job whose ranks do not agree."""

import os
import subprocess
import unittest

from hosts import ROOT, Hosts
from test_bad_input import HYDRA, MPIEXEC, PREFIX

PROGRAMS = ("mpi/p2p_order", "mpi/p2p_modes", "mpi/coll_blocking", "programs/samplesort")


@unittest.skipUnless(HYDRA, "no launcher for several hosts: mpiexec.hydra could not be had")
class Devices(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        below = {os.path.dirname(os.path.dirname(os.path.realpath(p))) for p in (MPIEXEC, HYDRA)}
        cls.hosts = Hosts(2, share=sorted(p for p in below if p.startswith("/tmp/")))
        cls.addClassCleanup(cls.hosts.close)
        for name in PROGRAMS:
            command = [f"{PREFIX}/bin/mpicc", "-std=gnu11", "-O1", "-g", "-DFARPOST", f"-I{ROOT}/tests/mpi", f"{ROOT}/tests/{name}.c"]
            subprocess.run([*command, "-o", cls.path(name), "-lm", "-lpthread"], check=True)

    @classmethod
    def path(cls, name):
        return f"{cls.hosts.directory}/{os.path.basename(name)}"

    def job(self, *program, **settings):
        """Two ranks on each of two hosts."""
        command = [MPIEXEC, "-q", "--launcher", "hydra", "--rsh-agent", self.hosts.rsh, "--host", "h1:2,h2:2", "-n", "4"]
        env = {"PATH": f"{os.path.dirname(HYDRA)}:{os.environ['PATH']}", **settings}
        ran = self.hosts.run("h1", [*command, *program], timeout=120, env=env)
        for host in self.hosts.names:
            self.assertEqual(self.hosts.settled(host, 10), [], f"left on {host} after {ran}")
        return ran

    def test_programs(self):
        for settings in ({"FARPOST_DEVICE": "fm"}, {"FARPOST_DEVICE": "jam"}, {"FARPOST_DEVICE": "jam", "FARPOST_JAM_LOCAL": "0"}):
            for name in PROGRAMS:
                with self.subTest(name, **settings):
                    ran = self.job(self.path(name), **settings)
                    self.assertEqual(ran.code, 0, ran)

    def test_encrypted(self):
        ran = self.job(self.path("mpi/coll_blocking"), FARPOST_DEVICE="fm", FARPOST_ENCRYPT="1")
        self.assertEqual(ran.code, 0, ran)

    def test_ranks_that_differ(self):
        script = 'case $(hostname) in h2*) FARPOST_DEVICE=fm; export FARPOST_DEVICE;; esac; exec "$0"'
        ran = self.job("sh", "-c", script, self.path("mpi/p2p_modes"))
        self.assertNotEqual(ran.code, 0, ran)
        self.assertRegex(ran.out + ran.err, r"carries MPI by fm and rank \d by \"?postbox")


if __name__ == "__main__":
    unittest.main()
