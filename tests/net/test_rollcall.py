#!/usr/bin/env python3
"""The roll-call of a job that hangs on several emulated hosts, under the real launchers: one table, from whichever rank it comes; and what
FARPOST_CHECK finds between hosts."""

import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

from hosts import ROOT, Hosts
from launchers import MPIEXEC, PREFIX, all_launchers

LAUNCHERS = [launcher for launcher in all_launchers() if not launcher.missing and launcher.name != "srun-pmix"]
HOSTS, BEFORE = None, {}
TABLES = re.compile(r"^ +rank +host +in ", re.M)


def setUpModule():
    global HOSTS, HANG, WRONG
    directory = tempfile.TemporaryDirectory(prefix="rollcall.", dir=os.path.join(ROOT, "build"))
    unittest.addModuleCleanup(directory.cleanup)
    HANG = os.path.join(directory.name, "hang")
    subprocess.run([f"{PREFIX}/bin/mpicc", "-O1", "-o", HANG, f"{ROOT}/tests/rollcall/hang.c"], check=True)
    WRONG = os.path.join(directory.name, "wrong")
    subprocess.run([f"{PREFIX}/bin/mpicc", "-O1", "-g", "-o", WRONG, f"{ROOT}/tests/check/cases/wrong.c"], check=True)
    HOSTS = Hosts(2, share=[PREFIX, directory.name])
    unittest.addModuleCleanup(HOSTS.close)
    for launcher in LAUNCHERS:
        launcher.prepare(HOSTS)
    BEFORE.update({name: HOSTS.leftovers(name) for name in HOSTS.names})


class RollCall(unittest.TestCase):
    def start(self, launcher, *args, timeout=100, **variables):
        command = [MPIEXEC, "--launcher", launcher.path, "--timeout", str(timeout), "-host", "h1:2,h2:2", "-n", "4", HANG, *args]
        if launcher.name == "srun":
            command = ["salloc", "-Q", "-N", "2", *command]
        return HOSTS.start("h1", command, env={**launcher.environment(HOSTS), **variables})

    def mpiexec(self, launcher, *args, **options):
        result = self.start(launcher, *args, **options).result(120)
        return result.out + result.err

    def each(self, test):
        for launcher in LAUNCHERS:
            with self.subTest(launcher=launcher.name):
                test(launcher)
                for name in HOSTS.names:
                    self.assertEqual(HOSTS.settled(name, 10, ignore=BEFORE[name]), [], f"left on {name}")

    def assertMixed(self, said):
        self.assertEqual(len(TABLES.findall(said)), 1, said)
        for wanted in (r"^.*0 +h1 +MPI_Recv +MPI_COMM_WORLD +message from 1 +7 +4 ", r"1 +h1 +MPI_Barrier +MPI_COMM_WORLD",
                       r"2,3 +h2 +MPI_Bcast +MPI_COMM_WORLD", "0 waits for 1, 1 for 0: deadlock", "collectives differ"):
            self.assertRegex(said, re.compile(wanted, re.M))

    def test_ranks_of_all_hosts_are_in_one_table(self):
        def test(launcher):
            process = self.start(launcher, "mixed", FARPOST_HANG_AFTER="1")
            deadline = time.monotonic() + 60
            while "collectives differ" not in (said := "".join(process.said())) and time.monotonic() < deadline:
                time.sleep(0.1)
            # Others' daemons are on the hosts too: the job alone is ended.
            process.signal(signal.SIGTERM)
            process.result(60)
            self.assertMixed(said)

        self.each(test)

    def test_before_the_job_is_ended(self):
        self.each(lambda launcher: self.assertMixed(self.mpiexec(launcher, "mixed", timeout=8, FARPOST_HANG_AFTER="0")))

    def test_nothing_is_said_while_a_rank_elsewhere_computes(self):
        def test(launcher):
            said = self.mpiexec(launcher, "works", "3000", timeout=60, FARPOST_HANG_AFTER="1")
            self.assertEqual(TABLES.findall(said), [], said)

        self.each(test)

    def test_a_check_hears_of_other_hosts(self):
        launcher = LAUNCHERS[0]
        for case, told in [("function", r"differ: .*MPI_Barrier .*MPI_Bcast|differ: .*MPI_Bcast .*MPI_Barrier"),
                           ("message-types", r"the types of a message differ: rank 0 of MPI_COMM_WORLD sent 2 MPI_INT, 1 MPI_DOUBLE")]:
            with self.subTest(case):
                command = [MPIEXEC, "--launcher", launcher.path, "--timeout", "60", "--check=error", "-host", "h1:1,h2:1", "-n", "2", WRONG, case]
                if launcher.name == "srun":
                    command = ["salloc", "-Q", "-N", "2", *command]
                result = HOSTS.start("h1", command, env=launcher.environment(HOSTS)).result(90)
                self.assertRegex(result.err + result.out, f"check: rank [01]: .*{told}")
                self.assertNotEqual(result.code, 0)


if __name__ == "__main__":
    unittest.main()
