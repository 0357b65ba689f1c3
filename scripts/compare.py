#!/usr/bin/env python3
"""Measure Farpost next to MPICH, Open MPI and Intel MPI on this host. Run by `make compare`.

The peers are Python packages, fetched once into build/cache. One C source (bench/compare.c) is compiled once for the
standard ABI (Farpost, MPICH and Intel MPI run the very same executable) and once for Open MPI. All libraries run in
every round, one after the other, so that a busy moment of the host hits them alike. Where a library has several
reasonable settings, each is measured and its best counts, row by row. Each round also measures what the machine alone
takes to hand a cache line from core to core (bench/floor.c). Only Python's standard library is used.
"""

import argparse
import datetime
import json
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TIMEOUT = 90  # seconds one program may take
CROWD = 8  # ranks of the measurements with more ranks than cores
STARTS = 5  # empty programs started per round and variant


class Row:
    """One line of the table: what it is called, which way is better, and what Farpost has to reach."""

    def __init__(self, key, label, unit, less, must, aim, digits):
        self.key, self.label, self.unit, self.less = key, label, unit, less
        self.must, self.aim, self.digits = must, aim, digits

    def best(self, values):
        return min(values) if self.less else max(values)

    def show(self, value):
        return "-" if value is None else f"{value:.{self.digits}f}"

    def reaches(self, ratio, bound):
        return ratio <= bound if self.less else ratio >= bound


# key, label, unit, less is better, must and aim as the ratio Farpost / best peer, digits
ROWS = [
    Row("latency_8", "8-byte ping-pong, 2 ranks, one way", "µs", True, 0.5, None, 3),
    Row("rate_8", "message rate, 8 bytes, window 64", "M/s", False, 2.0, None, 1),
    Row("bandwidth_65536", "64 KiB ping-pong", "GB/s", False, 1.0, 2.0, 1),
    Row("bandwidth_1048576", "1 MiB ping-pong", "GB/s", False, 1.0, 2.0, 1),
    Row("bandwidth_4194304", "4 MiB ping-pong", "GB/s", False, 1.0, 2.0, 1),
    Row("allreduce_8", "allreduce 8 B, 2 ranks", "µs", True, 1.0, 0.5, 3),
    Row("allreduce_1048576", "allreduce 1 MiB, 2 ranks", "µs", True, 1.0, 0.5, 0),
    Row("crowd_barrier", f"barrier, {CROWD} ranks", "µs", True, 1.0, 0.5, 1),
    Row("crowd_allreduce_8", f"allreduce 8 B, {CROWD} ranks", "µs", True, 1.0, 0.5, 1),
    Row("startup", "`mpiexec -n 2` of an empty program", "ms", True, 0.5, None, 1),
    Row("resident", "resident memory of an idle rank", "MiB", True, 1.0, None, 1),
]


class Library:
    """How to run a program with one MPI library. `variants` maps a mode to [(name, launcher options, environment)]."""

    def __init__(self, key, title, launcher, env, program, variants):
        self.key, self.title, self.launcher, self.env = key, title, launcher, env
        self.program, self.variants = program, variants
        self.version = ""

    def command(self, mode, options, ranks):
        return [self.launcher, *options, "-n", str(ranks), self.program, mode]


