"""Programs of all four interfaces, with several threads, and outside of MPI, on simulated machines: a part of test_sim.py."""

import os
import re
import tempfile
import unittest

from support import WORK, build, sim

# Program, arguments, machine, ranks, ranks on a host: the machine of its interface's paper, and others that can carry it.
PROGRAMS = [
    ("examples/rsm_put", [], "sun-fire-link", 3, 1),
    ("tests/interfaces/rsm_basic", [], "sun-fire-link", 4, 1),
    ("tests/interfaces/rsm_basic", [], "cluster-100g", 2, 1),
    ("tests/interfaces/rsm_aborted", ["withdrawn"], "sun-fire-link", 2, 1),
    ("tests/interfaces/fm_begin", [], "myrinet-fm", 8, 1),
    ("tests/interfaces/fm_messages", [], "myrinet-fm", 2, 1),
    ("tests/interfaces/fm_messages", [], "cluster-100g", 3, 1),
    ("tests/interfaces/fm_bad", [], "cluster-100g", 3, 1),
    ("examples/jam_rpc", [], "startx", 3, 1),
    ("tests/interfaces/jam_all", [], "startx", 2, 1),
    ("tests/interfaces/jam_vi", [], "startx", 3, 1),
    ("tests/interfaces/jam_computing", ["waits"], "startx", 2, 1),
    ("tests/interfaces/portals_data", [], "xt3", 2, 1),
    ("tests/interfaces/portals_codes", [], "xt3", 2, 1),
    ("tests/interfaces/portals_tiny", [], "xt3", 2, 1),
    ("examples/portals_sort", [], "xt3", 8, 1),
    ("tests/interfaces/with_mpi", ["fm-mpi", "mpi-fm"], "myrinet-fm", 3, 1),
]


class Interfaces(unittest.TestCase):
    def test_programs_run_and_run_again_alike(self):
        for name, arguments, machine, ranks, per_host in PROGRAMS:
            with self.subTest(name=name, machine=machine):
                options = ["--machine", machine, "--per-host", per_host, "-n", ranks, "--utilisation", "--registers"]
                runs = [sim(*options, build(name), *arguments) for _ in range(2)]
                for code, out, said in runs:
                    self.assertEqual(code, 0, out + said)
                # To the nanosecond: how long each part of the machine was busy, and the time at the end. Who prints first after the end of an interface is the system's choice.
                time = [re.search(r"farpost sim: (.*) of virtual time", said)[1] for _, _, said in runs]
                lines = [sorted(out.splitlines()) for _, out, _ in runs]
                self.assertEqual((time[0], lines[0]), (time[1], lines[1]))

    def test_a_descriptor_is_readable_when_something_comes(self):
        for _ in range(2):
            code, out, said = sim("--machine", "startx", "--per-host", 1, "-n", 2, build("waits"))
            self.assertEqual((code, out), (0, "came\n"), said)
            # Nobody waited for real time to pass.
            self.assertRegex(said, r"farpost sim: [\d.]+ us of virtual time")
        code, out, said = sim("--patience", "0.3", "--machine", "startx", "--per-host", 1, "-n", 2, build("waits"), "nobody")
        self.assertEqual((code, out), (0, "nothing\n"), said)
        self.assertRegex(said, r"nothing is on its way on the machine, and processes wait outside Farpost, .*: 0\n")

    def test_arrivals_are_told_to_who_does_not_call(self):
        options = ["--patience", "0.3", "--machine", "startx", "--per-host", 1, "-n", 2]
        code, out, said = sim(*options, build("tests/interfaces/jam_arrival"))
        self.assertEqual((code, out), (0, ""), said)
        # Its second part computes until a function that is called has seen everything.
        self.assertIn("process 0 has not called Farpost for 300ms of real time (it computes)", said)


class Threads(unittest.TestCase):
    def test_threads_of_a_process(self):
        for what, machine in [("exchange", "xt3"), ("hand", "sun-fire-link"), ("hand", "myrinet-fm")]:
            with self.subTest(what=what, machine=machine):
                code, out, said = sim("--machine", machine, "--per-host", 1, "-n", 3, build("threads"), what)
                self.assertEqual((code, out), (0, "over\n"), said)

    def test_a_thread_that_waits_when_its_process_leaves_is_told(self):
        code, out, said = sim("--machine", "xt3", "--per-host", 1, "-n", 2, build("leaves"))
        self.assertEqual((code, out), (0, "told\n" * 2), said)

    def test_a_thread_that_computes_is_waited_for(self):
        code, out, said = sim("--machine", "cluster-100g", "-n", 2, build("threads"), "late")
        self.assertEqual((code, out), (0, "over\n"), said)

    def test_a_thread_may_compute_for_longer_than_the_patience(self):
        code, out, said = sim("--machine", "cluster-100g", "--patience", 0.6, "-n", 2, build("threads"), "later")
        self.assertEqual((code, out), (0, "over\n"), said)
        self.assertIn("some have threads that compute", said)

    def test_a_thread_that_sleeps_for_ever_or_ends_is_no_help(self):
        for way in "asleep", "ends":
            code, _, said = sim("--machine", "cluster-100g", "--patience", 0.6, "-n", 2, build("threads"), way)
            self.assertNotEqual(code, 0, said)
            self.assertIn("wait for each other, and nothing is on its way; the first are [0, 1]", said)


class Outside(unittest.TestCase):
    def test_processes_run_freely_before_and_after_mpi(self):
        with tempfile.TemporaryDirectory(dir=WORK.name) as directory:
            code, _, said = sim("--machine", "xt3", "-n", 4, build("outside"), directory, 4)
            self.assertEqual(code, 0, said)
            self.assertEqual(len(os.listdir(directory)), 8)
        # A hundred milliseconds of each process's real time are none of the machine's.
        self.assertRegex(said, r"farpost sim: [\d.]+ us of virtual time")

    def test_addresses_are_the_same_or_a_line_says_that_they_are_not(self):
        runs = [sim("-n", 2, build("addresses")) for _ in range(2)]
        (_, first, said), (_, second, _) = runs
        self.assertEqual([code for code, _, _ in runs], [0, 0], said)
        lines = sorted(first.splitlines())
        self.assertEqual(len(lines), 2, first)
        if "addresses of programs stay random" not in said:
            self.assertEqual(lines, sorted(second.splitlines()))
            self.assertEqual(lines[0], lines[1])

    def test_two_hundred_and_fifty_six_processes(self):
        code, out, said = sim("--machine", "xt3", "-n", 256, build("ring"), 2)
        self.assertEqual(code, 0, said)
        self.assertEqual(out.count("sum 32896,"), 256)
