#!/usr/bin/env python3
"""The roll-call of a job that hangs on several emulated hosts, under the real launchers: one table, from whichever rank it comes."""

import os
import re
import subprocess
import tempfile
import unittest

from hosts import ROOT, Hosts
from launchers import MPIEXEC, PREFIX, all_launchers

LAUNCHERS = [launcher for launcher in all_launchers() if not launcher.missing and launcher.name != "srun-pmix"]
HOSTS = None
TABLES = re.compile(r"^ +rank +host +in ", re.M)


def setUpModule():
    global HOSTS, HANG
    directory = tempfile.TemporaryDirectory(prefix="rollcall.", dir=os.path.join(ROOT, "build"))
    unittest.addModuleCleanup(directory.cleanup)
    HANG = os.path.join(directory.name, "hang")
    subprocess.run([f"{PREFIX}/bin/mpicc", "-O1", "-o", HANG, f"{ROOT}/tests/rollcall/hang.c"], check=True)
    HOSTS = Hosts(2, share=[PREFIX, directory.name])
    unittest.addModuleCleanup(HOSTS.close)
    for launcher in LAUNCHERS:
        launcher.prepare(HOSTS)


class RollCall(unittest.TestCase):
    def mpiexec(self, launcher, *args, timeout, **variables):
        command = [MPIEXEC, "--launcher", launcher.path, "--timeout", str(timeout), "-host", "h1:2,h2:2", "-n", "4", HANG, *args]
        if launcher.name == "srun":
            command = ["salloc", "-Q", "-N", "2", *command]
        process = HOSTS.start("h1", command, env={**launcher.environment(HOSTS), **variables})
        result = process.result(120)
        return result.out + result.err

    def each(self, test):
        for launcher in LAUNCHERS:
            with self.subTest(launcher=launcher.name):
                test(launcher)
                for name in HOSTS.names:
                    HOSTS.settled(name, 10)

    def assertMixed(self, said):
        self.assertEqual(len(TABLES.findall(said)), 1, said)
        for wanted in (r"^.*0 +h1 +MPI_Recv +MPI_COMM_WORLD +message from 1 +7 +4 ", r"1 +h1 +MPI_Barrier +MPI_COMM_WORLD",
                       r"2,3 +h2 +MPI_Bcast +MPI_COMM_WORLD", "0 waits for 1, 1 for 0: deadlock", "collectives differ"):
            self.assertRegex(said, re.compile(wanted, re.M))

    def test_ranks_of_all_hosts_are_in_one_table(self):
        def test(launcher):
            said = self.mpiexec(launcher, "mixed", timeout=20, FARPOST_HANG_AFTER="2")
            self.assertMixed(said.split("did not end within")[0])

        self.each(test)

    def test_before_the_job_is_ended(self):
        # srun's ranks are not below mpiexec, which does not find their memory.
        asked = lambda launcher: self.assertMixed(self.mpiexec(launcher, "mixed", timeout=6, FARPOST_HANG_AFTER="0"))
        self.each(lambda launcher: launcher.name == "srun" or asked(launcher))

    def test_nothing_is_said_while_a_rank_elsewhere_computes(self):
        def test(launcher):
            said = self.mpiexec(launcher, "works", timeout=60, FARPOST_HANG_AFTER="1")
            self.assertEqual(TABLES.findall(said), [], said)

        self.each(test)


if __name__ == "__main__":
    unittest.main()
