#!/usr/bin/env python3
"""The C and C++ programs of tests/programs and tests/mpi, and mpi4py's own tests, across emulated hosts, under each launcher.

  PREFIX=dir tests/net/programs.py [--full] [--turn N] [--launchers hydra,prterun,srun,srun-pmix] [--layouts 2x1,2x2,4x2,3x5] [NAME...]

A layout is hosts x ranks on each. --full: every program, with each of its arguments, in every layout under every launcher, and all of
mpi4py's tests in all of them. Otherwise a selection in which every program meets half of the layouts, each under another launcher, and every
layout every launcher: half of a Latin square, where program p runs in layout l under launcher p + l + turn, so that twice as many turns
as there are launchers are all of the matrix. The turn is made from the content of the commit; the first line tells it, --turn N or TREE=... repeats it. NAME, as in
programs/ring or mpi: these programs in every layout under every launcher; mpi4py for those tests.

A program is left out where it wants another number of ranks, and of the selection where ranks are many and it is heavy. After every run nothing may be left on any host.
"""

import argparse
import glob
import os
import re
import subprocess
import sys
import tempfile
import time

from hosts import ROOT, Failed, Hosts
from launchers import PREFIX, all_launchers, has_library
from report import Report
from selection import turn_of_tree

LAYOUTS = {"2x1": (2, 1), "2x2": (2, 2), "4x2": (4, 2), "3x5": (3, 5)}
LAUNCHERS = ("hydra", "prterun", "srun", "srun-pmix")
# Over libfabric: start and end, point to point, collectives.
FEW = ("programs/ring", "programs/samplesort", "mpi/p2p_modes", "mpi/coll_blocking")
# Of mpi4py, in the selection: point to point, collectives, communicators, pickled objects; where ranks are many for few cores, some.
MODULES = ("test_comm", "test_request", "test_p2p_obj", "test_p2p_buf", "test_cco_buf", "test_cco_obj")
MODULES_OF_MANY = MODULES[:2]
MANY = 8
# More ranks than that make these a test of the scheduler, for a minute each; --full runs them all the same.
HEAVY = ("mpi/threads", "mpi/p2p_overrun")
TIMEOUT = 120
# All of mpi4py's tests on this many ranks and a few cores.
MPI4PY_TIMEOUT = 900


class Program:
    """A test program's source and what its first lines say."""

    def __init__(self, source):
        self.source = source
        folder, base = os.path.split(source)
        self.name = f"{os.path.basename(folder)}/{base.rsplit('.', 1)[0]}"
        with open(source, encoding="utf-8") as f:
            head = "".join(f.readline() for _ in range(12))
        say = lambda what: next(iter(re.findall(rf"^// *{what}: *(.*)$", head, re.M)), "")
        self.numbers = [int(n) for n in say("ranks").split()] or [1, 2, 3, 4, 5, 8]
        self.timeout = int(say("timeout") or TIMEOUT)
        self.cases = [case.split() for case in say("args").split("|")] if say("args") else [[]]

    def takes(self, ranks):
        """Three numbers of ranks or more are samples of any number from the smallest on."""
        return ranks in self.numbers or (len(self.numbers) >= 3 and ranks >= min(self.numbers))

    def compile(self, into):
        cxx = self.source.endswith(".cc")
        wrapper = os.path.join(PREFIX, "bin", "mpicxx" if cxx else "mpicc")
        self.path = os.path.join(into, self.name.replace("/", "_"))
        standard = ["-std=c++17"] if cxx else ["-std=gnu11"]
        command = [wrapper, *standard, "-O1", "-g", "-DFARPOST", "-I" + os.path.join(ROOT, "tests", "mpi")]
        done = subprocess.run([*command, "-o", self.path, self.source, "-lm", "-lpthread"], capture_output=True, text=True, check=False)
        return done.stderr if done.returncode else None


