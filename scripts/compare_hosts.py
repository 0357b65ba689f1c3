#!/usr/bin/env python3
"""Measure Farpost between hosts, next to MPICH, Open MPI, Intel MPI, a raw TCP connection and libfabric's own fi_pingpong.
Run by `make compare HOSTS=2`.

The hosts are network namespaces on this machine (tests/net/hosts.py). Everything runs in every round, one after the other,
so that a busy moment hits all alike. As in compare.py, of several settings of a library the best counts, row by row.
"""

import argparse
import contextlib
import datetime
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "net"))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import compare  # noqa: E402
import hosts as emulated  # noqa: E402

TIMEOUT = 120
STARTS = 3
PORT = 5000


class Row:
    """One line of the table: which way is better, the goals as (name of what it is compared with, factor)."""

    def __init__(self, key, label, unit, less, goals, digits):
        self.key, self.label, self.unit, self.less, self.goals, self.digits = key, label, unit, less, goals, digits

    def best(self, values):
        return min(values) if self.less else max(values)


ROWS = [
    Row("latency_8", "8-byte ping-pong, one way", "µs", True, [("tcp", "peers", 1.0), ("tcp", "raw", 1.15), ("ofi", "fi", 1.2)], 2),
    Row("bandwidth_65536", "64 KiB ping-pong", "GB/s", False, [("tcp", "peers", 1.0), ("tcp", "raw", 0.9)], 2),
    Row("bandwidth_1048576", "1 MiB ping-pong", "GB/s", False, [("tcp", "peers", 1.0), ("tcp", "raw", 0.9)], 2),
    Row("bandwidth_4194304", "4 MiB ping-pong", "GB/s", False, [("tcp", "peers", 1.0), ("tcp", "raw", 0.9)], 2),
    Row("crowd_barrier@2x2", "barrier, 2 hosts × 2 ranks", "µs", True, [("tcp", "peers", 0.05)], 0),
    Row("crowd_allreduce_8@2x2", "allreduce 8 B, 2 hosts × 2 ranks", "µs", True, [("tcp", "peers", 0.05)], 0),
    Row("crowd_barrier@4x2", "barrier, 4 hosts × 2 ranks", "µs", True, [("tcp", "peers", 0.05)], 0),
    Row("crowd_allreduce_8@4x2", "allreduce 8 B, 4 hosts × 2 ranks", "µs", True, [("tcp", "peers", 0.05)], 0),
    Row("startup", "start of an empty program, 2 hosts, Hydra", "ms", True, [("tcp", "peers", 1.0)], 0),
    Row("two_rails", "two rails of 1 Gbit/s against one", "×", False, [("tcp", None, 1.9)], 2),
    Row("stream_pause", "pause when one rail of two is cut", "s", True, [("tcp", None, 1.0)], 2),
]

COLUMNS = [
    ("raw", "raw TCP"),
    ("fi", "fi_pingpong (tcp, rdm)"),
    ("tcp", "Farpost tcp"),
    ("tcp-encrypted", "Farpost tcp, encrypted"),
    ("ofi", "Farpost ofi (tcp)"),
    ("mpich", "MPICH"),
    ("openmpi", "Open MPI"),
    ("impi-rt", "Intel MPI"),
]
PEERS = ("mpich", "openmpi", "impi-rt")


class Way:
    """How to run a program on several hosts with one library: `command(hosts, names, per host, program and arguments)`."""

    def __init__(self, key, program, env, command, variants):
        self.key, self.program, self.env, self.command, self.variants = key, program, env, command, variants


def hydra(launcher):
    def command(hosts, names, each, argv):
        agent = ["-launcher", "ssh", "-launcher-exec", hosts.rsh]
        places = ["-hosts", ",".join(f"{name}:{each}" for name in names)]
        return [launcher, *agent, *places, "-n", str(each * len(names)), *argv]

    return command


def intel(launcher):
    def command(hosts, names, each, argv):
        agent = ["-bootstrap", "ssh", "-bootstrap-exec", hosts.rsh]
        places = ["-hosts", ",".join(names), "-ppn", str(each)]
        return [launcher, *agent, *places, "-n", str(each * len(names)), *argv]

    return command


def prrte(launcher):
    def command(hosts, names, each, argv):
        agent = ["--prtemca", "plm_ssh_agent", hosts.rsh, "--bind-to", "none"]
        places = ["--host", ",".join(f"{name}:{each}" for name in names)]
        return [launcher, *agent, *places, "-n", str(each * len(names)), *argv]

    return command


