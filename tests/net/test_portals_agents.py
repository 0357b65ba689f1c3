#!/usr/bin/env python3
"""Portals by way of agents, between emulated hosts: the interface's programs with each kind of client, kinds mixed in one job, the
launchers that jobs are handed to, and what becomes of everybody when a client, an agent or mpiexec is killed."""

import os
import signal
import subprocess
import time
import unittest

from hosts import ROOT, Hosts
from launchers import peers
from test_bad_input import HYDRA, MPIEXEC, PREFIX

PROGRAMS = ("portals_data", "portals_recipes", "portals_computes", "examples/portals_store", "examples/portals_halo", "portals_both", "portals_pids")
KINDS = ("generic", "accelerated")
# Everything with every kind; else each program and scene has its turn with one.
FULL = os.environ.get("FULL", "0") != "0"
LAYOUT = "h1:2,h2:2"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


@unittest.skipUnless(HYDRA, "no launcher for several hosts: mpiexec.hydra could not be had")
class Agents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        below = {os.path.dirname(os.path.dirname(os.path.realpath(p))) for p in (MPIEXEC, HYDRA)}
        cls.hosts = Hosts(2, share=sorted(p for p in below if p.startswith("/tmp/")))
        cls.addClassCleanup(cls.hosts.close)
        env = {**os.environ, "PKG_CONFIG_PATH": f"{PREFIX}/lib/pkgconfig"}
        flags = subprocess.run(
            ["pkg-config", "--cflags", "--libs", "farpost-portals3"], check=True, capture_output=True, text=True, env=env
        ).stdout.split()
        for name in (*PROGRAMS, "agents/ends"):
            folder = ROOT if name.startswith("examples/") else f"{ROOT}/tests/interfaces"
            command = ["cc", "-std=c99", "-D_GNU_SOURCE", "-O1", "-g", f"{folder}/{name}.c", "-o", cls.program(name)]
            subprocess.run([*command, *flags, f"-Wl,-rpath,{PREFIX}/lib", "-lm", "-lpthread"], check=True)

    @classmethod
    def program(cls, name):
        return f"{cls.hosts.directory}/{os.path.basename(name)}"

    def mpiexec(self, launcher="hydra", quiet=True):
        return [MPIEXEC, *(["-q"] if quiet else []), "--launcher", launcher, "--rsh-agent", self.hosts.rsh, "--host", LAYOUT]

    def env(self, **settings):
        return {"PATH": f"{os.path.dirname(HYDRA)}:{os.environ['PATH']}", "FARPOST_FABRIC": "tcp", **settings}

    def nothing_left(self, after):
        for host in self.hosts.names:
            self.assertEqual(self.hosts.settled(host, 10), [], f"left on {host} after {after}")

    def job(self, command, launcher="hydra", **settings):
        ran = self.hosts.run("h1", [*self.mpiexec(launcher), *command], timeout=60, env=self.env(**settings))
        self.assertEqual(ran.code, 0, ran)
        self.nothing_left(ran)
        return ran

    def test_programs(self):
        for number, name in enumerate(PROGRAMS):
            for kind in KINDS if FULL else (KINDS[number % 2],):
                with self.subTest(name, kind=kind):
                    self.job(["-n", "4", self.program(name)], FARPOST_PORTALS=kind)

    def test_mixed(self):
        """Kinds by rank: both hosts have an agent, and on each there is who does without."""
        ranks = ("accelerated", "inline", "generic", "inline")
        for name in PROGRAMS if FULL else ("portals_data", "examples/portals_store"):
            with self.subTest(name):
                each = [["-n", "1", "-env", "FARPOST_PORTALS", kind, self.program(name)] for kind in ranks]
                command = [word for part in each for word in (":", *part)][1:]
                self.job(command)

    def prterun(self):
        path = os.path.join(peers().get("openmpi", ""), "bin", "prterun")
        if not os.path.exists(path):
            self.skipTest("prterun could not be had")
        return path

    def test_prterun(self):
        self.job(["-n", "4", self.program("examples/portals_halo")], self.prterun(), FARPOST_PORTALS="accelerated")

    def ending(self, victim, launcher="hydra", kind="generic"):
        """Start a job, kill one of its processes on h2, by name, once all are at work; the result, and all that its processes
        said. No victim: kill mpiexec."""
        # Hydra breaks down when it is to go on without a process.
        options = [] if launcher == "hydra" else ["--on-failure", "continue"]
        words = os.path.join(self.hosts.directory, "words")
        with open(words, "w", encoding="utf-8"):
            pass
        command = [*self.mpiexec(launcher, quiet=False), *options, "-n", "4", self.program("agents/ends"), words]
        with self.hosts.start("h1", command, env=self.env(FARPOST_PORTALS=kind)) as job:
            deadline = time.monotonic() + 40
            while read(words).count("at work") < 4:
                self.assertLess(time.monotonic(), deadline, (job.said(), read(words)))
                time.sleep(0.05)
            if victim is None:
                job.signal(signal.SIGKILL)
            else:
                self.hosts.run("h2", ["sh", "-c", f"kill -9 $(pgrep -x '{victim}' | head -n 1)"], check=True)
            ran = job.result(40)
        self.nothing_left(ran)
        return ran, read(words)

    def test_a_process_is_killed_and_the_job_ends(self):
        for victim in ("ends", "farpost"):
            with self.subTest(victim):
                self.assertNotEqual(self.ending(victim)[0].code, 0)

    def test_a_client_is_killed_and_the_others_go_on(self):
        for kind in KINDS if FULL else KINDS[:1]:
            with self.subTest(kind):
                ran, words = self.ending("ends", self.prterun(), kind)
                self.assertEqual(words.count("without"), 3, (ran, words))

    def test_an_agent_is_killed_and_its_clients_are_told(self):
        for kind in KINDS if FULL else KINDS[1:]:
            with self.subTest(kind):
                ran, words = self.ending("farpost", self.prterun(), kind)
                self.assertEqual(words.count("my agent has ended"), 2, (ran, words))
                self.assertEqual(words.count("went on"), 4, (ran, words))

    def test_mpiexec_is_killed(self):
        self.ending(None)


if __name__ == "__main__":
    unittest.main()