def libraries(args, peers, programs):
    """The libraries to measure, Farpost first."""
    found = []
    if "farpost" in args.only:
        env = {"LD_LIBRARY_PATH": os.path.join(args.farpost, "lib")}
        usual = [("default", ["--bind-to", "core"], {})]
        crowd = [("default", [], {})]
        variants = {"pair": usual, "crowd": crowd, "empty": crowd, "idle": crowd}
        launcher = os.path.join(args.farpost, "bin", "mpiexec")
        found.append(Library("farpost", "Farpost", launcher, env, programs["abi"], variants))
    if "mpich" in peers:
        top = peers["mpich"]
        env = {"LD_LIBRARY_PATH": os.path.join(top, "lib")}
        yields = {"MPIR_CVAR_POLLS_BEFORE_YIELD": "1"}
        plain = [("default", [], {})]
        variants = {
            "pair": [("default", ["-bind-to", "core"], {})],
            "crowd": plain + [("yields early", [], yields)],
            "empty": plain,
            "idle": plain,
        }
        launcher = os.path.join(top, "bin", "mpiexec")
        found.append(Library("mpich", "MPICH", launcher, env, programs["abi"], variants))
    if "openmpi" in peers:
        top = peers["openmpi"]
        env = {
            "OPAL_PREFIX": top,
            "LD_LIBRARY_PATH": os.path.join(top, "lib"),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }
        lean = ["--mca", "pml", "ob1", "--mca", "btl", "self,sm"]
        crowd = ["--oversubscribe", "--bind-to", "none"]
        variants = {
            "pair": [("default", ["--bind-to", "core"], {}), ("ob1 and sm", ["--bind-to", "core", *lean], {})],
            "crowd": [("default", crowd, {}), ("yields", [*crowd, "--mca", "mpi_yield_when_idle", "1"], {})],
            "empty": [("default", [], {}), ("ob1 and sm", lean, {})],
            "idle": [("default", [], {}), ("ob1 and sm", lean, {})],
        }
        launcher = os.path.join(top, "bin", "mpiexec")
        found.append(Library("openmpi", "Open MPI", launcher, env, programs["openmpi"], variants))
    if "impi-rt" in peers:
        top = peers["impi-rt"]
        fabric = os.path.join(top, "opt", "mpi", "libfabric", "lib")
        env = {"I_MPI_ROOT": top, "LD_LIBRARY_PATH": os.path.join(top, "lib") + ":" + fabric}
        if os.path.isdir(os.path.join(fabric, "prov")):
            env["FI_PROVIDER_PATH"] = os.path.join(fabric, "prov")
        shm = {"I_MPI_FABRICS": "shm"}
        both = [("default", [], {}), ("shm only", [], shm)]
        crowd = [
            ("default", [], {}),
            ("wait mode", [], {"I_MPI_WAIT_MODE": "1"}),
            ("unpinned, yields", [], {"I_MPI_PIN": "0", "I_MPI_THREAD_YIELD": "2", "I_MPI_SPIN_COUNT": "1"}),
        ]
        variants = {"pair": both, "crowd": crowd, "empty": both, "idle": both}
        launcher = os.path.join(top, "bin", "mpiexec.hydra")
        found.append(Library("impi-rt", "Intel MPI", launcher, env, programs["abi"], variants))
    return found


def environment(extra):
    """This process's environment without what other MPI libraries and earlier runs left there, and with `extra`."""
    stray = re.compile(r"^(PMI|PMIX|OMPI|PRTE|OPAL|I_MPI|MPI|MPIR|HYDRA|HYDI|FI|FARPOST)_|^LD_LIBRARY_PATH$|^LD_PRELOAD$")
    env = {k: v for k, v in os.environ.items() if not stray.match(k)}
    env.update(extra)
    return env


