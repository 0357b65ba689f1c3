"""All ranks of a program in one process, on simulated machines: a part of test_sim.py."""

import os
import re
import subprocess
import sys
import unittest

from support import FARPOST, HERE, PREFIX, WORK, build, sim

MACHINES = ["sun-fire-link", "myrinet-fm", "startx", "xt3", "cluster-100g"]


class OneProcess(unittest.TestCase):
    """Ranks of one process are as processes are."""

    def both(self, *arguments, code=0, **variables):
        """What it gives both ways, which must be the same: the output by lines."""
        ways = []
        for way in ([], ["--one-process"]):
            got, out, said = sim("-q", *way, *arguments, **variables)
            self.assertEqual(got, code, f"{way} {arguments}: {out}{said}")
            ways.append(sorted(out.splitlines()))
        self.assertEqual(*ways)
        return ways[0]

    def test_times_and_output_are_those_of_processes(self):
        for machine in MACHINES:
            with self.subTest(machine=machine):
                options = ["--machine", machine, "--per-host", 1, "-n", 3]
                lines = self.both(*options, build("own"))
                self.assertEqual(len(lines), 9)
                self.assertRegex(lines[2], r"^rank 0 of 3: \d+ \d+, \d+\.\d+ us$")
                self.assertEqual(lines[1], "rank 0 ends: 1 0 kept by 0")
                self.assertEqual(len(self.both(*options, build("ring"), 5)), 3)

    def test_ranks_of_a_host(self):
        self.both("--machine", "startx", "--per-host", 2, "-n", 6, build("own"))

    def test_arguments_are_a_ranks_own(self):
        self.assertEqual(len(self.both("-n", 3, build("own"), "words")), 9)

    def test_traces_and_reports_are_the_same(self):
        traces, prints = [], []
        for way in ([], ["--one-process"]):
            trace = os.path.join(WORK.name, f"one{len(way)}.json")
            code, out, said = sim("-q", *way, "--machine", "startx", "-n", 4, "--trace", trace, "--explain", build("ring"), 4)
            self.assertEqual(code, 0, said)
            with open(trace, "rb") as file:
                traces.append(file.read())
            prints.append(sorted(out.splitlines()))
        self.assertEqual(traces[0], traces[1])
        self.assertEqual(prints[0], prints[1])

    def test_the_other_interfaces(self):
        for name, machine in [
            ("fm_messages", "myrinet-fm"),
            ("jam_all", "startx"),
            ("rsm_basic", "sun-fire-link"),
            ("portals_data", "xt3"),
            ("portals_tiny", "xt3"),
        ]:
            with self.subTest(program=name):
                program = build("tests/interfaces/" + name)
                times = []
                for way in ([], ["--one-process"]):
                    code, out, said = sim(*way, "--machine", machine, "--per-host", 1, "-n", 2, program)
                    self.assertEqual((code, out), (0, ""), said)
                    times.append(re.search(r"farpost sim: ([\d.]+ [mun]?s) of virtual time", said)[1])
                self.assertEqual(times[0], times[1])

    def test_clocks_of_the_program(self):
        lines = self.both("--virtual-clock", "-n", 2, build("clocks"))
        self.assertEqual(len(lines), 2)

    def test_executables_at_a_fixed_address(self):
        program = os.path.join(WORK.name, "fixed")
        source = os.path.join(HERE, "own.c")
        subprocess.run([os.path.join(PREFIX, "bin", "mpicc"), "-O1", "-no-pie", source, "-o", program], check=True)
        self.both("-n", 3, program)

    def test_hundreds_of_ranks(self):
        code, out, said = sim("--one-process", "--machine", "xt3", "-n", 200, build("ring"), 2)
        self.assertEqual(code, 0, said)
        self.assertEqual(out.count("sum 20100"), 200)

    def test_ends(self):
        for what, code, words in [
            ("exits", 5, "rank 1 exited with code 5 without MPI_Finalize"),
            ("aborts", 9, "rank 1 aborted with code 9"),
            ("crashes", -11, "rank 1 killed by signal 11, and all ranks with it"),
            ("forks", 1, "rank 1 calls fork, which ranks in one process cannot: run it without --one-process"),
            ("starts", 1, "rank 1 starts a thread, which ranks in one process cannot"),
            ("fails", 4, "rank 1 exited with code 4"),
        ]:
            with self.subTest(what=what):
                got, _, said = sim("-q", "--one-process", "--machine", "xt3", "-n", 3, build("own"), what)
                self.assertEqual(got, code, said)
                self.assertIn(words, said)

    def test_programs_that_open_the_library_themselves_are_refused(self):
        code, _, said = sim("--one-process", "-n", 2, FARPOST, "bench", "pingpong", "--sizes", 8)
        self.assertEqual(code, 1, said)
        self.assertIn("opens Farpost's library while it runs (dlopen), which ranks in one process cannot: run it without --one-process", said)

    def test_ranks_that_wait_for_each_other_are_told(self):
        code, out, said = sim("--one-process", "-n", 2, build("trouble"), "waits")
        self.assertEqual((code, out), (1, ""), said)
        self.assertRegex(said, r"farpost sim: from [\d.]+ \w+ of virtual time on 2 ranks wait for each other")
        self.assertRegex(said, r"0 waits for 1, 1 for 0: deadlock")

    def test_programs_that_poll_for_what_never_comes_are_told_and_run_on(self):
        code, out, said = sim("--one-process", "-n", 3, build("trouble"), "polls", 40000, "all")
        self.assertEqual((code, out), (0, "over\n"), said)
        self.assertRegex(said, r"only looked for what has not come, \d+ times, and nothing is on its way: processes 0, 1, 2 repeat MPI_Iprobe; they run on")

    def test_polls_of_the_other_interfaces_are_told(self):
        for interface, machine, function in [("fm", "myrinet-fm", "FM_extract"), ("jam", "startx", "JAM_poll"), ("portals", "xt3", "PtlEQGet")]:
            with self.subTest(interface=interface):
                code, out, said = sim("--one-process", "--machine", machine, "--per-host", 1, "-n", 2, build("polls"), interface, 110000)
                self.assertEqual((code, out), (0, ""), said)
                self.assertRegex(said, rf"only looked for what has not come, \d+ times, and nothing is on its way: process 0 repeats {function}; ")

    def test_what_does_not_join(self):
        code, out, said = sim("-q", "--one-process", "-n", 3, "echo", "hello")
        self.assertEqual((code, out, said), (0, "hello\n" * 3, ""))
        code, _, said = sim("-q", "--one-process", "-n", 3, build("own"), "stays")
        self.assertEqual(code, 1)
        self.assertIn("rank 1 has ended without joining the job, for which the others would wait for ever", said)

    def test_what_cannot_run_is_told_in_one_line(self):
        static = os.path.join(WORK.name, "static")
        source = os.path.join(WORK.name, "static.c")
        with open(source, "w") as file:
            file.write("int main(void) { return 0; }\n")
        subprocess.run(["cc", "-static", source, "-o", static], check=True)
        script = os.path.join(WORK.name, "script")
        with open(script, "w") as file:
            file.write("#!/bin/sh\n")
        os.chmod(script, 0o755)
        for program, words in [
            (static, "is linked statically: run it without --one-process"),
            (script, "is no executable of this machine"),
            (sys.executable, "is Python"),
            ("/nowhere/program", "no such program"),
        ]:
            with self.subTest(program=program):
                code, out, said = sim("--one-process", "-n", 2, program)
                self.assertEqual((code, out), (1, ""), said)
                self.assertIn(words, said)
                self.assertEqual(len(said.strip().splitlines()), 1, said)

    def test_what_the_c_library_and_the_processor_keep(self):
        lines = self.both("--machine", "xt3", "-n", 3, build("keeps"), "-a", "-bc", "rest")
        self.assertEqual(lines[0], "rank 0: 123 letters, rest, 0 wrong")
        self.assertEqual([line.split(": ")[1] for line in lines[1:4]], ["at its exit", "exits with 0, argument kept", "last"])

    def test_objects_of_cpp(self):
        library, program = (os.path.join(WORK.name, name) for name in ("libobjects.so", "objects"))
        source = os.path.join(HERE, "objects")
        subprocess.run(["c++", "-O1", "-Wall", "-shared", "-fPIC", source + "_library.cc", "-o", library], check=True)
        mpi = ["-I" + os.path.join(PREFIX, "include"), "-L" + os.path.join(PREFIX, "lib"), "-lmpi_abi"]
        own = ["-L" + WORK.name, "-lobjects", "-Wl,-rpath," + WORK.name]
        subprocess.run(["c++", "-O1", "-Wall", source + ".cc", "-o", program, *mpi, *own], check=True)
        lines = self.both("-n", 3, program)
        self.assertEqual(len(lines), 12)
        self.assertEqual([line for line in lines if line.endswith("wrong")], [f"rank {rank}: 0 wrong" for rank in range(3)])

    def test_long_variables(self):
        lines = self.both("--machine", "cluster-100g", "--per-host", 1, "-n", 5, build("arrays"))
        self.assertEqual(lines, [f"rank {rank}: 0 wrong" for rank in range(5)])
        # What no rank has written takes no memory, and is not copied.
        code, out, said = sim("-q", "--one-process", "-n", 60, build("arrays"))
        self.assertEqual((code, out.count(": 0 wrong")), (0, 60), said)

    def test_a_program_with_its_own_malloc_is_refused(self):
        code, out, said = sim("-q", "--one-process", "-n", 2, build("heap"))
        self.assertEqual((code, out), (1, ""))
        self.assertEqual(said, "farpost sim: the program brings its own malloc, which ranks in one process cannot share: run it without --one-process\n")

    def test_a_stack_that_is_used_up_is_told(self):
        code, out, said = sim("-q", "--one-process", "-n", 3, build("keeps"), "-d", 4000)
        self.assertEqual((code, out), (-11, ""))
        self.assertIn("rank 1 has used up its stack (ulimit -s): killed by signal 11, and all ranks with it", said)

    def test_faults(self):
        runs = []
        for way in ([], ["--one-process"]):
            options = ["--machine", "xt3", "--per-host", 1, "-n", 3, "--fault", "loss 0.02", "--fault", "damage 0.01"]
            code, out, said = sim(*way, *options, build("ring"), 7)
            self.assertEqual((code, out.count("sum 6")), (0, 3), said)
            runs.append((sorted(out.splitlines()), re.search(r"of all packets 0 were lost, 0 damaged; links sent [1-9]\d* again", said)[0]))
        self.assertEqual(*runs)

    def test_a_dead_host_takes_its_ranks_with_it(self):
        options = ["--machine", "xt3", "-n", 3, "--fault", "dead h1 at 20us"]
        code, out, said = sim("--one-process", *options, build("ring"), 8)
        self.assertEqual((code, out), (137, ""), said)
        self.assertRegex(said, r"farpost sim: at 20\.\d+ us of virtual time process 1 ends: host 1 is dead, by a fault that was asked for")
        self.assertIn("farpost sim: rank 1 killed by signal 9 (SIGKILL)", said)

    def test_a_descriptor_that_nobody_would_make_readable_is_refused(self):
        code, _, said = sim("-q", "--one-process", "--machine", "startx", "--per-host", 1, "-n", 2, build("waits"))
        self.assertEqual(code, 1)
        words = "rank 0 waits for a descriptor that others make readable, which ranks in one process cannot: run it without --one-process"
        self.assertIn(words, said)

    def test_instructions_are_counted_or_the_refusal_is_the_same(self):
        said = [sim("-q", *way, "--compute", "counted:1000", "-n", 2, build("ring"), 2) for way in ([], ["--one-process"])]
        if said[0][0] == 2:
            self.assertEqual(said[0], said[1])
        else:
            self.assertEqual([code for code, _, _ in said], [0, 0], said)