def ways(args, peers, programs):
    """All libraries, by column."""
    found = {}
    if "mpich" in peers:
        top = peers["mpich"]
        launcher = hydra(os.path.join(top, "bin", "mpiexec.hydra"))
        lib = {"LD_LIBRARY_PATH": os.path.join(top, "lib")}
        ours = {"LD_LIBRARY_PATH": os.path.join(args.farpost, "lib")}
        found["mpich"] = Way("mpich", programs["abi"], lib, launcher, [("default", [], {})])
        for key, extra in (
            ("tcp", {"FARPOST_FABRIC": "tcp"}),
            ("tcp-encrypted", {"FARPOST_FABRIC": "tcp", "FARPOST_ENCRYPT": "1"}),
            ("ofi", {"FARPOST_FABRIC": "ofi", "FARPOST_OFI_PROVIDER": "tcp"}),
        ):
            found[key] = Way(key, programs["abi"], {**ours, **extra}, launcher, [("default", [], {})])
    if "openmpi" in peers:
        base = next(lib for lib in compare.libraries(args, {"openmpi": peers["openmpi"]}, programs) if lib.key == "openmpi")
        launcher = prrte(os.path.join(peers["openmpi"], "bin", "mpiexec"))
        lean = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,sm,tcp", "OMPI_MCA_btl_tcp_if_include": "10.77.0.0/24"}
        both = [("default", [], {}), ("ob1 and tcp", [], lean)]
        found["openmpi"] = Way("openmpi", programs["openmpi"], base.env, launcher, both)
    if "impi-rt" in peers:
        base = next(lib for lib in compare.libraries(args, {"impi-rt": peers["impi-rt"]}, programs) if lib.key == "impi-rt")
        env = {**base.env, "I_MPI_FABRICS": "shm:ofi", "FI_PROVIDER": "tcp", "I_MPI_PIN": "0"}
        launcher = intel(os.path.join(peers["impi-rt"], "bin", "mpiexec.hydra"))
        found["impi-rt"] = Way("impi-rt", programs["abi"], env, launcher, [("default", [], {})])
    return {key: way for key, way in found.items() if key in args.only}


def scrubbed(env):
    """The environment of a run, as compare.py's, for tests/net/hosts.py: it adds to this process's."""
    wanted = compare.environment(env)
    stray = [name for name in os.environ if name not in wanted]
    for name in stray:
        del os.environ[name]
    return wanted


def run(hosts, way, names, each, argv, extra, timeout=TIMEOUT, first=None):
    """Run from the first of `names` (or from `first`); its output and wall time."""
    command = way.command(hosts, names, each, [way.program, *argv])
    started = time.monotonic()
    result = hosts.run(first or names[0], command, timeout=timeout, env=scrubbed({**way.env, **extra}))
    took = time.monotonic() - started
    if result.code != 0:
        lines = [line for line in (result.err + result.out).splitlines() if line.strip()]
        raise RuntimeError(f"exit code {result.code} ({lines[0] if lines else 'no message'}): {' '.join(command)}")
    return result.out, took


class Samples:
    """What was measured: column, row, setting."""

    def __init__(self):
        self.values = {}
        self.complaints = []

    def add(self, column, row, variant, value):
        self.values.setdefault(column, {}).setdefault(row, {}).setdefault(variant, []).append(value)

    def complain(self, text):
        if text not in self.complaints:
            self.complaints.append(text)
            print(f"compare: {text}", file=sys.stderr)

    def settled(self, column, row):
        medians = [statistics.median(xs) for xs in self.values.get(column, {}).get(row.key, {}).values()]
        return row.best(medians) if medians else None

    @contextlib.contextmanager
    def tolerate(self, what):
        try:
            yield
        except (RuntimeError, OSError, emulated.Failed) as e:
            self.complain(f"{what}: {str(e).splitlines()[0] if str(e) else type(e).__name__}")


def measure_raw(hosts, raw, samples):
    with samples.tolerate("raw TCP"), hosts.start("h2", [raw, "serve", PORT]) as server:
        out = hosts.run("h1", [raw, "ping", hosts.addresses["h2"][0], PORT], timeout=TIMEOUT, check=True).out
        server.result(20)
        for name, value in compare.results(out).items():
            samples.add("raw", name, "default", value)