def run(command, env):
    """Run one program; its output and wall time in seconds. RuntimeError when it fails or takes too long."""
    start = time.monotonic()
    process = subprocess.Popen(
        command,
        env=environment(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # so that what it started can be ended with it
        text=True,
        errors="replace",
    )
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise RuntimeError(f"took more than {TIMEOUT} s: {' '.join(command)}") from None
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    took = time.monotonic() - start
    if process.returncode != 0:
        lines = [line for line in (err + out).splitlines() if line.strip()]
        cause = lines[0] if lines else "no message"
        raise RuntimeError(f"exit code {process.returncode} ({cause}): {' '.join(command)}")
    return out, took


def results(text):
    """The `result NAME VALUE UNIT` lines of an output."""
    found = re.findall(r"result (\S+) (\S+) \S+", text)
    return {name: float(value) for name, value in found}


def one_round(library, args, samples, complain):
    """Run every mode and variant of a library once and add to `samples[row or curve][variant]`."""
    def add(name, variant, value):
        samples.setdefault(name, {}).setdefault(variant, []).append(value)

    for mode, ranks in (("pair", 2), ("crowd", CROWD), ("idle", 2), ("empty", 2)):
        if mode not in args.modes:
            continue
        for variant, options, env in library.variants[mode]:
            command = library.command(mode, options, ranks)
            try:
                if mode == "empty":
                    for _ in range(STARTS):
                        add("startup", variant, run(command, {**library.env, **env})[1] * 1e3)
                else:
                    output, _ = run(command, {**library.env, **env})
                    for name, value in results(output).items():
                        add(name, variant, value)
            except RuntimeError as e:
                complain(f"{library.title}, {variant}: {e}")


def settle(samples, rows):
    """Per row: the best variant's median. {row: {"value", "variant", "medians"}}"""
    settled = {}
    for row in rows:
        medians = {v: statistics.median(xs) for v, xs in samples.get(row.key, {}).items() if xs}
        if medians:
            value = row.best(medians.values())
            variant = next(v for v, m in medians.items() if m == value)
            settled[row.key] = {"value": value, "variant": variant, "medians": medians}
    return settled


def curve(samples):
    """The ping-pong curve of the quickest variant: [(bytes, median, min, max) in microseconds]."""
    points = []
    for name, variants in samples.items():
        if name.startswith("curve_"):
            best = min(variants.values(), key=statistics.median)
            points.append((int(name[6:]), statistics.median(best), min(best), max(best)))
    return sorted(points)


def version_of(library):
    """What the library says it is, for the table's head."""
    try:
        output, _ = run(library.command("version", [], 1), library.env)
    except RuntimeError as e:
        return str(e)
    match = re.search(r"version (.*)", output)
    text = match.group(1) if match else ""
    number = re.search(r"\d+\.\d+(\.\d+)?", text)
    return number.group(0) if number else text


def table(libs, settled):
    """Lines of the Markdown table, and whether everything that must be reached is."""
    peers = [lib for lib in libs if lib.key != "farpost"]
    ours = next((lib for lib in libs if lib.key == "farpost"), None)
    head = ["What", "unit"] + [f"{lib.title} {lib.version}".strip() for lib in libs]
    if ours and peers:
        head += ["Farpost / best peer", "goal"]
    lines = [head, ["---", "---"] + ["---:"] * (len(head) - 2)]
    reached = True
    for row in ROWS:
        values = {lib.key: settled[lib.key].get(row.key, {}).get("value") for lib in libs}
        if all(v is None for v in values.values()):
            continue
        cells = [row.label, row.unit] + [row.show(values[lib.key]) for lib in libs]
        if ours and peers:
            others = [values[p.key] for p in peers if values[p.key] is not None]
            mine = values["farpost"]
            goal = f"{'≤' if row.less else '≥'} {row.must:g} ×"
            if mine is None or not others:
                cells += ["-", goal]
                reached = reached and mine is not None
            else:
                ratio = mine / row.best(others)
                met = row.reaches(ratio, row.must)
                reached = reached and met
                cells += [f"{ratio:.2f} ×", f"{goal} {'met' if met else '**missed**'}"]
        lines.append(cells)
    return ["| " + " | ".join(cells) + " |" for cells in lines], reached


def aligned(lines):
    """The same table for a terminal."""
    cells = [[c.strip().replace("**", "") for c in line.strip("|").split("|")] for line in lines]
    cells = [row for row in cells if not set("".join(row)) <= set("-: ")]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    return "\n".join(
        "  ".join(c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))) for row in cells
    )


def host():
    """Processor and cores, for people."""
    model = platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            match = re.search(r"model name\s*:\s*(.*)", f.read())
            model = match.group(1) if match else model
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0))
    return f"{model}, {cores} cores, Linux {platform.release()}"


def busy():
    """A sentence about what else runs here, if anything does."""
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    return "" if load < 0.5 else f" The host was busy before (load {load:.1f} on {cores} cores): numbers are off."


