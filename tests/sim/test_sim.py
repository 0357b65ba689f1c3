"""farpost sim: executables on simulated machines, run as a user runs them.

PREFIX names the install tree. Nothing here asks how long something takes in real time.
"""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
import unittest

from support import FARPOST, HERE, PREFIX, WORK, build, sim
from interfaces import Interfaces, Outside, Threads  # noqa: F401
from one_process import OneProcess  # noqa: F401

PAPERS_COLLECTIVES = (
    "gather,gatherv,scatter,scatterv,bcast,allgather,allgatherv,alltoall,alltoallv,reduce,reduce_scatter,allreduce,scan"
)
MACHINES = ["sun-fire-link", "myrinet-fm", "startx", "xt3", "cluster-100g"]


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

    def test_traces_and_measured_computing_change_no_time(self):
        """Calls that are told take the way of those that are not."""
        run = ["--machine", "myrinet-fm", "--per-host", 1, "-n", 2]
        trace = ["--trace", os.path.join(WORK.name, "times.json")]
        program = [FARPOST, "bench", "pingpong", "--sizes", "8", "--trial-ms", "1"]
        rows = [self.runs(*run, *options, *program)[0].splitlines()[-1] for options in ([], trace, ["--compute", "measured:0"])]
        self.assertRegex(rows[0], r"^ +8 +\d+ +[\d.]+ ")
        self.assertEqual(rows, rows[:1] * 3)

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

    def test_processes_take_the_same_time_in_every_run_on_every_machine(self):
        """Also to the end of MPI_Finalize, when some have left the machine and run beside the others."""
        program = build("ring")
        for machine in MACHINES:
            with self.subTest(machine=machine):
                times = set()
                for way in [[]] * 4 + [["--one-process"]]:
                    code, _, said = sim(*way, "--machine", machine, "-n", 8, program, 1)
                    self.assertEqual(code, 0, said)
                    times.add(re.search(r"farpost sim: ([\d.]+ [mun]?s) of virtual time", said)[1])
                self.assertEqual(len(times), 1, times)

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

    def test_collectives_pairs_and_load_on_a_machine(self):
        """The Sun Fire Link paper's collectives, all of them with a bandwidth; its pairs at once, and its latency under load."""
        options = ["--machine", "sun-fire-link", "-n", "4", "--per-host", "2"]
        rows = self.runs(*options, FARPOST, "bench", "collectives", "--sizes", "4k", "--trial-ms", "1", "--op", PAPERS_COLLECTIVES)[0]
        rates = {row.split()[0]: float(row.split()[-1]) for row in rows.splitlines() if row.strip() and not row.startswith("#")
                 and "MB/s" not in row}
        self.assertEqual(sorted(rates), sorted(PAPERS_COLLECTIVES.split(",")))
        self.assertTrue(all(rate > 0 for rate in rates.values()), rates)
        rows = self.runs(*options, FARPOST, "bench", "pairs", "--pingpong", "--sizes", "8", "--trial-ms", "1")[0]
        self.assertEqual([row.split()[:2] for row in rows.splitlines()[-2:]], [["1", "8"], ["2", "8"]], rows)
        rows = self.runs(*options, FARPOST, "bench", "load", "--sizes", "8", "--trial-ms", "1")[0]
        self.assertEqual([row.split()[:2] for row in rows.splitlines()[-2:]], [["8", "0"], ["8", "1"]], rows)

    def test_benchmarks_speak_virtual_time(self):
        options = ["--machine", "xt3", "--per-host", 1, "-n", 2]
        out = [self.runs(*options, FARPOST, "bench", "pingpong", "--sizes", "8")[0] for _ in range(2)]
        self.assertEqual(out[0], out[1])
        row = re.search(r"(?m)^\s*8\s+\d+\s+([\d.]+)", out[0])
        self.assertIsNotNone(row, out[0])
        # The XT3's authors measured 7.97 us with MPICH2's way over Portals.
        self.assertAlmostEqual(float(row[1]), 8.0, delta=2.0)


def let_go(run, fifo):
    """A program that is held goes on to its end: what it printed, and what was said."""
    # Opened for both, so that this waits for nobody.
    end = os.open(fifo, os.O_RDWR)
    try:
        os.write(end, b"x")
        return run.communicate(timeout=100)
    finally:
        os.close(end)