class Stage:
    """Hosts with a launcher on them, and where results go."""

    def __init__(self, report, hosts, launcher):
        self.report, self.hosts, self.launcher = report, hosts, launcher
        launcher.prepare(hosts)
        self.before = {name: hosts.leftovers(name) for name in hosts.names}
        report.resume()

    def news(self, seconds=5):
        """What is on the hosts beyond what was there before."""
        found = []
        for name in self.hosts.names:
            found += [f"{name}: {line}" for line in self.hosts.settled(name, seconds, ignore=self.before[name])]
        return found

    def ranks(self, layout):
        count, each = LAYOUTS[layout]
        return dict.fromkeys(self.hosts.names[:count], each)

    def to_the_end(self, name, cell, command, env, seconds, **options):
        """Run a command on h1; a failure is reported. Its result, and a note for the line that reports success, or None."""
        env = {**self.launcher.environment(self.hosts), **env}
        began = time.monotonic()
        try:
            result, starts = self.launcher.run(self.hosts, command, seconds, env=env, **options)
        except Failed as e:
            self.report.fail(name, f"hung, stopped after {seconds} s", str(e), cell)
            self.launcher.clear(self.hosts)
            return None
        took = time.monotonic() - began
        left = self.news()
        if left:
            self.launcher.clear(self.hosts)
        text = f"{result.out}\n{result.err}"
        if result.code != 0 or left:
            why = f"exit code {result.code}" if result.code else f"left behind: {'; '.join(left[:3])}"
            self.report.fail(name, why, "\n".join([text, *left]), cell)
            return None
        note = f"{took:.1f} s"
        return result, note if starts == 1 else f"{note}, {starts} starts: {self.launcher.sticks}"

    def program(self, program, case, layout, env=None, direct=False, how=""):
        """One program once."""
        name = " ".join([program.name, *case, layout, self.launcher.name]) + how
        cell = (self.launcher.name, layout)
        start = self.launcher.direct if direct else self.launcher.mpiexec
        command = start(self.hosts, self.ranks(layout), [program.path, *case])
        env = {**(env or {}), "CHECK_SECONDS": str(program.timeout - program.timeout // 8)}
        done = self.to_the_end(name, cell, command, env, program.timeout)
        if done:
            result, note = done
            skipped = re.search(r"^SKIP: (.*)", f"{result.out}\n{result.err}", re.M)
            if skipped:
                self.report.skip(name, skipped.group(1))
            else:
                self.report.ok(name, note, cell)

    def mpi4py(self, layout, full):
        """mpi4py's own tests, if scripts/test-mpi4py.sh has built it (there is no way to the internet from in here)."""
        ranks = self.ranks(layout)
        modules = () if full else MODULES_OF_MANY if sum(ranks.values()) > MANY else MODULES
        name = f"mpi4py {' '.join(modules) or 'all modules'} {layout} {self.launcher.name}"
        cell = (self.launcher.name, f"mpi4py {layout}")
        cache = os.environ.get("TEST_CACHE") or os.path.join(ROOT, "build", "cache")
        if not glob.glob(f"{cache}/mpi4py/venv-*/.ready"):
            self.report.skip(name, "*** not built; scripts/test-mpi4py.sh does that")
            return
        start = self.launcher.mpiexec(self.hosts, ranks, [])
        wrapper = os.path.join(self.hosts.directory, "mpiexec")
        with open(wrapper, "w", encoding="utf-8") as f:
            f.write(f"#!/bin/sh\nexec {' '.join(start[: start.index('-n')])} \"$@\"\n")
        os.chmod(wrapper, 0o755)
        # Modules in one run: starting Python takes longer than most of them.
        env = {"MPIEXEC": wrapper, "RANKS": str(sum(ranks.values())), "PREFIX": PREFIX, "TIMEOUT": str(MPI4PY_TIMEOUT // 5)}
        done = self.to_the_end(name, cell, [f"{ROOT}/scripts/test-mpi4py.sh", *modules], env, MPI4PY_TIMEOUT, cwd=ROOT)
        if done:
            result, note = done
            counted = re.search(r"Ran \d+ tests", result.out)
            self.report.ok(name, f"{counted.group(0) if counted else result.out.strip().splitlines()[-1]}, {note}", cell)


class Plan:
    """What runs where: by launcher and layout, a list of things to do with a `Stage`."""

    def __init__(self, programs, layouts, launchers, turn, whole):
        self.programs, self.layouts, self.launchers, self.turn, self.whole = programs, layouts, launchers, turn, whole

    def meets(self, row, column, launcher):
        """Is it this launcher's turn in this place of the square?"""
        round, turn = divmod(self.turn, len(self.launchers))
        this_half = (row // len(self.launchers) + column + round) % 2 == 0
        return self.whole or this_half and (row + column + turn) % len(self.launchers) == launcher

    def cases(self, column, launcher):
        """Programs and arguments of a layout under a launcher."""
        ranks = LAYOUTS[self.layouts[column]]
        for row, program in enumerate(self.programs):
            total = ranks[0] * ranks[1]
            if not program.takes(total) or not self.whole and total > MANY and program.name in HEAVY:
                continue
            for number, case in enumerate(program.cases):
                # Further arguments of a program do not need all layouts.
                once = self.whole or number == 0 or number % len(self.layouts) == column
                if once and self.meets(row + number, column, launcher):
                    yield program, case


def over_libfabric(stage, programs):
    """A few programs with messages over libfabric (its tcp provider here)."""
    if not has_library("libfabric.so.1"):
        stage.report.skip("programs over libfabric", "*** libfabric.so.1 is missing (on Debian and Ubuntu: apt-get install libfabric1)")
        return
    for program in (p for p in programs if p.name in FEW):
        stage.program(program, program.cases[0], "2x2", {"FARPOST_FABRIC": "ofi"}, how=", libfabric")


def chosen(parser, name, value, allowed):
    """A list of names, in the order they are allowed in."""
    words = value.split(",")
    for word in words:
        if word not in allowed:
            parser.error(f"--{name} {word}: allowed are {', '.join(allowed)}")
    return [word for word in allowed if word in words]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--launchers", default=",".join(LAUNCHERS))
    parser.add_argument("--layouts", default=",".join(LAYOUTS))
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--turn", type=int, default=turn_of_tree())
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    layouts = chosen(parser, "layouts", args.layouts, LAYOUTS)
    wanted = chosen(parser, "launchers", args.launchers, LAUNCHERS)
    report = Report()
    launchers = [launcher for launcher in all_launchers() if launcher.name in wanted]
    for launcher in launchers:
        if launcher.missing:
            report.skip(f"everything under {launcher.name}", f"*** {launcher.missing}")
    launchers = [launcher for launcher in launchers if not launcher.missing]
    if not launchers:
        return report.end()

    sources = [f"{ROOT}/tests/{d}/*.{e}" for d, e in (("programs", "c"), ("programs", "cc"), ("mpi", "c"))]
    programs = [Program(s) for pattern in sources for s in sorted(glob.glob(pattern))]
    if args.names:
        programs = [p for p in programs if any(p.name == n or p.name.startswith(n + "/") for n in args.names)]
        if not programs and args.names != ["mpi4py"]:
            parser.error(f"no program {' '.join(args.names)}")
    with_python = not args.names or "mpi4py" in args.names
    plan = Plan(programs, layouts, launchers, args.turn % (2 * len(launchers)), args.full or args.names)
    print(f"# the whole matrix under {len(launchers)} launchers" if plan.whole else f"# turn {plan.turn} of {2 * len(launchers)}", flush=True)
    os.makedirs(f"{ROOT}/build", exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="net-tests.", dir=f"{ROOT}/build") as built:
        for program in programs[:]:
            why = program.compile(built)
            if why:
                report.fail(program.name, "does not compile", why)
                programs.remove(program)
        count = max(LAYOUTS[layout][0] for layout in layouts)
        for number, launcher in enumerate(launchers):
            with Hosts(count, 2, share=[PREFIX, os.environ.get("TEST_CACHE", ROOT)]) as hosts:
                stage = Stage(report, hosts, launcher)
                for column, layout in enumerate(layouts):
                    for program, case in plan.cases(column, number):
                        stage.program(program, case, layout)
                    if with_python and plan.meets(0, column, number):
                        stage.mpi4py(layout, args.full)
                if "2x2" in layouts and programs:
                    stage.program(programs[0], programs[0].cases[0], "2x2", direct=True, how=", started directly")
                    if number == 0 and not args.names:
                        over_libfabric(stage, programs)
                launcher.finish()
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