def floor_sentence(floors):
    """A sentence about the machine's part of a short message, if it was measured. {name: [nanoseconds]}"""
    if not floors:
        return ""
    one, each = (statistics.median(floors[name]) for name in ("one_line", "line_each_way"))
    return (
        f" The machine's part of the 8-byte ping-pong: two threads on two cores hand one cache line back and forth in "
        f"{one:.0f} ns one way, and with a line for each way in {each:.0f} ns."
    )


def update_table(name, marker, lines, note):
    """Replace what is between the markers of that name in a file of the project."""
    path = os.path.join(ROOT, name)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    begin, end = f"<!-- {marker}:begin -->", f"<!-- {marker}:end -->"
    if begin not in text or end not in text:
        raise SystemExit(f"compare: {name} has no {begin} ... {end}")
    before, rest = text.split(begin, 1)
    after = rest.split(end, 1)[1]
    body = "\n".join([*lines, "", note])
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"{before}{begin}\n{body}\n{end}{after}")
    print(f"updated {path}")


def python_with_pip():
    """This Python if it has pip, else one of an environment made for it (Debian's python3 has no pip of its own)."""
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0:
        return sys.executable
    cache = os.environ.get("TEST_CACHE") or os.path.join(ROOT, "build", "cache")
    venv = os.path.join(cache, "pip-venv")
    python = os.path.join(venv, "bin", "python")
    if not os.path.exists(python):
        done = subprocess.run([sys.executable, "-m", "venv", venv], capture_output=True, check=False)
        if done.returncode != 0:
            shutil.rmtree(venv, ignore_errors=True)
            raise SystemExit("compare: python3 has neither pip nor venv: on Debian or Ubuntu, apt-get install python3-venv")
    return python


def fetch_peers(wanted):
    """Directories of the peers that could be fetched, by name."""
    if not wanted:
        return {}
    script = os.path.join(ROOT, "scripts", "fetch-peers.sh")
    env = dict(os.environ, PYTHON=python_with_pip())
    done = subprocess.run([script, *wanted], stdout=subprocess.PIPE, text=True, check=False, env=env)
    peers = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    for name in wanted:
        if name not in peers:
            print(f"compare: {name} is not there and will be missing from the table", file=sys.stderr)
    return peers


def build(args, peers):
    """Compile the benchmarks, for every ABI needed. {"abi": path, "openmpi": path, "floor": path}"""
    source = os.path.join(ROOT, "bench", "compare.c")
    os.makedirs(args.out, exist_ok=True)
    programs = {"abi": os.path.join(args.out, "compare-abi")}
    # LD_LIBRARY_PATH goes before the run path that mpicc leaves, so the launch decides which library runs.
    subprocess.run([os.path.join(args.farpost, "bin", "mpicc"), "-O2", source, "-o", programs["abi"]], check=True)
    # What the machine alone takes for a hand-over, in the same run: it has nothing to do with any library.
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang") or "cc"
    programs["floor"] = os.path.join(args.out, "floor")
    floor = os.path.join(ROOT, "bench", "floor.c")
    subprocess.run([compiler, "-O2", "-pthread", floor, "-o", programs["floor"]], check=True)
    if "openmpi" in peers:
        top = peers["openmpi"]
        programs["openmpi"] = os.path.join(args.out, "compare-openmpi")
        flags = ["-I", os.path.join(top, "include"), "-L", os.path.join(top, "lib"), "-lmpi"]
        subprocess.run([compiler, "-O2", source, "-o", programs["openmpi"], *flags], check=True)
    return programs