def topped(*arguments):
    """farpost top beside a program that is held, once for each list of arguments: what it printed. And the run's own end."""
    fifo = os.path.join(WORK.name, "held.fifo")
    if not os.path.exists(fifo):
        os.mkfifo(fifo)
    machine, *tops = arguments
    command = [FARPOST, "sim", "--patience", "1000", "--machine", machine, "--per-host", "1", "-n", "3", build("held"), fifo]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    try:
        first = run.stdout.readline()
        # The coordinator publishes now and then while it waits for the program.
        for _ in range(600):
            seen = [subprocess.run([FARPOST, "top", *top(run.pid)], capture_output=True, text=True, timeout=60) for top in tops]
            if all("simulated" in it.stdout or "registers" in it.stdout for it in seen) and ready(seen[0].stdout):
                break
            time.sleep(0.1)
        out, said = let_go(run, fifo)
        return seen, first + out, said, run.returncode
    finally:
        if run.poll() is None:
            run.kill()
            run.wait()


def ready(text):
    """Whether adapters have counted something yet: the first snapshots are of before the program's start."""
    return any(int(word) > 0 for line in text.splitlines() if re.match(r" +[0-2] +\w+( +\d+)+$", line) for word in line.split()[2:])


class Top(unittest.TestCase):
    def test_top_shows_counters_and_registers_of_every_adapter(self):
        seen, out, said, code = topped("xt3", lambda pid: [], lambda pid: [str(pid)], lambda pid: ["--json", str(pid)])
        self.assertEqual((code, out), (0, "held\nover\n"), said)
        for look in seen[:2]:
            self.assertEqual(look.returncode, 0, look.stderr)
            # The job's own table, then the machine's.
            self.assertRegex(look.stdout, r"(?s)# job of process \d+, 3 ranks.*# simulated machine xt3 at [\d.]+ \w+ of virtual time")
            table = look.stdout.split("# simulated machine")[1].splitlines()
            names = table[1].split()
            self.assertEqual(names[:2], ["host", "adapter"])
            rows = [dict(zip(names, row.split())) for row in table[2:5]]
            self.assertEqual([row["host"] for row in rows], ["0", "1", "2"])
            for row in rows:
                self.assertEqual((row["adapter"], row["panicked"]), ("seastar", "0"))
                self.assertGreaterEqual(int(row["messages_sent"]), 20)
                self.assertGreater(int(row["interrupts"]), 0)
        lines = [json.loads(line) for line in seen[2].stdout.splitlines()]
        adapters = [line["adapters"] for line in lines if "adapters" in line]
        self.assertEqual([it["host"] for it in adapters[0]], [0, 1, 2])
        self.assertGreaterEqual(adapters[0][2]["registers"]["messages_received"], 20)

    def test_status_registers_of_the_other_papers_machines(self):
        seen, out, said, _ = topped("startx", lambda pid: [str(pid)])
        self.assertEqual(out, "held\nover\n", said)
        self.assertRegex(seen[0].stdout, r"host +adapter +messages_sent +messages_received +status_reads +check_errors")


class Faults(unittest.TestCase):
    def test_messages_that_nobody_sends_again_end_the_job_with_words(self):
        for machine in ("myrinet-fm", "startx", "sun-fire-link"):
            for fault in ("loss 0.01", "damage 0.01"):
                with self.subTest(machine=machine, fault=fault):
                    code, _, said = sim("--machine", machine, "--per-host", 1, "-n", 4, "--fault", fault, build("ring"), 8)
                    self.assertNotEqual(code, 0, said)
                    self.assertRegex(said, "lost on|damaged")
                    self.assertRegex(said, r"farpost sim: of all packets \d+ were lost, \d+ damaged")

    def test_links_that_send_again_lose_time_only(self):
        for machine in ("xt3", "cluster-100g"):
            options = ["--machine", machine, "--per-host", 1, "-n", 3, "--fault", "loss 0.02", "--fault", "damage 0.01"]
            runs = [sim(*options, build("ring"), 7) for _ in range(2)]
            for code, out, said in runs:
                self.assertEqual((code, out.count("sum 6")), (0, 3), said)
                self.assertRegex(said, r"of all packets 0 were lost, 0 damaged; links sent [1-9]\d* again")
            self.assertEqual(runs[0][1], runs[1][1])

    def test_faults_of_a_machines_file_a_slow_host_and_a_cut_rail(self):
        text = subprocess.run(["cat", os.path.join(HERE, "../../machines/sun-fire-link.toml")], capture_output=True, text=True).stdout
        own = os.path.join(WORK.name, "faulty.toml")
        with open(own, "w") as file:
            file.write(text + '\n[[faults]]\nwhat = "cut h1.rail0"\n\n[[faults]]\nwhat = "slow h0 x4"\n')
        def micros(machine):
            code, out, said = sim("--machine", machine, "--per-host", 1, "-n", 2, "--registers", build("ring"), 8)
            self.assertEqual(code, 0, said)
            row = re.search(r"sum of 2 hosts +\d+ +\d+ +\d+ +(\d+)", out)
            return float(re.search(r"([\d.]+) us", out)[1]), int(row[1])
        (clean, straight), (faulty, rerouted) = micros("sun-fire-link"), micros(own)
        self.assertEqual(straight, 0)
        self.assertGreater(rerouted, 0)
        self.assertGreater(faulty, 1.5 * clean)

    def test_a_dead_host_takes_its_ranks_with_it(self):
        code, out, said = sim("--machine", "xt3", "-n", 3, "--fault", "dead h1 at 20us", build("ring"), 8)
        self.assertEqual(out, "", said)
        self.assertNotEqual(code, 0)
        self.assertRegex(said, r"farpost sim: at 20\.\d+ us of virtual time process 1 ends: host 1 is dead, by a fault that was asked for")
        self.assertRegex(said, r"rank 1 .*killed by signal 9|host 1 is dead")


    def test_an_exhausted_seastar_panics_or_goes_back_as_the_machine_says(self):
        def exhausted(by):
            options = ["--set", "adapter.seastar.sources=2", "--set", "adapter.seastar.exhaustion=" + by]
            return sim("--machine", "xt3", "-n", 6, *options, build("ring"), 5)

        code, out, said = exhausted("panic")
        self.assertNotEqual((code, out.count("sum 21")), (0, 6))
        self.assertRegex(said, r"the SeaStar of host \d has no source structure left: the node has panicked")
        code, out, said = exhausted("go-back-n")
        self.assertEqual((code, out.count("sum 21")), (0, 6), said)


