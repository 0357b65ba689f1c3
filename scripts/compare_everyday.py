#!/usr/bin/env python3
"""Measure what an ordinary program meets with each library as its launcher starts it by default: the first messages after the
start, idle and beside busy strangers (`farpost bench start`), and calls that find nothing (`farpost bench poll`).

One C source (bench/polling.c) for all of them, as in compare.py. Libraries take turns, a few starts or one job at a time, so that a
busy moment of the host hits all alike. Results go to build/compare/everyday.json; --from prints them again, and --update-docs
writes the tables into docs/performance.md.
"""

import argparse
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import compare  # noqa: E402

STRANGERS = [0, 1, 2]
WORK = [0, 300, 3000, 30000]
RANKS = [1, 2, 4, 8]
RING = 4
START_ROWS = [("first_10_us", 10), ("first_100_us", 100), ("first_1000_us", 1000), ("later_us", None)]
KNOWN = ["farpost", "mpich", "openmpi", "impi-rt"]
# Goals: the 98 % of idle starts beside that of starts with `--bind-to core`, in which no choice is left; all 1,000 messages.
BOUND, FIRST_1000_US = 1.2, 2000.0


def build(args, peers):
    """bench/polling.c for the standard ABI and for Open MPI."""
    source = os.path.join(ROOT, "bench", "polling.c")
    os.makedirs(args.out, exist_ok=True)
    programs = {"abi": os.path.join(args.out, "polling-abi"), "openmpi": os.path.join(args.out, "polling-openmpi")}
    subprocess.run([os.path.join(args.farpost, "bin", "mpicc"), "-O2", source, "-o", programs["abi"]], check=True)
    if "openmpi" in peers:
        top = peers["openmpi"]
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or "cc"
        flags = ["-I", os.path.join(top, "include"), "-L", os.path.join(top, "lib"), "-lmpi"]
        subprocess.run([compiler, "-O2", source, "-o", programs["openmpi"], *flags], check=True)
    return programs