def write_curves(args, libs, samples):
    """One JSON per library in the form of `farpost bench pingpong --json`, and a plot of all of them."""
    files = []
    for lib in libs:
        points = [
            {"bytes": b, "median_us": m, "min_us": lo, "max_us": hi, "megabytes_per_s": b / m}
            for b, m, lo, hi in curve(samples[lib.key])
        ]
        if not points:
            continue
        path = os.path.join(args.out, f"pingpong-{lib.key}.json")
        name = f"{lib.title} {lib.version}".strip()
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"benchmark": "pingpong", "library": name, "ranks": 2, "host": host(), "points": points}, f, indent=1)
        files.append(path)
    if not files:
        return
    farpost = os.path.join(args.farpost, "bin", "farpost")
    for ending in ("svg", "png"):
        plot = os.path.join(args.out, f"compare.{ending}")
        subprocess.run([farpost, "bench", "plot", *files, "--out", plot], check=True)


# Parts that are benchmarks of Farpost's own, and their options.
GOALS = {"interfaces": lambda args: [], "portals": lambda args: ["--figures", os.path.join(args.out, "portals")]}


def goal_cells(row):
    """A row of what must be reached, as cells of a Markdown table."""
    sign = "≥" if row["at_least"] else "≤"

    def bound(value):
        if value is None:
            return ""
        return f"{sign} {value:g} × {row['of']}" if row["of"] else f"{sign} {value:g} {row['unit']}"

    verdict = "" if row["must"] is None else {None: "not measured", True: "met", False: "**missed**"}[row["met"]]
    digits = 2 if row["figure"] is not None and abs(row["figure"]) < 10 else 0
    figure = "-" if row["figure"] is None else f"{row['figure']:.{digits}f} {row['unit']}"
    ratio = "-" if row["ratio"] is None or not row["of"] else f"{row['ratio']:.2f} ×"
    return [row["what"], figure, ratio, bound(row["must"]), bound(row["aim"]), verdict]


def goals(args, name, *options):
    """Measure by `farpost bench NAME` what must be reached; lines of the Markdown table and its note, or None."""
    path = os.path.join(args.out, f"{name}.json")
    farpost = os.path.join(args.farpost, "bin", "farpost")
    command = [farpost, "bench", name, "--rounds", str(args.rounds), "--json", path, *options]
    try:
        done = subprocess.run(command, env=environment({}), stdout=subprocess.DEVNULL, timeout=1200, check=False)
    except subprocess.TimeoutExpired:
        print(f"compare: farpost bench {name} took more than 1200 s", file=sys.stderr)
        return None
    if done.returncode != 0:
        print(f"compare: farpost bench {name} ended with code {done.returncode}", file=sys.stderr)
        return None
    with open(path, encoding="utf-8") as f:
        result = json.load(f)
    for missing in result["missing"]:
        print(f"compare: without {missing['layer']}: {missing['why']}", file=sys.stderr)
    lines = [["What", "measured", "ratio", "must", "aim", ""], ["---", "---:", "---:", "---:", "---:", "---"]]
    lines += [goal_cells(row) for row in result["rows"] if "what" in row]
    day = datetime.date.today().isoformat()
    note = (
        f"Medians of {result['rounds']} interleaved rounds of `farpost bench {name}` on {day}: {host()}. The floor, a bare cache "
        f"line one way between the same two processes in the same jobs, was {result['floor_ns']:.0f} ns." + busy()
    )
    if result.get("placement"):
        note += f" With an agent: {result['placement']}."
    return ["| " + " | ".join(cells) + " |" for cells in lines], note