class Trouble(unittest.TestCase):
    def test_ranks_that_wait_for_each_other_are_told(self):
        code, out, said = sim("-n", 2, build("trouble"), "waits")
        self.assertEqual((code, out), (1, ""), said)
        self.assertRegex(said, r"farpost sim: from [\d.]+ \w+ of virtual time on 2 ranks wait for each other, and nothing is on its way")
        self.assertRegex(said, r"0 waits for 1, 1 for 0: deadlock")

    def test_programs_that_poll_for_what_never_comes_are_told_and_run_on(self):
        # After 100,000 calls and a second; the second line would come after four times as many.
        code, out, said = sim("-n", 3, build("trouble"), "polls", 130000)
        self.assertEqual((code, out), (0, "over\n"), said)
        told = re.findall(r"farpost sim: from [\d.]+ \w+ of virtual time on programs have only looked for what has not come, \d+ times, "
                          r"and nothing is on its way: (.*); they run on", said)
        self.assertEqual(told, ["process 1 repeats MPI_Iprobe; processes 0, 2 wait in MPI_Barrier"], said)

    def test_a_loop_of_polls_until_a_time_is_over_is_none(self):
        code, out, said = sim("-n", 2, build("trouble"), "tests", "0.5")
        self.assertEqual((code, out), (0, "over\n"), said)
        self.assertNotIn("only looked", said)

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

    def test_mpis_own_thread_is_off(self):
        code, out, said = sim("-n", 1, "env")
        self.assertEqual(code, 0, said)
        self.assertIn("FARPOST_PROGRESS_THREAD=0\n", out)

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
        with open(os.path.join(HERE, "../../machines/xt3.toml")) as file:
            xt3 = file.read()
        wrong = {"fault": os.path.join(WORK.name, "wat.toml")}
        with open(wrong["fault"], "w") as file:
            file.write(xt3 + '\n[[faults]]\nwat = "cut h1"\n')
        for name, before, after in [
            ("hypercube", "[topology.torus", "[topology.hypercube"),
            ("negative", '"75 ns"', '"-75 ns"'),
            ("absent", "\nhop = {", "\n# {"),
            ("contradictory", '\ndma = { value = "1', '\ndma = { value = "9'),
        ]:
            self.assertIn(before, xt3)
            wrong[name] = os.path.join(WORK.name, name + ".toml")
            with open(wrong[name], "w") as file:
                file.write(xt3.replace(before, after))
        for arguments, words in [
            (["--machine", "cray", ring], "unknown machine cray, allowed are sun-fire-link"),
            (["--machine", own, ring], "wings"),
            (["--machine", "/nowhere.toml", ring], "cannot read machine file /nowhere.toml"),
            (["--machine", "myrinet-fm", "-n", 9, "--per-host", 1, ring], "9 ranks, 1 on each host, need 9 hosts; allowed are"),
            (["--machine", "xt3", "-n", 0, ring], "a program has a rank at least"),
            (["--set", "topology.wings=2", ring], "--set topology.wings=2"),
            (["--set", "topology", ring], "PATH=VALUE is expected"),
            (["--patience", "0", ring], "--patience 0"),
            (["--compute", "much", ring], "allowed are 0, measured:K and counted:MHz"),
            (["--compute", "counted:0", ring], "allowed are 0, measured:K and counted:MHz"),
            (["--fault", "melt h3", ring], "--fault: fault \"melt h3\": unknown fault `melt`, allowed are cut, loss, damage, slow and dead"),
            (["--fault", "cut h1 at 5", ring], "at 5 has no unit, allowed is a time like 5ms"),
            (["--fault", "cut h1 at -5ms", ring], "at -5ms is negative"),
            (["--fault", "loss 2", ring], "2 is no chance"),
            (["--fault", "loss 0.1", "--fault", "loss 0.2", ring], "contradicts"),
            (["--fault", "cut h7", "--per-host", 1, ring], "there is no host 7 in this run, allowed are 0 to 1"),
            (["--machine", wrong["fault"], ring], "unknown key `wat`, allowed is `what`"),
            (["--machine", wrong["hypercube"], ring], "topology: unknown kind `hypercube`, allowed are"),
            (["--machine", wrong["negative"], ring], 'host.trap: value "-75 ns" is negative, allowed is a time'),
            (["--machine", wrong["absent"], ring], "topology.torus: missing key `hop`"),
            (["--machine", wrong["contradictory"], ring], "is more than hypertransport"),
            (["--machine", "xt3", "--set", "topology.torus.dimensions.0=0", ring], "is zero, allowed is"),
            (["-n", 2, "/nowhere/program"], "/nowhere/program"),
        ]:
            with self.subTest(arguments=arguments):
                code, out, said = sim(*arguments)
                self.assertNotEqual(code, 0)
                self.assertEqual(out, "")
                self.assertIn(words, said)
                if "--compute" not in arguments:
                    self.assertEqual(len(said.strip().splitlines()), 1, said)

    def test_instructions_are_counted_or_one_line_says_who_refuses(self):
        code, out, said = sim("--compute", "counted:2000", "-n", 2, "--per-host", 1, build("ring"), 4)
        if code == 0:
            self.assertEqual(out.count("sum 3"), 2)
            self.assertRegex(said, r" of virtual time on ")
            return
        self.assertEqual((code, out), (2, ""))
        self.assertRegex(said, r"\Afarpost sim: --compute counted:MHz: this system counts no instructions: perf_event_open says .*; use --compute measured:K\n\Z")

    def test_the_bar_shows_both_times_and_only_on_a_terminal(self):
        fifo = os.path.join(WORK.name, "bar.fifo")
        os.mkfifo(fifo)
        command = [FARPOST, "sim", "--patience", "1000", "--per-host", "1", "-n", "2", build("held"), fifo]
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
        run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=slave, text=True, stdin=subprocess.DEVNULL,
                               env={**os.environ, "TERM": "xterm"})
        os.close(slave)
        shown = b""
        try:
            self.assertEqual(run.stdout.readline(), "held\n")
            while not re.search(rb"virtual [1-9][\d.]* \w+, real [\d.]+ s, 2 of 2 ranks run", shown):
                shown += os.read(master, 4096)
            self.assertEqual(let_go(run, fifo)[0], "over\n")
        finally:
            if run.poll() is None:
                run.kill()
                run.wait()
            os.close(master)
        # Elsewhere there is the report alone.
        code, _, said = sim("-n", 2, "--per-host", 1, build("ring"), 4)
        self.assertEqual(code, 0)
        self.assertNotIn("real 0.0 s,", said)
        self.assertNotIn("\x1b", said)
        self.assertRegex(said, r"\A(farpost sim: addresses .*\n)?farpost sim: [\d.]+ \w+ of virtual time on cluster-100g, [\d.]+ s of real time\n\Z")

    def test_agents_are_not_there(self):
        code, _, said = sim("--machine", "xt3", build("ring"), FARPOST_PORTALS="generic")
        self.assertEqual(code, 1)
        self.assertIn("FARPOST_PORTALS=generic: simulated machines have no agents", said)

    def test_postboxes_need_remote_memory(self):
        for device in ["", "postbox"]:
            code, out, said = sim("--machine", "xt3", "-n", 3, build("ring"), FARPOST_DEVICE=device)
            self.assertEqual((code, out), (1, ""))
            self.assertEqual(len(said.strip().splitlines()), 1, said)
            self.assertIn(f"FARPOST_DEVICE={device}: postboxes need remote memory, which xt3 has not", said)
        code, _, said = sim("--machine", "sun-fire-link", "-n", 3, build("ring"), FARPOST_DEVICE="postbox")
        self.assertEqual(code, 0, said)

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
