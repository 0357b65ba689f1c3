#!/usr/bin/env python3
"""What mpiexec, `farpost top --waits` and ranks under another launcher say about jobs that hang, or are ended while ranks wait.

    PREFIX=install-tree tests/rollcall/test_rollcall.py [-v] [NAME...]

Nothing here depends on how fast anything is: what is waited for comes in the end, and what is asserted is what it says. HYDRA names
MPICH's mpiexec.hydra; without it the tests of other launchers are skipped.
"""

import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PREFIX = os.path.abspath(os.environ["PREFIX"])
MPIEXEC = os.path.join(PREFIX, "bin", "mpiexec")
FARPOST = os.path.join(PREFIX, "bin", "farpost")
HYDRA = os.environ.get("HYDRA")
# Far longer than anything takes; a test that runs into it has failed.
PATIENCE = 60
STUCK = "no rank has made progress for"
AT_END = "what the ranks were waiting for:"


def setUpModule():
    global HANG, BESIDE
    directory = tempfile.TemporaryDirectory(prefix="farpost-rollcall.")
    unittest.addModuleCleanup(directory.cleanup)
    HANG = os.path.join(directory.name, "hang")
    subprocess.run([f"{PREFIX}/bin/mpicc", "-O1", "-o", HANG, f"{HERE}/hang.c"], check=True)
    BESIDE = os.path.join(directory.name, "beside")
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "farpost-fm", "farpost-jam", "farpost-rsm", "farpost-portals3"],
        env={**os.environ, "PKG_CONFIG_PATH": f"{PREFIX}/lib/pkgconfig"}, stdout=subprocess.PIPE, text=True, check=True)
    subprocess.run(["cc", "-O1", "-o", BESIDE, f"{HERE}/beside.c", *flags.stdout.split()], check=True)


def environment(**variables):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FARPOST_")}
    return {**clean, **variables}


class Job:
    """A job whose standard error is read while it runs."""

    def __init__(self, *args, ranks=3, program=None, options=(), hang_after=0, launcher=None, **variables):
        command = [launcher or MPIEXEC, *options, "-n", str(ranks), program or HANG, *args]
        variables = environment(FARPOST_HANG_AFTER=str(hang_after), **variables)
        self.file = tempfile.NamedTemporaryFile("w+")
        self.process = subprocess.Popen(command, env=variables, stdin=subprocess.DEVNULL, stderr=self.file)

    @property
    def said(self):
        with open(self.file.name, encoding="utf-8") as file:
            return file.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.file.close()

    def until(self, pattern):
        """Read until this was said; all that was."""
        deadline = time.monotonic() + PATIENCE
        while not re.search(pattern, said := self.said, re.M):
            if time.monotonic() > deadline:
                raise AssertionError(f"nobody said {pattern!r}: {said}")
            time.sleep(0.02)
        return said

    def end(self):
        """Its exit code, and all that was said."""
        return self.process.wait(timeout=PATIENCE), self.said

    def waits(self, *args):
        """What `farpost top --waits` says of it."""
        return subprocess.run([FARPOST, "top", str(self.process.pid), "--waits", *args], stdout=subprocess.PIPE, text=True).stdout

    def until_waits(self, pattern):
        deadline = time.monotonic() + PATIENCE
        while not re.search(pattern, text := self.waits(), re.M):
            if time.monotonic() > deadline:
                raise AssertionError(f"{pattern!r} is not in {text}")
            time.sleep(0.05)
        return text


def row(*cells):
    """A row of the table that begins with these cells."""
    return r"^  " + r" +".join(re.escape(cell) if cell is not ANY else r"\S+" for cell in cells)


ANY = object()


# Said once all three ranks of "mixed" wait.
ALL_MIXED = r"0 \(in MPI_Recv\) is missing from MPI_Barrier and MPI_Bcast"