def measure_libfabric(hosts, samples):
    """fi_pingpong's columns: bytes, number sent and answered, total, time, MB/s, microseconds per transfer, ..."""
    program = shutil.which("fi_pingpong")
    if program is None:
        return samples.complain("fi_pingpong is not there (on Debian: apt-get install libfabric-bin)")
    usual = [program, "-p", "tcp", "-e", "rdm"]
    for size, iterations in ((8, 20000), (65536, 2000), (1 << 20, 300), (4 << 20, 80)):
        with samples.tolerate("fi_pingpong"), hosts.start("h2", [*usual, "-S", size, "-I", iterations]) as server:
            time.sleep(0.3)
            target = hosts.addresses["h2"][0]
            out = hosts.run("h1", [*usual, "-S", size, "-I", iterations, target], timeout=TIMEOUT, check=True).out
            server.result(20)
            rows = [line.split() for line in out.splitlines() if re.match(r"\d", line)]
            if not rows:
                raise RuntimeError(f"said nothing: {out}")
            per_transfer = float(rows[-1][6])
            if size == 8:
                samples.add("fi", "latency_8", "default", per_transfer)
            else:
                samples.add("fi", f"bandwidth_{size}", "default", size / per_transfer / 1e3)


def measure_far(hosts, way, samples):
    for variant, _, extra in way.variants:
        with samples.tolerate(f"{way.key}, {variant}"):
            out, _ = run(hosts, way, ["h1", "h2"], 1, ["far"], extra)
            for name, value in compare.results(out).items():
                samples.add(way.key, name, variant, value)


def measure_start(hosts, way, samples):
    for variant, _, extra in way.variants:
        with samples.tolerate(f"{way.key}, {variant}"):
            for _ in range(STARTS):
                samples.add(way.key, "startup", variant, run(hosts, way, ["h1", "h2"], 1, ["empty"], extra)[1] * 1e3)


def measure_crowd(hosts, way, samples, count):
    names = hosts.names[:count]
    for variant, _, extra in way.variants:
        with samples.tolerate(f"{way.key}, {variant}, {count} hosts x 2"):
            out, _ = run(hosts, way, names, 2, ["crowd"], extra)
            for name, value in compare.results(out).items():
                samples.add(way.key, f"{name}@{count}x2", variant, value)


def measure_rails(way, samples):
    """Farpost only: two slow rails against one, and a cut in a stream over both."""
    with samples.tolerate(f"{way.key}, two rails"), emulated.Hosts(2, rails=2, pin=True) as hosts:
        for name in hosts.names:
            for rail in range(2):
                hosts.slow(name, rail, "1gbit")
        speeds = []
        for interfaces in ("r0", "r0,r1"):
            out, _ = run(hosts, way, hosts.names, 1, ["stream", "2"], {"FARPOST_INTERFACE": interfaces})
            speeds.append(compare.results(out)["stream_bandwidth"])
        samples.add(way.key, "two_rails", "default", speeds[1] / speeds[0])
        cutter = threading.Timer(2.0, lambda: hosts.cut("h1", 0))
        cutter.start()
        try:
            # The launcher's own connections take the rail that stays.
            out, _ = run(hosts, way, [f"{name}-r1" for name in hosts.names], 1, ["stream", "4"], {}, first="h1")
        finally:
            cutter.join()
        samples.add(way.key, "stream_pause", "default", compare.results(out)["stream_pause"])


