#!/usr/bin/env python3
"""The C and C++ programs of tests/programs and tests/mpi across emulated hosts, under each launcher.

  PREFIX=dir tests/net/programs.py [--launchers hydra,prterun,srun] [--layouts 2x1,2x2,4x2,3x5] [--all] [NAME...]

Under the first launcher all programs run in all layouts (hosts x ranks on each), under the others a few; --all: all under all.
A layout is left out for programs that want other numbers of ranks. After every run nothing may be left on any host.
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

LAYOUTS = {"2x1": (2, 1), "2x2": (2, 2), "4x2": (4, 2), "3x5": (3, 5)}
# What runs under every launcher: start and end, point to point, collectives, communicators.
FEW = ("programs/ring", "programs/samplesort", "mpi/p2p_modes", "mpi/coll_blocking")
# With 15 ranks on few cores: what means something there.
WIDE = ("programs/", "mpi/coll_blocking", "mpi/comm", "mpi/p2p_order", "mpi/p2p_probe")
# Of mpi4py: point to point, collectives, communicators, pickled objects.
MODULES = ("test_p2p_obj", "test_p2p_buf", "test_cco_buf", "test_cco_obj", "test_comm", "test_request")
TIMEOUT = 120


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


def news(hosts, before, seconds=5):
    """What is on the hosts beyond what was there before."""
    found = []
    for name in hosts.names:
        found += [f"{name}: {line}" for line in hosts.settled(name, seconds, ignore=before[name])]
    return found


def run_one(report, hosts, before, launcher, name, program, case, layout, env, direct=False, again=True):
    """One program once."""
    count, each = LAYOUTS[layout]
    ranks = {host: each for host in hosts.names[:count]}
    command = [program.path, *case]
    started = launcher.direct(hosts, ranks, command) if direct else launcher.mpiexec(hosts, ranks, command)
    seconds = program.timeout
    began = time.monotonic()
    env = {**launcher.environment(hosts), **env, "CHECK_SECONDS": str(seconds - seconds // 8)}
    process = hosts.start("h1", started, env=env)
    try:
        # A launcher that hangs by itself does so before the program says anything.
        if process.wait(min(40, seconds)) is None and again and launcher.unstick(hosts):
            process.close()
            return run_one(report, hosts, before, launcher, name, program, case, layout, env, direct, again=False)
        result = process.result(seconds)
    except Failed as e:
        report.fail(name, f"hung, stopped after {seconds} s", str(e))
        for host in hosts.names:
            if launcher.name != "srun":  # its daemons are needed
                hosts.crash(host)
        return
    took = time.monotonic() - began
    left = news(hosts, before)
    text = f"{result.out}\n{result.err}"
    if result.code != 0:
        report.fail(name, f"exit code {result.code}", text)
    elif left:
        report.fail(name, f"left behind: {'; '.join(left[:3])}", "\n".join(left))
    elif re.search(r"^SKIP: ", text, re.M):
        report.skip(name, re.search(r"^SKIP: (.*)", text, re.M).group(1))
    else:
        report.ok(name, f"{took:.1f} s")
    for host in hosts.names if left and launcher.name != "srun" else ():
        hosts.crash(host)


def over_libfabric(report, hosts, before, launcher, programs):
    """A few programs with messages over libfabric (its tcp provider here)."""
    if not has_library("libfabric.so.1"):
        report.skip("programs over libfabric", "*** libfabric.so.1 is missing (on Debian and Ubuntu: apt-get install libfabric1)")
        return
    for program in (p for p in programs if p.name in FEW):
        tag = f"{program.name} 2x2 {launcher.name}, libfabric"
        run_one(report, hosts, before, launcher, tag, program, program.cases[0], "2x2", {"FARPOST_FABRIC": "ofi"})


def mpi4py(report, hosts, before, launcher):
    """Some of mpi4py's own tests, if scripts/test-mpi4py.sh has built it (there is no way to the internet from in here)."""
    name = f"mpi4py {' '.join(MODULES)} 2x2 {launcher.name}"
    cache = os.environ.get("TEST_CACHE") or os.path.join(ROOT, "build", "cache")
    if not glob.glob(f"{cache}/mpi4py/venv-*/.ready"):
        report.skip(name, "*** not built; scripts/test-mpi4py.sh does that")
        return
    wrapper = os.path.join(hosts.directory, "mpiexec")
    start = launcher.mpiexec(hosts, {"h1": 2, "h2": 2}, [])
    start = start[: start.index("-n")]
    with open(wrapper, "w", encoding="utf-8") as f:
        f.write(f"#!/bin/sh\nexec {' '.join(start)} \"$@\"\n")
    os.chmod(wrapper, 0o755)
    env = {**launcher.environment(hosts), "MPIEXEC": wrapper, "RANKS": "4", "MODE": "each", "PREFIX": PREFIX}
    try:
        result = hosts.run("h1", [f"{ROOT}/scripts/test-mpi4py.sh", *MODULES], env=env, timeout=400, cwd=ROOT)
    except Failed as e:
        report.fail(name, "hung, stopped after 400 s", str(e))
        return
    left = news(hosts, before)
    if result.code == 0 and not left:
        report.ok(name, result.out.strip().splitlines()[-1])
    else:
        report.fail(name, f"exit code {result.code}; left behind: {left[:3]}", f"{result.out}\n{result.err}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--launchers", default="hydra,prterun,srun")
    parser.add_argument("--layouts", default=",".join(LAYOUTS))
    parser.add_argument("--all", action="store_true")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    layouts = args.layouts.split(",")
    for layout in layouts:
        if layout not in LAYOUTS:
            parser.error(f"--layouts {layout}: allowed are {', '.join(LAYOUTS)}")
    report = Report()
    launchers = [launcher for launcher in all_launchers() if launcher.name in args.launchers.split(",")]
    for launcher in launchers:
        if launcher.missing:
            report.skip(f"everything under {launcher.name}", f"*** {launcher.missing}")
    launchers = [launcher for launcher in launchers if not launcher.missing]

    sources = [f"{ROOT}/tests/{d}/*.{e}" for d, e in (("programs", "c"), ("programs", "cc"), ("mpi", "c"))]
    programs = [Program(s) for pattern in sources for s in sorted(glob.glob(pattern))]
    if args.names:
        programs = [p for p in programs if any(p.name == n or p.name.startswith(n + "/") for n in args.names)]
    os.makedirs(f"{ROOT}/build", exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="net-tests.", dir=f"{ROOT}/build") as built:
        for program in programs[:]:
            why = program.compile(built)
            if why:
                report.fail(program.name, "does not compile", why)
                programs.remove(program)
        for layout in layouts:
            count, each = LAYOUTS[layout]
            with Hosts(count, 2, share=[PREFIX, os.environ.get("TEST_CACHE", ROOT)]) as hosts:
                for number, launcher in enumerate(launchers):
                    launcher.prepare(hosts)
                    before = {name: hosts.leftovers(name) for name in hosts.names}
                    for program in programs:
                        everything = args.all or args.names
                        wanted = everything or (number == 0 or program.name in FEW)
                        wide = count * each > 8 and not everything and not program.name.startswith(WIDE)
                        if not wanted or wide or not program.takes(count * each):
                            continue
                        for case in program.cases if number == 0 else program.cases[:1]:
                            tag = " ".join([program.name, *case, layout, launcher.name])
                            run_one(report, hosts, before, launcher, tag, program, case, layout, {})
                    if programs and layout == "2x2":
                        tag = f"{programs[0].name} {layout} {launcher.name}, started directly"
                        run_one(report, hosts, before, launcher, tag, programs[0], programs[0].cases[0], layout, {}, direct=True)
                        if number == 0 and not args.names:
                            over_libfabric(report, hosts, before, launcher, programs)
                            mpi4py(report, hosts, before, launcher)
                    launcher.finish()
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
