#!/usr/bin/env python3
"""mpiexec on several emulated hosts: handed to the real launchers, with shell scripts as ranks."""

import functools
import os
import re
import signal
import subprocess
import time
import unittest

from hosts import Hosts
from launchers import MPIEXEC, PREFIX, all_launchers

# Which plug-in srun talks through is no matter of words.
LAUNCHERS = [launcher for launcher in all_launchers() if not launcher.missing and launcher.name != "srun-pmix"]
RANK = "${PMI_RANK:-${PMIX_RANK:-$SLURM_PROCID}}"
HOSTS = None


def setUpModule():
    global HOSTS
    HOSTS = Hosts(3, share=[PREFIX])
    for launcher in LAUNCHERS:
        launcher.prepare(HOSTS)


def tearDownModule():
    HOSTS.close()


def lines(text):
    return sorted(line for line in text.splitlines() if line)


def each_launcher(*left_out):
    """Run a test with every launcher but these; after each, nothing may be left."""

    def decorate(test):
        @functools.wraps(test)
        def run(self):
            for launcher in LAUNCHERS:
                if launcher.name not in left_out:
                    with self.subTest(launcher=launcher.name):
                        test(self, launcher)
                        self.nothing_left()

        return run

    return decorate


class Jobs(unittest.TestCase):
    def setUp(self):
        self.before = {name: HOSTS.leftovers(name) for name in HOSTS.names}

    def nothing_left(self):
        for name in HOSTS.names:
            self.assertEqual(HOSTS.settled(name, 10, ignore=self.before[name]), [], name)


    def mpiexec(self, launcher, args, start=False, env=None, timeout=40, quiet=("-q",)):
        """mpiexec with this line of options (a list), on h1."""
        command = [MPIEXEC, *quiet, "--launcher", launcher.path, *args]
        if launcher.name == "srun":
            command = ["salloc", "-Q", "-N", str(len(HOSTS.names)), *command]
        env = {**launcher.environment(HOSTS), **(env or {})}
        process = HOSTS.start("h1", command, env=env)
        if start:
            return process
        if process.wait(timeout / 2) is None and launcher.unstick(HOSTS):
            process.close()
            process = HOSTS.start("h1", command, env=env)
        return process.result(timeout)

    @each_launcher()
    def test_ranks_are_where_they_belong(self, launcher):
        say = f"echo {RANK} $(hostname)"
        for options, wanted in (
            (["-n", "4", "-host", "h1,h2"], ["0 h1", "1 h1", "2 h2", "3 h2"]),
            (["-n", "3", "-host", "h3:1,h2:2"], ["0 h3", "1 h2", "2 h2"]),
            (["-ppn", "1", "-host", "h1,h2,h3"], ["0 h1", "1 h2", "2 h3"]),
            (["-n", "4", "--map-by", "node", "-host", "h2:4,h3:4"], ["0 h2", "1 h3", "2 h2", "3 h3"]),
        ):
            ran = self.mpiexec(launcher, [*options, "sh", "-c", say])
            self.assertEqual((ran.code, lines(ran.out)), (0, wanted), f"{options}: {ran}")
        say_who = lambda who: ["sh", "-c", f"echo {who} {RANK} $(hostname)"]
        ran = self.mpiexec(launcher, ["-n", "1", "-host", "h1:2,h2:2", *say_who("a"), ":", "-n", "3", *say_who("b")])
        self.assertEqual((ran.code, lines(ran.out)), (0, ["a 0 h1", "b 1 h1", "b 2 h2", "b 3 h2"]), ran)

    @each_launcher()
    def test_users(self, launcher):
        ran = self.mpiexec(launcher, ["-n", "3", "-host", "root@h1,root@h2:2", "hostname"])
        if launcher.name == "srun":
            self.assertNotEqual(ran.code, 0, ran)
            self.assertIn("mpiexec: host root@h1: srun starts all ranks as the user who has the allocation", ran.err)
        else:
            self.assertEqual((ran.code, lines(ran.out)), (0, ["h1", "h2", "h2"]), ran)

    @each_launcher()
    def test_a_host_file(self, launcher):
        path = os.path.join(HOSTS.directory, "hostfile")
        with open(path, "w", encoding="utf-8") as f:
            f.write("# ours\nh2 slots=2 max_slots=4\nh3:1\n")
        ran = self.mpiexec(launcher, ["-n", "3", "-f", path, "hostname"])
        self.assertEqual((ran.code, lines(ran.out)), (0, ["h2", "h2", "h3"]), ran)

    @each_launcher()
    def test_environment_and_directory(self, launcher):
        say = "echo $A-$B-$FARPOST_SPIN_US-${PMI_X-} $PWD"
        env = {"A": "a a", "FARPOST_SPIN_US": "7", "PMI_X": "outer"}
        options = ["-n", "2", "-host", "h2,h3", "-genv", "B", "it's \"b\"", "-wdir", "/usr"]
        ran = self.mpiexec(launcher, [*options, "sh", "-c", say], env=env)
        self.assertEqual(lines(ran.out), ['a a-it\'s "b"-7- /usr'] * 2, ran)
        two = ["-n", "1", "-host", "h2,h3", "-env", "B", "1 1", "sh", "-c", say, ":", "-n", "1", "-wdir", "/usr", "sh", "-c", say]
        ran = self.mpiexec(launcher, two, env=env)
        self.assertEqual(lines(ran.out), ["a a--7- /usr", f"a a-1 1-7- {os.getcwd()}"], ran)

    # Adds lines of its own.
    @each_launcher("srun")
    def test_one_line_says_who_does_it(self, launcher):
        ran = self.mpiexec(launcher, ["-n", "2", "-host", "h1,h2", "true"], quiet=())
        said = [line for line in ran.err.splitlines() if line.startswith("mpiexec: ")]
        self.assertEqual(len(said), 1, ran)
        self.assertIn(f"2 ranks on h1 h2, started by {launcher.path}", said[0])

    @each_launcher()
    def test_labels_and_files(self, launcher):
        marks = {"hydra": "[1] x", "prterun": "[1,1]<stdout>: x", "srun": "1: x"}
        ran = self.mpiexec(launcher, ["-n", "2", "-host", "h2,h3", "-l", "echo", "x"])
        self.assertIn(marks[launcher.name], lines(ran.out), ran)
        top = os.path.join(HOSTS.directory, f"out.{launcher.name}")
        script = f"echo out {RANK}; echo err {RANK} >&2"
        ran = self.mpiexec(launcher, ["-n", "2", "-host", "h2,h3", "--output-filename", top, "sh", "-c", script])
        self.assertEqual((ran.code, ran.out), (0, ""), ran)
        for rank in range(2):
            for stream, text in (("stdout", "out"), ("stderr", "err")):
                with open(f"{top}/rank.{rank}/{stream}", encoding="utf-8") as f:
                    self.assertEqual(f.read(), f"{text} {rank}\n")

    @each_launcher()
    def test_exit_codes(self, launcher):
        self.assertEqual(self.mpiexec(launcher, ["-n", "1", "-host", "h2", "sh", "-c", "exit 7"]).code, 7)
        ran = self.mpiexec(launcher, ["-n", "2", "-host", "h1,h2", "sh", "-c", "exit 7"])
        # The rank that srun ends because of the other may be quicker or slower than its own exit; the largest code counts (docs/hosts.md).
        self.assertIn(ran.code, (7, 128 + signal.SIGTERM) if launcher.name == "srun" else (7,), ran)
        script = f"[ {RANK} = 1 ] && kill -9 $$; sleep 1000"
        ran = self.mpiexec(launcher, ["-n", "2", "-host", "h1,h2", "sh", "-c", script])
        self.assertNotEqual(ran.code, 0, ran)
        self.assertNotEqual(self.mpiexec(launcher, ["-n", "1", "-host", "h2", "/nonexistent/x"]).code, 0)

    @each_launcher()
    def test_a_time_limit(self, launcher):
        ran = self.mpiexec(launcher, ["-n", "2", "-host", "h1,h2", "--timeout", "1", "sleep", "1000"])
        self.assertEqual(ran.code, 124, ran)
        self.assertIn("did not end within 1 s", ran.err)

    def sleeping(self, launcher):
        process = self.mpiexec(launcher, ["-n", "2", "-host", "h1,h2", "sleep", "12345"], start=True)
        is_rank = lambda line: re.fullmatch(r"(\S*/)?sleep 12345", line)
        deadline = time.monotonic() + 30
        while not all(any(is_rank(p[3]) for p in HOSTS.processes(name)) for name in ("h1", "h2")):
            self.assertLess(time.monotonic(), deadline, process.said())
            time.sleep(0.02)
        return process

    def ours(self, name):
        """Pids on h1 of processes by this name."""
        return [p[0] for p in HOSTS.processes("h1") if os.path.basename(p[3].split()[0]) == name]

    # A single interrupt only makes it tell.
    @each_launcher("srun")
    def test_signals_end_everything(self, launcher):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.sleeping(launcher) as process:
                HOSTS.run("h1", ["kill", f"-{int(number)}", str(self.ours("mpiexec")[0])], check=True)
                self.assertNotIn(process.wait(30), (None, 0), f"{number}: {process.said()}")

    @each_launcher()
    def test_killing_mpiexec_ends_everything(self, launcher):
        with self.sleeping(launcher) as process:
            HOSTS.run("h1", ["kill", "-9", str(min(self.ours("mpiexec")))], check=True)
            self.assertIsNotNone(process.wait(30), process.said())

    # Slurm's own business: its daemons keep the step.
    @each_launcher("srun")
    def test_killing_the_launcher_ends_everything(self, launcher):
        with self.sleeping(launcher) as process:
            HOSTS.run("h1", ["kill", "-9", str(min(self.ours(os.path.basename(launcher.path))))], check=True)
            ran = process.result(30)
            self.assertEqual(ran.code, 137, ran)
            self.assertIn("was killed by signal 9", ran.err)
            # Killed like this, PRRTE cannot remove what it made for itself.
            HOSTS.run("h1", ["sh", "-c", "rm -rf /tmp/prtrn.*"])

    def test_bad_input_is_one_line(self):
        rubbish = os.path.join(HOSTS.directory, "rubbish")
        with open(rubbish, "w", encoding="utf-8") as f:
            f.write("h1\nh2 slots=many\n")
        none = {"PATH": "/nonexistent"}
        cases = [
            (["-n", "2", "-host", "h1,nosuchhost", "true"], "nosuchhost", {}),
            (["-f", rubbish, "true"], "rubbish:2", {}),
            (["-f", "/nonexistent", "true"], "/nonexistent", {}),
            (["-host", "h1:0,h2", "true"], "slots", {}),
            (["--launcher", "moon", "-host", "h2", "true"], "moon", {}),
            (["--launcher", "hydra", "-host", "h2", "/bin/true"], "no mpiexec.hydra on PATH", none),
            (["-host", "h2", "/bin/true"], "install PRRTE", none),
            (["-host", "h1,h2", "surely-not-there"], "surely-not-there", {}),
        ]
        launcher = next(iter([one for one in LAUNCHERS if one.name != "srun"]), None)
        for args, words, env in cases:
            with self.subTest(args=args):
                chosen = [] if "--launcher" in args or env else ["--launcher", launcher.path] if launcher else []
                ran = HOSTS.run("h1", [MPIEXEC, *chosen, *args], env={"FARPOST_RSH": HOSTS.rsh, **env}, timeout=30)
                self.assertNotEqual(ran.code, 0)
                self.assertEqual((ran.out, len(ran.err.splitlines())), ("", 1), ran)
                self.assertIn(words, ran.err)
                self.nothing_left()

    def test_this_host_needs_no_launcher(self):
        for names in ("h1", "localhost", "10.77.0.1", "h1,localhost:3"):
            ran = HOSTS.run("h1", [MPIEXEC, "-n", "2", "-host", names, "sh", "-c", "echo $FARPOST_RANK"], env={"PATH": "/usr/bin:/bin"})
            self.assertEqual((ran.code, lines(ran.out), ran.err), (0, ["0", "1"], ""), names)

    @each_launcher("srun")
    def test_a_host_that_does_not_answer(self, launcher):
        # A name that is known and a remote shell that gives up.
        env = {"FARPOST_RSH": "/bin/false"}
        ran = self.mpiexec(launcher, ["-n", "2", "-host", "h2,h3", "true"], env=env)
        self.assertNotEqual(ran.code, 0, ran)


class Packed(unittest.TestCase):
    def test_the_binary_under_test_is_there(self):
        self.assertEqual(subprocess.run([MPIEXEC, "--version"], capture_output=True, check=False).returncode, 0)


if __name__ == "__main__":
    unittest.main()
