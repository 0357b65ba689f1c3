#!/usr/bin/env python3
"""A rank that is killed while others wait for it, under the real launchers where they are told to let the others go on: those of its own host
and of another one hear of it. What becomes of a job by a launcher's default is faults.py's matter."""

import os
import re
import subprocess
import tempfile
import unittest

from hosts import ROOT, Hosts
from launchers import PREFIX, all_launchers

LAUNCHERS = [launcher for launcher in all_launchers() if not launcher.missing and launcher.name != "srun-pmix"]
RANKS = {"h1": 2, "h2": 1}
# How each is told to let the others go on.
GO_ON = {
    "hydra": ["-disable-auto-cleanup"],
    "prterun": ["--runtime-options", "recoverable"],
    "srun": ["--kill-on-bad-exit=0"],
}
# Ranks 1 and 2 have had nothing to do with each other before the first.
STAGES = [("recv", "MPI_Recv"), ("barrier", "MPI_Barrier")]
HOSTS = None


def setUpModule():
    global HOSTS, DEATHS
    directory = tempfile.TemporaryDirectory(prefix="deaths.", dir=os.path.join(ROOT, "build"))
    unittest.addModuleCleanup(directory.cleanup)
    DEATHS = os.path.join(directory.name, "deaths")
    subprocess.run([f"{PREFIX}/bin/mpicc", "-O1", "-o", DEATHS, f"{ROOT}/tests/stress/cases/deaths.c", "-lpthread"], check=True)
    HOSTS = Hosts(2, share=[PREFIX, directory.name])
    unittest.addModuleCleanup(HOSTS.close)


class Deaths(unittest.TestCase):
    def killed(self, launcher, stage):
        """What is said when rank 1 is killed there."""
        # Hydra sends SIGUSR1 to those that go on, which ends a program that does not expect it, and ends those of a host where its own child
        # is gone: here that is a shell.
        heard = f"{DEATHS}.{launcher.name}.{stage}"
        program = ["sh", "-c", f"trap '' USR1; {DEATHS} {stage} kill 1 0 2>>{heard}; true"]
        command = launcher.direct(HOSTS, RANKS, program)
        at = command.index(launcher.path if launcher.path in command else "srun") + 1
        command[at:at] = GO_ON[launcher.name]
        result, _ = launcher.run(HOSTS, command, 60, env=launcher.environment(HOSTS))
        with open(heard, encoding="utf-8") as file:
            return file.read() + result.err

    def test_all_others_hear_which_rank_it_was_and_where(self):
        for launcher in LAUNCHERS:
            launcher.prepare(HOSTS)
            self.addCleanup(launcher.finish)
            before = {name: HOSTS.leftovers(name) for name in HOSTS.names}
            for stage, function in STAGES:
                # PRRTE does not answer when it is asked where a rank listens that has ended; that is waited for as long as it may take.
                if launcher.name == "prterun" and stage == "recv":
                    continue
                with self.subTest(launcher=launcher.name, stage=stage):
                    said = self.killed(launcher, stage)
                    for rank in (0, 2):
                        told = rf"rank {rank}: MPI_ERR_PROC_ABORTED: {function}: ((rank|process) \d .*host h1)"
                        self.assertRegex(said, re.compile(told), said)
                    self.assertIn("rank 1 on host h1 ", said)
                    if not launcher.stays:
                        for name in HOSTS.names:
                            self.assertEqual(HOSTS.settled(name, 10, ignore=before[name]), [], f"left on {name}")
            launcher.sweep(HOSTS)


if __name__ == "__main__":
    unittest.main()