def all_goals(args):
    """Measure, print and perhaps write down what is asked for of `GOALS`. Whether all is reached."""
    reached = True
    for name, options in GOALS.items():
        if name not in args.modes:
            continue
        beside = goals(args, name, *options(args))
        if not beside:
            continue
        print()
        print(aligned(beside[0]))
        print()
        print(beside[1])
        reached = reached and not any("**missed**" in line for line in beside[0])
        if args.update_readme:
            update_table(os.path.join("docs", "performance.md"), name, *beside)
    return reached


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    known = ["farpost", "mpich", "openmpi", "impi-rt"]
    parser.add_argument("--farpost", default=os.path.join(ROOT, "build", "install"), help="Farpost's install tree")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default 5); the median over them counts")
    parser.add_argument("--only", default=",".join(known), help="libraries, e.g. farpost,mpich")
    parts = "pair,crowd,idle,empty,interfaces,portals"
    parser.add_argument("--modes", default=parts, help="parts: pair, crowd, idle, empty; interfaces, portals (of Farpost)")
    parser.add_argument("--out", default=os.path.join(ROOT, "build", "compare"), help="directory for results")
    parser.add_argument("--update-readme", action="store_true", help="write the tables into README.md and docs/performance.md")
    parser.add_argument("--from", dest="saved", metavar="JSON", help="use the results in this file; measure nothing")
    args = parser.parse_args()
    args.farpost = os.path.abspath(args.farpost)
    args.out = os.path.abspath(args.out)
    args.only = args.only.split(",")
    args.modes = args.modes.split(",")
    for name in args.only:
        if name not in known:
            parser.error(f"--only {name}: allowed are {', '.join(known)}")

    if not args.saved and all(mode in GOALS for mode in args.modes):
        os.makedirs(args.out, exist_ok=True)
        if not all_goals(args):
            print("Some goals are missed (see the last column).")
        return

    if args.saved:
        with open(args.saved, encoding="utf-8") as f:
            saved = json.load(f)
        libs = [Library(x["key"], x["title"], "", {}, "", {}) for x in saved["libraries"]]
        for lib, x in zip(libs, saved["libraries"]):
            lib.version = x["version"]
        samples = {x["key"]: x["samples"] for x in saved["libraries"]}
        note = saved["note"]
    else:
        peers = fetch_peers([name for name in args.only if name != "farpost"])
        programs = build(args, peers)
        libs = libraries(args, peers, programs)
        for lib in libs:
            lib.version = version_of(lib)
        samples = {lib.key: {} for lib in libs}
        complaints = []
        disturbed = busy()
        if disturbed:
            print(f"compare:{disturbed}", file=sys.stderr)

        def complain(text):
            if text not in complaints:
                complaints.append(text)
                print(f"\ncompare: {text}", file=sys.stderr)

        floors = {}
        for i in range(args.rounds):
            if "pair" in args.modes:
                try:
                    for name, value in results(run([programs["floor"]], {})[0]).items():
                        floors.setdefault(name, []).append(value)
                except RuntimeError as e:
                    complain(f"the bare hand-over: {e}")
            for lib in libs:
                if sys.stderr.isatty():
                    print(f"\rround {i + 1} of {args.rounds}: {lib.title:<12}", end="", file=sys.stderr, flush=True)
                one_round(lib, args, samples[lib.key], complain)
        if sys.stderr.isatty():
            print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
        day = datetime.date.today().isoformat()
        note = (
            f"Medians of {args.rounds} interleaved rounds of `make compare` on {day}: {host()}. Of several settings of a "
            "library its best counts, row by row (scripts/compare.py lists them)." + floor_sentence(floors) + disturbed
        )

    settled = {lib.key: settle(samples[lib.key], ROWS) for lib in libs}
    lines, reached = table(libs, settled)
    print(aligned(lines))
    print()
    print(note)
    if not args.saved:
        path = os.path.join(args.out, "compare.json")
        data = {
            "note": note,
            "host": host(),
            "rounds": args.rounds,
            "floor_ns": {name: {"median": statistics.median(xs), "samples": xs} for name, xs in floors.items()},
            "libraries": [
                {
                    "key": lib.key,
                    "title": lib.title,
                    "version": lib.version,
                    "rows": settled[lib.key],
                    "samples": samples[lib.key],
                }
                for lib in libs
            ],
        }
        with open(path, "w", encoding="utf-8") as f:
            json.dump(data, f, indent=1)
        print(f"wrote {path}")
        write_curves(args, libs, samples)
    if args.update_readme:
        update_table("README.md", "compare", lines, note)
    if not args.saved and "farpost" in args.only:
        reached = all_goals(args) and reached
    if not reached:
        print("Some goals are missed (see the last column).")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except (OSError, subprocess.CalledProcessError) as e:
        sys.exit(f"compare: {e}")
