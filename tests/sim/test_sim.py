"""farpost sim: executables on simulated machines, run as a user runs them.

PREFIX names the install tree. Nothing here asks how long something takes in real time.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PREFIX = os.environ["PREFIX"]
FARPOST = os.path.join(PREFIX, "bin", "farpost")
MACHINES = ["sun-fire-link", "myrinet-fm", "startx", "xt3", "cluster-100g"]
WORK = tempfile.TemporaryDirectory(prefix="farpost-sim.")


def build(name, folder=HERE):
    program = os.path.join(WORK.name, name)
    if not os.path.exists(program):
        source = os.path.join(folder, name + ".c")
        command = [os.path.join(PREFIX, "bin", "mpicc"), "-O1", "-Wall", source, "-o", program]
        subprocess.run(command, check=True)
    return program


def sim(*arguments, **variables):
    """Run it: the code, what it printed, what it said."""
    command = [FARPOST, "sim", *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=110, env={**os.environ, **variables}, stdin=subprocess.DEVNULL
    )
    return done.returncode, done.stdout, done.stderr


class Programs(unittest.TestCase):
    def runs(self, *arguments, **variables):
        code, out, said = sim(*arguments, **variables)
        self.assertEqual(code, 0, f"{arguments}: {out}{said}")
        return out, said

    def test_every_machine_carries_a_program(self):
        for machine in MACHINES:
            # Myrinet had 16 MiB/s: not the longest messages.
            for per_host, lengths in [(1, 6 if machine == "myrinet-fm" else 8), (2, 7)]:
                if per_host == 2 and machine in ("myrinet-fm", "xt3"):
                    continue  # one processor each
                options = ["--machine", machine, "--per-host", per_host, "-n", 4]
                with self.subTest(machine=machine, per_host=per_host):
                    out, said = self.runs(*options, build("ring"), lengths)
                    lines = sorted(out.splitlines())
                    self.assertEqual(len(lines), 4, out)
                    for rank, line in enumerate(lines):
                        host = rank // per_host
                        self.assertRegex(line, rf"^rank {rank} of 4 on {machine}-{host}: sum 10, \d+\.\d+ us$")
                    self.assertRegex(said, r"farpost sim: [\d.]+ [mun]s of virtual time on " + machine)

    def test_the_same_run_twice_is_the_same(self):
        def once(name):
            trace = os.path.join(WORK.name, name)
            options = ["--machine", "startx", "--per-host", 2, "-n", 6, "--trace", trace, "--explain", "--utilisation"]
            out, _ = self.runs("-q", *options, "--registers", build("ring"))
            with open(trace, "rb") as file:
                return out, file.read()

        first, second = once("a.json"), once("b.json")
        self.assertEqual(first, second)
        events = json.loads(first[1])["traceEvents"]
        names = {event.get("name") for event in events}
        self.assertIn("MPI_Sendrecv", names)
        self.assertIn("MPI_Allreduce", names)
        self.assertRegex(first[0], r"100\.0 %  in all")
        self.assertRegex(first[0], r"resource +busy")
        # Another order of the same numbers would be another run.
        self.assertEqual(first[0].count("sum 21"), 6)

    def test_sixty_four_ranks(self):
        out, _ = self.runs("--machine", "xt3", "-n", 64, build("ring"), 4)
        self.assertEqual(out.count("sum 2080"), 64)

    def test_the_network_is_drawn(self):
        for machine in MACHINES:
            with self.subTest(machine=machine):
                drawing = os.path.join(WORK.name, machine + ".svg")
                self.runs("--machine", machine, "--network", drawing, "--per-host", 1, "-n", 2, build("ring"), 5)
                with open(drawing) as file:
                    self.assertRegex(file.read(), r"(?s)\A(<\?xml.*?>\s*)?<svg .*</svg>\s*\Z")

    def test_two_seeds_are_two_runs_of_one_program(self):
        for seed in (1, 2):
            out, _ = self.runs("--seed", seed, "--machine", "startx", "-n", 4, "--per-host", 1, build("ring"))
            self.assertEqual(out.count("sum 10"), 4)

    def test_a_machine_of_ones_own_and_changes_to_it(self):
        slow, _ = self.runs("--set", "topology.fat_tree.link.latency=5 us", "-n", 2, "--per-host", 1, build("ring"), 2)
        fast, _ = self.runs("-n", 2, "--per-host", 1, build("ring"), 2)
        micros = [float(re.search(r"([\d.]+) us", text)[1]) for text in (fast, slow)]
        self.assertGreater(micros[1], micros[0] + 5)

    def test_loops_until_a_time_is_over_end(self):
        for what in ("clock", "tests"):
            with self.subTest(what=what):
                out, said = self.runs("-n", 2, "--per-host", 1, build("trouble"), what)
                self.assertEqual(out, "over\n")
                # A millisecond each, at the same time.
                self.assertRegex(said, r" 1\.\d+ ms of virtual time")

    def test_clocks_of_the_program_are_virtual_when_asked(self):
        out, said = self.runs("--virtual-clock", "-n", 2, build("clocks"))
        slept = re.findall(r"slept ([\d.]+) s, MPI_Wtime since the start of the clock (-?[\d.]+) s, (\d+) and (\d+) s after", out)
        self.assertEqual(len(slept), 2, out)
        for time, apart, *after in slept:
            self.assertAlmostEqual(float(time), 112.75, places=3)
            self.assertLess(abs(float(apart)), 1e-3)
            self.assertEqual(after, ["112", "112"])
        self.assertRegex(said, r" 112\.75\d s of virtual time")

    def test_computing_takes_time_when_asked(self):
        source = os.path.join(WORK.name, "loop.c")
        with open(source, "w") as file:
            file.write(
                "#include <mpi.h>\nint main(void){MPI_Init(0,0);volatile double x=0;"
                "for(int i=0;i<20000000;i++)x+=i;MPI_Barrier(MPI_COMM_WORLD);MPI_Finalize();}"
            )
        program = os.path.join(WORK.name, "loop")
        subprocess.run([os.path.join(PREFIX, "bin", "mpicc"), "-O1", source, "-o", program], check=True)
        _, nothing = self.runs("--compute", "0", "-n", 2, program)
        _, measured = self.runs("--compute", "measured:1000", "-n", 2, program)
        self.assertRegex(nothing, r" [\d.]+ [nu]s of virtual time")
        self.assertRegex(measured, r" [\d.]+ s of virtual time")

    def test_python_programs(self):
        code = subprocess.run([sys.executable, "-c", "import ctypes"]).returncode
        self.assertEqual(code, 0)
        script = os.path.join(WORK.name, "program.py")
        with open(script, "w") as file:
            file.write(
                "import ctypes, os\n"
                "mpi = ctypes.CDLL(os.environ['PREFIX'] + '/lib/libmpi_abi.so.1')\n"
                "mpi.MPI_Wtime.restype = ctypes.c_double\n"
                "assert mpi.MPI_Init(None, None) == 0\n"
                "begun = mpi.MPI_Wtime()\n"
                "world = ctypes.c_void_p(0x101)\n"
                "assert mpi.MPI_Barrier(world) == 0\n"
                "print(f'{(mpi.MPI_Wtime() - begun) * 1e6:.3f} us', flush=True)\n"
                "assert mpi.MPI_Finalize() == 0\n"
            )
        runs = [self.runs("--machine", "xt3", "--per-host", 1, "-n", 3, sys.executable, script)[0] for _ in range(2)]
        self.assertRegex(runs[0], r"(?m)\A(\d+\.\d+ us\n){3}\Z")
        self.assertEqual(runs[0], runs[1])

    def test_benchmarks_speak_virtual_time(self):
        options = ["--machine", "xt3", "--per-host", 1, "-n", 2]
        out = [self.runs(*options, FARPOST, "bench", "pingpong", "--sizes", "8")[0] for _ in range(2)]
        self.assertEqual(out[0], out[1])
        row = re.search(r"(?m)^\s*8\s+\d+\s+([\d.]+)", out[0])
        self.assertIsNotNone(row, out[0])
        # The XT3's authors measured 7.97 us with MPICH2's way over Portals.
        self.assertAlmostEqual(float(row[1]), 8.0, delta=2.0)


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
                program = build(name, os.path.join(HERE, "..", "interfaces"))
                times = []
                for way in ([], ["--one-process"]):
                    code, out, said = sim(*way, "--machine", machine, "--per-host", 1, "-n", 2, program)
                    self.assertEqual((code, out), (0, ""), said)
                    times.append(float(re.search(r"farpost sim: ([\d.]+) [mun]?s of virtual time", said)[1]))
                # What processes do after their end of the interface, others may see a moment earlier or later.
                self.assertAlmostEqual(times[1] / times[0], 1, delta=1e-3)

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

    def test_ranks_that_wait_for_each_other_are_told(self):
        code, out, said = sim("--one-process", "-n", 2, build("trouble"), "waits")
        self.assertEqual((code, out), (1, ""), said)
        self.assertRegex(said, r"farpost sim: from [\d.]+ \w+ of virtual time on 2 ranks wait for each other")
        self.assertRegex(said, r"0 waits for 1, 1 for 0: deadlock")

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


class Trouble(unittest.TestCase):
    def test_ranks_that_wait_for_each_other_are_told(self):
        code, out, said = sim("-n", 2, build("trouble"), "waits")
        self.assertEqual((code, out), (1, ""), said)
        self.assertRegex(said, r"farpost sim: from [\d.]+ \w+ of virtual time on 2 ranks wait for each other, and nothing is on its way")
        self.assertRegex(said, r"0 waits for 1, 1 for 0: deadlock")

    def test_a_killed_rank_ends_the_job(self):
        code, out, said = sim("-n", 3, "--per-host", 1, build("trouble"), "killed")
        # The launcher's word, or on a very busy host that of a rank that was told first.
        self.assertIn((code, out), [(137, ""), (58, "")], said)
        self.assertRegex(said, "rank 1 .*killed by signal 9|process 1 is gone")

    def test_a_rank_that_exits_without_finalize_is_named(self):
        code, _, said = sim("-n", 2, build("trouble"), "exits")
        # Rank 0 may have failed first, because it was told.
        self.assertNotEqual(code, 0)
        self.assertRegex(said, r"rank 1 .* exited with code 0 without MPI_Finalize|process 1 is gone")

    def test_what_sleeps_or_spins_outside_the_library_is_named_and_left_alone(self):
        for what, word in [("sleeps", "sleeps"), ("spins", "computes")]:
            with self.subTest(what=what):
                code, out, said = sim("--patience", "0.5", "-n", 2, build("trouble"), what)
                self.assertEqual((code, out), (0, "over\n"), said)
                self.assertRegex(said, rf"process 1 has not called Farpost for 500ms of real time \(it {word}\)")

    def test_programs_without_mpi_run(self):
        code, out, _ = sim("-q", "-n", 2, "echo", "hello")
        self.assertEqual((code, out), (0, "hello\nhello\n"))
        code, _, _ = sim("-q", "-n", 2, "false")
        self.assertEqual(code, 1)

    def test_bad_input_is_one_line(self):
        own = os.path.join(WORK.name, "own.toml")
        with open(own, "w") as file:
            file.write('name = "own"\nwings = 2\n')
        ring = build("ring")
        for arguments, words in [
            (["--machine", "cray", ring], "unknown machine cray, allowed are sun-fire-link"),
            (["--machine", own, ring], "wings"),
            (["--machine", "/nowhere.toml", ring], "cannot read machine file /nowhere.toml"),
            (["--machine", "myrinet-fm", "-n", 9, "--per-host", 1, ring], "9 ranks, 1 on each host, need 9 hosts; allowed are"),
            (["--machine", "xt3", "-n", 0, ring], "a program has a rank at least"),
            (["--set", "topology.wings=2", ring], "--set topology.wings=2"),
            (["--set", "topology", ring], "PATH=VALUE is expected"),
            (["--patience", "0", ring], "--patience 0"),
            (["--compute", "much", ring], "allowed are 0 and measured:K"),
            (["-n", 2, "/nowhere/program"], "/nowhere/program"),
        ]:
            with self.subTest(arguments=arguments):
                code, out, said = sim(*arguments)
                self.assertNotEqual(code, 0)
                self.assertEqual(out, "")
                self.assertIn(words, said)
                if "--compute" not in arguments:
                    self.assertEqual(len(said.strip().splitlines()), 1, said)

    def test_agents_are_not_there(self):
        code, _, said = sim("--machine", "xt3", build("ring"), FARPOST_PORTALS="generic")
        self.assertEqual(code, 1)
        self.assertIn("FARPOST_PORTALS=generic: simulated machines have no agents", said)

    def test_the_fabric_needs_its_coordinator(self):
        run = subprocess.run(
            [os.path.join(PREFIX, "bin", "mpiexec"), "-n", "1", build("ring")],
            capture_output=True, text=True, timeout=60, env={**os.environ, "FARPOST_FABRIC": "sim"},
        )
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("FARPOST_FABRIC=sim: start the program by farpost sim", run.stderr)
        run = subprocess.run(
            [os.path.join(PREFIX, "bin", "mpiexec"), "-n", "1", build("ring")],
            capture_output=True, text=True, timeout=60,
            env={**os.environ, "FARPOST_FABRIC": "sim", "FARPOST_SIM": "nobody-is-there"},
        )
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("coordinator at nobody-is-there", run.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