class Table(unittest.TestCase):
    def assertTold(self, text, *patterns):
        for pattern in patterns:
            self.assertRegex(text, re.compile(pattern, re.M))
        for line in text.splitlines():
            self.assertLessEqual(len(line), 120, text)

    MIXED = (
        row("0", ANY, "MPI_Recv", "MPI_COMM_WORLD", "message from 1", "7", "4"),
        row("1", ANY, "MPI_Barrier", "MPI_COMM_WORLD"),
        row("2", ANY, "MPI_Bcast", "MPI_COMM_WORLD", "0"),
        r"0 waits for 1, 1 for 0: deadlock",
        r"1 in MPI_Barrier, 2 in MPI_Bcast on MPI_COMM_WORLD: collectives differ",
        r"0 \(in MPI_Recv\) is missing from MPI_Barrier and MPI_Bcast on MPI_COMM_WORLD",
    )


class Mpiexec(Table):
    def test_a_job_that_hangs_says_why_once_and_goes_on(self):
        with Job("mixed", hang_after=1) as job:
            self.assertTold(job.until("is missing from"), STUCK, *self.MIXED)
            job.process.send_signal(signal.SIGINT)
            code, said = job.end()
        self.assertEqual(code, 130)
        self.assertEqual(said.count("MPI_Recv     "), 1, said)
        self.assertIn("no rank has made progress since the table above", said)

    def test_ctrl_c(self):
        with Job("mixed") as job:
            job.until_waits(ALL_MIXED)
            job.process.send_signal(signal.SIGINT)
            code, said = job.end()
        self.assertEqual(code, 130)
        self.assertTold(said, AT_END, *self.MIXED)
        self.assertNotIn(STUCK, said)

    def test_sigterm(self):
        with Job("ring", ranks=2) as job:
            job.until_waits("deadlock")
            job.process.send_signal(signal.SIGTERM)
            code, said = job.end()
        self.assertEqual(code, 143)
        self.assertTold(said, AT_END, r"0 waits for 1, 1 for 0: deadlock")

    def test_timeout(self):
        with Job("mixed", options=["--timeout", "3"]) as job:
            code, said = job.end()
        self.assertEqual(code, 124)
        self.assertTold(said, AT_END, *self.MIXED)

    def test_quiet_mpiexec_says_nothing_at_the_end(self):
        with Job("mixed", options=["-q", "--timeout", "2"]) as job:
            self.assertNotIn("MPI_Recv", job.end()[1])

    def test_a_rank_that_fails_while_others_wait(self):
        with Job("fails") as job:
            code, said = job.end()
        self.assertEqual(code, 134)
        self.assertTold(said, "rank 2 on host", AT_END, row("0", ANY, "MPI_Recv"), r"2 \(ended by signal 6\) is missing")

    def test_nothing_is_said_when_nobody_waits(self):
        with Job("at once", hang_after=1) as job:
            code, said = job.end()
        self.assertEqual((code, len(said.splitlines())), (134, 1), said)

    def test_rings_of_sends(self):
        for ranks, cycle in [(2, "0 waits for 1, 1 for 0: deadlock"), (3, "0 waits for 1, 1 for 2, 2 for 0: deadlock")]:
            with Job("ring", ranks=ranks, hang_after=1) as job:
                self.assertTold(job.until("deadlock"), cycle, row("0", ANY, "MPI_Send", "MPI_COMM_WORLD", "receive by 1", "3", "1048576"))

    def test_a_send_that_waits_for_buffer_space(self):
        for device in ["postbox", "fm", "jam"]:
            with self.subTest(device), Job("space", ranks=2, hang_after=1, FARPOST_UNEXPECTED_BYTES="4096", FARPOST_DEVICE=device) as job:
                self.assertTold(
                    job.until("deadlock"), STUCK,
                    row("0", ANY, "MPI_Send", "MPI_COMM_WORLD", "buffer space at 1", "6", "1000"),
                    row("1", ANY, "MPI_Recv", "MPI_COMM_WORLD", "message from 0", "7", "4"),
                    r"unmatched here: \d+ messages from 0, tag 6, 1000 bytes: right source, other tag",
                    "0 waits for 1, 1 for 0: deadlock")

    def test_messages_that_nearly_fit(self):
        with Job("near", hang_after=1) as job:
            self.assertTold(
                job.until("is missing from"),
                "unmatched here: 3 messages from 1, tag 8, 4 bytes: right source, other tag",
                "unmatched here: a message from 1, tag 7, 8 bytes: right source and tag, but on the other half",
                row("1,2", ANY, "MPI_Barrier", "the other half", "0"))

    def test_a_rank_that_computes_is_not_stuck_and_is_named_when_asked(self):
        with Job("computes", ranks=8, hang_after=1) as job:
            text = job.until_waits("0-6")
            self.assertTold(text, row("0-6", ANY, "MPI_Allreduce", "team", "7 (computes)"), row("7", ANY, "(computes)"),
                            r"7 \(computes\) is missing from MPI_Allreduce on team")
            code, said = job.end()
        self.assertEqual((code, said), (0, ""))

    def test_who_looks_now_and_then_while_it_computes_is_not_stuck(self):
        with Job("works", hang_after=1) as job:
            self.assertEqual(job.end(), (0, ""))

    def test_polls_that_find_nothing(self):
        for how, function in [("poll", "MPI_Test"), ("nap", "MPI_Test"), ("probe", "MPI_Iprobe")]:
            with self.subTest(how), Job(how, ranks=2, hang_after=1) as job:
                self.assertTold(job.until(STUCK + r"[^$]*\n.*\n.*polls in"), f"polls in {function}")

    def test_many_requests(self):
        with Job("many", hang_after=1) as job:
            self.assertTold(job.until("deadlock"), row("0", ANY, "MPI_Waitall"), row("1", ANY, "MPI_Waitany", "MPI_COMM_WORLD", "any of: message from 2"), "and 3 more")

    def test_a_signal_asks_and_is_not_passed_on(self):
        with Job("mixed", options=["--waits-signal", "SIGUSR1"]) as job:
            job.until_waits(ALL_MIXED)
            job.process.send_signal(signal.SIGUSR1)
            self.assertTold(job.until("is missing from"), "what the ranks wait for:", *self.MIXED)
            self.assertIsNone(job.process.poll())
            job.process.send_signal(signal.SIGUSR2)
            self.assertEqual(job.end()[0], 128 + signal.SIGUSR2)

    def test_top_as_json(self):
        import json
        with Job("mixed") as job:
            job.until_waits(ALL_MIXED)
            ranks = json.loads(job.waits("--json"))["ranks"]
        self.assertEqual(ranks[0]["function"], "MPI_Recv")
        self.assertEqual((ranks[0]["waits_for"][0]["rank"], ranks[0]["waits_for"][0]["tag"]), (1, 7))


class Interfaces(Table):
    def test_waits_and_polls_of_the_other_interfaces(self):
        for how, wanted in [("fm", "polls in FM_extract"), ("fm_send", "FM_send"), ("fm_begin", " in handler 9"), ("jam", "polls in JAM_poll"), ("rsm", "rsm_intr_signal_wait"),
                            ("portals", "PtlEQWait"), ("poll", "PtlEQPoll"), ("fence", "PtlJobFence")]:
            with self.subTest(how), Job(how, ranks=2, program=BESIDE, hang_after=1) as job:
                self.assertTold(job.until(re.escape(wanted)), STUCK)


class Hydra(Table):
    @unittest.skipUnless(HYDRA, "HYDRA names no mpiexec.hydra")
    def test_the_ranks_say_it_themselves(self):
        with Job("mixed", hang_after=1, launcher=HYDRA) as job:
            said = job.until("is missing from")
            self.assertTold(said, "farpost: " + STUCK, *self.MIXED)
            job.process.send_signal(signal.SIGINT)
            self.assertEqual(job.end()[1].count("deadlock"), 1)


if __name__ == "__main__":
    unittest.main()
