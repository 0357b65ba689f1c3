#!/usr/bin/env python3
"""MPI by Fast Messages, by JAM and by Portals between emulated hosts: the test programs, bad input, and a job whose ranks do not agree.

An eighth of the programs over each device (but the heaviest): eight turns are all of them. The turn is made from the content of the commit;
TURN=N or TREE=... repeats one. FULL=1: all.
"""

import glob
import os
import tempfile
import unittest

from hosts import ROOT, Hosts
from programs import HEAVY, Program
from selection import turn_of_tree
from test_bad_input import HYDRA, MPIEXEC, PREFIX

# In every turn.
CORE = ("mpi/p2p_order", "mpi/coll_blocking")
TURNS = 8
FM, JAM, PORTALS = ({"FARPOST_DEVICE": device} for device in ("fm", "jam", "portals"))
SETTINGS = (FM, JAM, {**JAM, "FARPOST_JAM_LOCAL": "0"}, PORTALS)


@unittest.skipUnless(HYDRA, "no launcher for several hosts: mpiexec.hydra could not be had")
class Devices(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        below = {os.path.dirname(os.path.dirname(os.path.realpath(p))) for p in (MPIEXEC, HYDRA)}
        cls.hosts = Hosts(2, share=sorted(p for p in below if p.startswith("/tmp/")))
        cls.addClassCleanup(cls.hosts.close)
        built = tempfile.TemporaryDirectory(prefix="net-devices.", dir=cls.hosts.directory)
        cls.addClassCleanup(built.cleanup)
        cls.turn = int(os.environ.get("TURN") or turn_of_tree())
        cls.full = os.environ.get("FULL", "0") != "0"
        cls.programs = {}
        for kind in ("programs/*.c*", "mpi/*.c*", "badinput/*.c"):
            for source in sorted(glob.glob(f"{ROOT}/tests/{kind}")):
                program = Program(source)
                if program.takes(4):
                    why = program.compile(built.name)
                    assert not why, f"{program.name} does not compile: {why}"
                    cls.programs[program.name] = program

    def job(self, *program, timeout=120, **settings):
        """Two ranks on each of two hosts."""
        command = [MPIEXEC, "-q", "--launcher", "hydra", "--rsh-agent", self.hosts.rsh, "--host", "h1:2,h2:2", "-n", "4"]
        env = {"PATH": f"{os.path.dirname(HYDRA)}:{os.environ['PATH']}", **settings}
        ran = self.hosts.run("h1", [*command, *program], timeout=timeout, env=env)
        for host in self.hosts.names:
            self.assertEqual(self.hosts.settled(host, 10), [], f"left on {host} after {ran}")
        return ran

    def test_programs(self):
        left_out = [*CORE, *([] if self.full else HEAVY)]
        others = [name for name in self.programs if name not in left_out and not name.startswith("badinput/")]
        self.assertGreater(len(others), 8)
        for place, settings in enumerate(SETTINGS):
            chosen = [name for number, name in enumerate(others) if self.full or (number + self.turn + place) % TURNS == 0]
            for name in [*CORE, *chosen]:
                self.runs(name, self.turn // TURNS, settings)

    def runs(self, name, turn, settings):
        """A program comes to a good end, with one of its arguments or with each."""
        program = self.programs[name]
        for case in program.cases if self.full else [program.cases[turn % len(program.cases)]]:
            with self.subTest(" ".join([name, *case]), turn=self.turn, **settings):
                clock = str(program.timeout - program.timeout // 8)
                ran = self.job(program.path, *case, timeout=program.timeout, CHECK_SECONDS=clock, **settings)
                self.assertEqual(ran.code, 0, ran)

    def test_bad_input(self):
        for settings in (FM, JAM, PORTALS):
            for name in ("badinput/arguments", "badinput/mismatch"):
                self.runs(name, 0, settings)

    def test_encrypted(self):
        ran = self.job(self.programs["mpi/coll_blocking"].path, FARPOST_DEVICE="fm", FARPOST_ENCRYPT="1")
        self.assertEqual(ran.code, 0, ran)

    def test_ranks_that_differ(self):
        script = 'case $(hostname) in h2*) FARPOST_DEVICE=fm; export FARPOST_DEVICE;; esac; exec "$0"'
        ran = self.job("sh", "-c", script, self.programs["mpi/p2p_modes"].path)
        self.assertNotEqual(ran.code, 0, ran)
        self.assertRegex(ran.out + ran.err, r"carries MPI by fm and rank \d by \"?postbox")


if __name__ == "__main__":
    unittest.main()