def bench(args, library, what, options, launcher_options=""):
    """The JSON result of `farpost bench WHAT` for one library, or None."""
    command = [os.path.join(args.farpost, "bin", "farpost"), "bench", what, "--json", "-", "--launcher", library.launcher]
    command += ["--program", library.program, *options]
    if launcher_options:
        command.append(f"--launcher-options={launcher_options}")
    # What the launcher hands on chooses the library; farpost itself loads none here.
    try:
        done = subprocess.run(command, env=compare.environment(library.env), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=args.timeout, check=False)
    except subprocess.TimeoutExpired:
        print(f"compare: {library.title}: {what} took more than {args.timeout} s", file=sys.stderr)
        return None
    if done.returncode != 0:
        print(f"compare: {library.title}: {what}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout)


def measure_starts(args, libs):
    """{library: {strangers: {row: [microseconds]}}}, with Farpost's bound starts as "bound"."""
    found = {}
    a_time = min(5, args.starts)
    for _ in range(max(1, args.starts // a_time)):
        for strangers in STRANGERS:
            for lib in libs:
                variants = [(lib.key, "")]
                if lib.key == "farpost" and strangers == 0:
                    variants.append(("bound", "--bind-to core"))
                for key, options in variants:
                    result = bench(args, lib, "start", ["--trials", str(a_time), "--strangers", str(strangers)], options)
                    for row in result["rows"] if result else []:
                        into = found.setdefault(key, {}).setdefault(str(strangers), {})
                        for name, _ in START_ROWS:
                            into.setdefault(name, []).extend(row[name])
            print(".", end="", flush=True)
    print()
    return found


def measure_polls(args, libs):
    """{library: {"RANKS WORK": [microseconds], "ring": [microseconds]}}"""
    found = {}
    for _ in range(args.rounds):
        for ranks in RANKS:
            for lib in libs:
                more = "--oversubscribe" if lib.key == "openmpi" else ""
                options = ["--trials", "1", "-n", str(ranks), "--work", ",".join(map(str, WORK)), "--ring", str(RING)]
                result = bench(args, lib, "poll", options, more)
                if not result:
                    continue
                into = found.setdefault(lib.key, {})
                for row in result["rows"]:
                    into.setdefault(f"{row['ranks']} {row['work_ns']}", []).append(row["us"])
                into.setdefault("ring", []).append(result["ring"]["hop_us"])
            print(".", end="", flush=True)
    print()
    return found


def part(values, of):
    """Of the values the one that this part of them does not exceed."""
    values = sorted(values)
    return values[max(0, min(len(values), -(-len(values) * of // 100)) - 1)]


def lines_of(cells):
    return ["| " + " | ".join(row) + " |" for row in cells]


def start_table(saved):
    starts, titles = saved["starts"], saved["titles"]
    keys = [key for key in KNOWN if key in starts]
    cells = [["Busy strangers", "8-byte messages", *(titles[key] for key in keys), "goal"], ["---:", "---", *["---:"] * len(keys), "---"]]
    for strangers in map(str, STRANGERS):
        for name, messages in START_ROWS:
            row = [strangers, f"first {messages:,} together, µs" if messages else "one, later, µs"]
            medians = {}
            for key in keys:
                values = starts[key].get(strangers, {}).get(name)
                if not values:
                    row.append("-")
                    continue
                medians[key] = statistics.median(values)
                digits = 0 if messages else 2
                row.append(f"{medians[key]:.{digits}f} ({part(values, 98):.{digits}f})")
            row.append(start_goal(starts, strangers, name, medians))
            cells.append(row)
    return lines_of(cells)


def start_goal(starts, strangers, name, medians):
    """What must be reached in this row, and whether it is."""
    if "farpost" not in medians:
        return ""
    mine = starts["farpost"][strangers][name]
    verdict = None
    if strangers == "0" and name == "first_1000_us":
        text, verdict = f"98 % ≤ {FIRST_1000_US:.0f}", part(mine, 98) <= FIRST_1000_US
    elif strangers == "0" and name == "later_us" and starts.get("bound"):
        # Both at the same part: where a hypervisor moves the cores together and apart, bound starts have two speeds as well.
        bound = part(starts["bound"]["0"][name], 98)
        half = statistics.median(starts["bound"]["0"][name])
        text, verdict = f"98 % ≤ {BOUND} × bound's ({half:.2f}, {bound:.2f})", part(mine, 98) <= BOUND * bound
    elif strangers != "0" and name == "later_us" and len(medians) > 1:
        best = min(value for key, value in medians.items() if key != "farpost")
        text, verdict = "median ≤ best other", medians["farpost"] <= best
    return "" if verdict is None else f"{text}: {'met' if verdict else '**missed**'}"


def poll_table(saved):
    polls, titles = saved["polls"], saved["titles"]
    keys = [key for key in KNOWN if key in polls]
    cells = [["Ranks", "work between calls, µs", *(titles[key] for key in keys)], ["---:", "---:", *["---:"] * len(keys)]]

    def row(first, second, name):
        values = [polls[key].get(name) for key in keys]
        return [first, second, *(f"{statistics.median(v):.2f}" if v else "-" for v in values)]

    for ranks in RANKS:
        cells += [row(str(ranks), f"{work / 1000:g}", f"{ranks} {work}") for work in WORK]
    cells.append(row(str(RING), "token ring, a hop", "ring"))
    return lines_of(cells)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--farpost", default=os.path.join(ROOT, "build", "install"), help="Farpost's install tree")
    parser.add_argument("--only", default=",".join(KNOWN), help="libraries, e.g. farpost,mpich")
    parser.add_argument("--parts", default="start,poll", help="parts: start, poll")
    parser.add_argument("--starts", type=int, default=50, help="starts for each number of strangers (default 50)")
    parser.add_argument("--rounds", type=int, default=5, help="jobs for each row of the polls (default 5); the median counts")
    parser.add_argument("--timeout", type=int, default=600, help="seconds one part of one library may take (default 600)")
    parser.add_argument("--out", default=os.path.join(ROOT, "build", "compare"), help="directory for results")
    parser.add_argument("--update-docs", action="store_true", help="write the tables into docs/performance.md")
    parser.add_argument("--from", dest="saved", metavar="JSON", help="use the results in this file; measure nothing")
    args = parser.parse_args()
    args.farpost, args.out, args.only = os.path.abspath(args.farpost), os.path.abspath(args.out), args.only.split(",")

    if args.saved:
        with open(args.saved, encoding="utf-8") as f:
            saved = json.load(f)
    else:
        disturbed = compare.busy()
        peers = compare.fetch_peers([name for name in args.only if name != "farpost"])
        libs = compare.libraries(args, peers, build(args, peers))
        saved = {"titles": {lib.key: lib.title for lib in libs}, "starts": {}, "polls": {}}
        if "start" in args.parts.split(","):
            saved["starts"] = measure_starts(args, libs)
        if "poll" in args.parts.split(","):
            saved["polls"] = measure_polls(args, libs)
        day = datetime.date.today().isoformat()
        saved["where"] = f"on {day}: {compare.host()}.{disturbed}"
        path = os.path.join(args.out, "everyday.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(saved, f, indent=1)
        print(f"wrote {path}")

    notes = {
        "start": f"Medians of {args.starts} interleaved starts, in parentheses what 98 % of them did not exceed, {saved['where']}",
        "poll": f"Microseconds of an iteration: medians of {args.rounds} interleaved jobs {saved['where']}",
    }
    for name, table in (("start", start_table), ("poll", poll_table)):
        if not saved[f"{name}s"]:
            continue
        lines = table(saved)
        print(compare.aligned(lines))
        print(f"\n{notes[name]}\n")
        if args.update_docs:
            compare.update_table(os.path.join("docs", "performance.md"), name, lines, notes[name])


if __name__ == "__main__":
    main()