def table(samples):
    """Lines of a Markdown table, and whether every goal was reached."""
    columns = [(key, title) for key, title in COLUMNS if samples.values.get(key)]
    lines = [["What", "unit", *(title for _, title in columns), "goals"]]
    lines.append(["---", "---"] + ["---:"] * len(columns) + ["---"])
    reached = True
    for row in ROWS:
        values = {key: samples.settled(key, row) for key, _ in COLUMNS}
        if all(v is None for v in values.values()):
            continue
        against = dict(values)
        others = [values[p] for p in PEERS if values[p] is not None]
        against["peers"] = row.best(others) if others else None
        goals = []
        for mine, other, factor in row.goals:
            sign = "≤" if row.less else "≥"
            if values[mine] is None or other and against[other] is None:
                goals.append(f"{mine} {sign} {factor:g} × {other or ''}: not measured")
                reached = False
                continue
            ratio = values[mine] / (against[other] if other else 1)
            met = ratio <= factor if row.less else ratio >= factor
            reached = reached and met
            name = {"peers": "best peer", "raw": "raw TCP", "fi": "fi_pingpong"}.get(other)
            what = f"{ratio:.2f} × {name}, {sign} {factor:g}" if other else f"{sign} {factor:g}"
            goals.append(f"{mine} {what} {'met' if met else '**missed**'}")
        cells = ["-" if values[k] is None else f"{values[k]:.{row.digits}f}" for k, _ in columns]
        lines.append([row.label, row.unit, *cells, "; ".join(goals)])
    return ["| " + " | ".join(cells) + " |" for cells in lines], reached


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    everything = [key for key, _ in COLUMNS]
    parser.add_argument("--farpost", default=os.path.join(ROOT, "build", "install"), help="Farpost's install tree")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default 3); the median over them counts")
    parser.add_argument("--only", default=",".join(everything), help=f"columns: {','.join(everything)}")
    parser.add_argument("--parts", default="far,start,crowd,rails", help="parts: far, start, crowd, rails")
    parser.add_argument("--out", default=os.path.join(ROOT, "build", "compare"), help="directory for results")
    parser.add_argument("--update-docs", action="store_true", help="write the table into README.md and docs/performance.md")
    args = parser.parse_args()
    args.farpost, args.out = os.path.abspath(args.farpost), os.path.abspath(args.out)
    args.only, args.parts = args.only.split(","), args.parts.split(",")
    for key in args.only:
        if key not in everything:
            parser.error(f"--only {key}: allowed are {', '.join(everything)}")
    why = emulated.skipped_because()
    if why:
        sys.exit(f"compare: no hosts can be emulated here: {why}")

    # Hydra, which starts Farpost too, comes with MPICH.
    peers = compare.fetch_peers(["mpich", *(p for p in ("openmpi", "impi-rt") if p in args.only)])
    programs = compare.build(args, peers)
    raw = os.path.join(args.out, "rawtcp")
    compiler = os.environ.get("CC") or shutil.which("cc") or "cc"
    subprocess.run([compiler, "-O2", os.path.join(ROOT, "bench", "rawtcp.c"), "-o", raw], check=True)
    found = ways(args, peers, programs)
    samples = Samples()
    disturbed = compare.busy()

    def say(text):
        if sys.stderr.isatty():
            print(f"\r{text:<60}", end="", file=sys.stderr, flush=True)

    for i in range(args.rounds):
        share = [args.farpost, args.out, *peers.values()]
        if "far" in args.parts or "start" in args.parts:
            with emulated.Hosts(2, direct=True, pin=True, share=share) as hosts:
                if "far" in args.parts:
                    say(f"round {i + 1} of {args.rounds}: raw")
                    if "raw" in args.only:
                        measure_raw(hosts, raw, samples)
                    if "fi" in args.only:
                        measure_libfabric(hosts, samples)
                    for way in found.values():
                        say(f"round {i + 1} of {args.rounds}: {way.key}")
                        measure_far(hosts, way, samples)
                if "start" in args.parts:
                    for way in found.values():
                        say(f"round {i + 1} of {args.rounds}: start, {way.key}")
                        measure_start(hosts, way, samples)
        if "crowd" in args.parts:
            with emulated.Hosts(4, share=share) as hosts:
                for way in found.values():
                    for count in (2, 4):
                        say(f"round {i + 1} of {args.rounds}: {count} hosts, {way.key}")
                        measure_crowd(hosts, way, samples, count)
        if "rails" in args.parts and "tcp" in found:
            say(f"round {i + 1} of {args.rounds}: rails")
            measure_rails(found["tcp"], samples)
    if sys.stderr.isatty():
        print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
    day = datetime.date.today().isoformat()
    note = (
        f"Medians of {args.rounds} interleaved rounds of `make compare HOSTS=2` on {day}: {compare.host()}. Hosts are network "
        "namespaces; the first rows on two joined by a veth pair, each pinned to a processor. Of several settings of a library "
        "its best counts, row by row (scripts/compare_hosts.py lists them)." + disturbed
    )
    lines, reached = table(samples)
    print(compare.aligned(lines))
    print()
    print(note)
    path = os.path.join(args.out, "compare-hosts.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"note": note, "host": compare.host(), "samples": samples.values}, f, indent=1)
    print(f"wrote {path}")
    if args.update_docs:
        for name in ("docs/performance.md", "README.md"):
            compare.update_table(name, "compare-hosts", lines, note)
    if not reached:
        print("Some goals are missed (see the last column).")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except (OSError, subprocess.CalledProcessError) as e:
        sys.exit(f"compare: {e}")
