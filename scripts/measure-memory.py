#!/usr/bin/env python3
"""How the memory of a rank and the time to start grow with the job: ring traffic on up to 16 emulated hosts.

    scripts/measure-memory.py [--farpost TREE] [--most RANKS] [--hosts N] [--out DIR] [--update-docs]
    scripts/measure-memory.py --peers [--farpost TREE] [--most RANKS] [--out DIR] [--update-docs]
    scripts/measure-memory.py --peers --in-process [--farpost TREE] [--most RANKS] [--out DIR] [--update-docs]

Runs `bench/compare.c` (mode memory) with 2, 4, 8, ... ranks under MPICH's mpiexec.hydra, spread over hosts that are network
namespaces of this machine (tests/net/hosts.py), and writes memory.json, memory.svg and memory.png. Needs root or user
namespaces.

With --peers: the memory of a rank for its peers (`bench/peers.c`: messages from all to all, and a second of rest), with 8, 16, 32
and 64 ranks on one host and on four: peers.json, peers.svg and peers.png.

With --in-process: the same with up to 256 ranks in one process (crates/mpi/examples/peers_in_process, which Cargo builds): in-process.json,
in-process.svg and in-process.png. Needs no hosts, and gives the same numbers each time.
"""

import argparse
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "tests", "net"), os.path.join(ROOT, "scripts")]

import compare  # noqa: E402
import hosts as emulated  # noqa: E402

TIMEOUT = 240


def layout(ranks, most_hosts):
    """Ranks on each of the hosts used: as even as can be."""
    used = min(ranks, most_hosts)
    return [ranks // used + (i < ranks % used) for i in range(used)]


def command(launcher, hosts, each, argv):
    places = ",".join(f"{name}:{n}" for name, n in zip(hosts.names, each))
    agent = ["-launcher", "ssh", "-launcher-exec", hosts.rsh]
    return [launcher, *agent, "-hosts", places, "-n", str(sum(each)), *argv]


def run(hosts, launcher, each, argv, env):
    started = time.monotonic()
    result = hosts.run(hosts.names[0], command(launcher, hosts, each, argv), timeout=TIMEOUT, env=env)
    took = time.monotonic() - started
    if result.code != 0:
        lines = [line for line in (result.err + result.out).splitlines() if line.strip()]
        raise RuntimeError(f"{sum(each)} ranks: exit code {result.code}: {lines[0] if lines else 'no message'}")
    return result.out, took


def measure(hosts, launcher, program, ranks, most_hosts, env):
    each = layout(ranks, most_hosts)
    starts = sorted(run(hosts, launcher, each, [program, "empty"], env)[1] for _ in range(3))
    out, _ = run(hosts, launcher, each, [program, "memory"], env)
    found = [tuple(map(int, m.groups())) for m in re.finditer(r"^memory (\d+) (\d+) (\d+)$", out, re.M)]
    if sorted(rank for rank, _, _ in found) != list(range(ranks)):
        raise RuntimeError(f"{ranks} ranks: {len(found)} of them told their memory")

    def spread(values):
        return {"min": min(values), "median": statistics.median(values), "max": max(values)}

    return {
        "ranks": ranks,
        "hosts": len(each),
        "resident_kib": spread([resident for _, resident, _ in found]),
        "share_kib": spread([share for _, _, share in found]),
        "start_ms": {"min": starts[0] * 1e3, "median": starts[1] * 1e3, "max": starts[2] * 1e3},
    }


def table(points):
    head = ["ranks", "hosts", "resident (KiB), median", "largest", "own share (KiB), median", "largest", "start (ms)"]
    lines = [head, ["---:"] * len(head)]
    for p in points:
        cells = [p["ranks"], p["hosts"]]
        for what in ("resident_kib", "share_kib"):
            cells += [f"{p[what]['median']:.0f}", f"{p[what]['max']:.0f}"]
        lines.append([*map(str, cells), f"{p['start_ms']['median']:.0f}"])
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def growth(points):
    """Bytes that the median rank's resident memory grows by with each rank of the job, while all hosts are in use."""
    full = [p for p in points if p["hosts"] == max(q["hosts"] for q in points)]
    if len(full) < 2:
        return None
    first, last = full[0], full[-1]
    return (last["resident_kib"]["median"] - first["resident_kib"]["median"]) * 1024 / (last["ranks"] - first["ranks"])


STEPS = ["met", "8", "1024", "65536", "rest", "away"]


def peers(hosts, launcher, program, ranks, used, env):
    """KiB of a rank for its peers beyond what it has before it meets any, after each step."""
    each = layout(ranks, used)
    out, _ = run(hosts, launcher, each, [program], {**env, "PEERS_LOCAL": str(max(each))})
    found = {m[1]: [int(x) for x in m[2].split()] for m in re.finditer(r"^peers (\S+) ([-\d ]+)$", out, re.M)}
    if sorted(found) != sorted(STEPS):
        raise RuntimeError(f"{ranks} ranks: told {sorted(found)}")
    steps = {s: dict(zip(("min", "median", "max", "private"), found[s])) for s in STEPS}
    return {"ranks": ranks, "hosts": len(each), "peers_kib": steps}


def peers_table(points):
    titles = ["1 message each", "8 B", "1 KiB", "64 KiB", "a rest with calls", "1 KiB, a rest without"]
    lines = [["ranks", "hosts", *titles], ["---:"] * (2 + len(titles))]
    for p in points:
        lines.append([str(p["ranks"]), str(p["hosts"]), *(f"{p['peers_kib'][s]['median']}" for s in STEPS)])
    return ["| " + " | ".join(cells) + " |" for cells in lines]


IN_PROCESS_STEPS = ["met", "8", "1024", "65536", "rest", "again"]


def in_process(ranks):
    """KiB of a rank for its peers, the mean of all ranks of one process, after each step; and the part of it that is areas."""
    cargo = [os.environ.get("CARGO", "cargo"), "run", "--release", "--quiet", "-p", "farpost-mpi", "--example", "peers_in_process", "--"]
    out = subprocess.run([*cargo, str(ranks)], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = {m[1]: (int(m[2]) / 1024, int(m[3]) / 1024) for m in re.finditer(r"^peers (\S+) (\d+) (\d+)$", out, re.M)}
    if sorted(found) != sorted(IN_PROCESS_STEPS):
        raise RuntimeError(f"{ranks} ranks in one process: told {sorted(found)}")
    # All ranks of a process share a heap: there is one number.
    return {"ranks": ranks, "peers_kib": {s: {"min": k, "median": k, "max": k, "areas": a} for s, (k, a) in found.items()}}


def in_process_table(points):
    titles = ["1 message each", "8 B", "1 KiB", "64 KiB", "a rest", "1 KiB again"]
    lines = [["ranks", *titles], ["---:"] * (1 + len(titles))]
    for p in points:
        steps = [p["peers_kib"][s] for s in IN_PROCESS_STEPS]
        lines.append([str(p["ranks"]), *(f"{s['median']:.0f} ({s['areas']:.0f})" for s in steps)])
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def build_peers(args):
    program = os.path.join(args.out, "peers")
    source = os.path.join(ROOT, "bench", "peers.c")
    subprocess.run([os.path.join(args.farpost, "bin", "mpicc"), "-O2", source, "-o", program], check=True)
    return program


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--farpost", default=os.path.join(ROOT, "build", "install"), help="Farpost's install tree")
    parser.add_argument("--library", help="directory of libmpi_abi.so.1, if not the tree's")
    parser.add_argument("--program", help="the compiled bench/compare.c, if not to be compiled")
    parser.add_argument("--most", type=int, default=256, help="most ranks (default 256)")
    parser.add_argument("--hosts", type=int, default=16, help="most hosts (default 16)")
    parser.add_argument("--out", default=os.path.join(ROOT, "build", "memory"), help="directory for results")
    parser.add_argument("--peers", action="store_true", help="memory of a rank for its peers, on one host and on four")
    parser.add_argument("--in-process", action="store_true", help="with --peers: all ranks in one process")
    parser.add_argument("--update-docs", action="store_true", help="write the table into docs/performance.md")
    args = parser.parse_args()
    if args.in_process and not args.peers:
        parser.error("--in-process is of --peers")
    why = not args.in_process and emulated.skipped_because()
    if why:
        sys.exit(f"measure-memory: no hosts can be emulated here: {why}")
    args.farpost, args.out = os.path.abspath(args.farpost), os.path.abspath(args.out)
    os.makedirs(args.out, exist_ok=True)
    if args.in_process:
        points = []
        for ranks in (n for n in (16, 32, 64, 128, 256) if n <= args.most):
            points.append(in_process(ranks))
            print(f"{ranks} ranks in one process: {points[-1]['peers_kib']}", file=sys.stderr)
        return report(args, "in-process", "scripts/measure-memory.py --peers --in-process", points, in_process_table(points))
    launcher = os.path.join(compare.fetch_peers(["mpich"])["mpich"], "bin", "mpiexec.hydra")
    library = os.path.abspath(args.library or os.path.join(args.farpost, "lib"))
    if args.program:
        program = os.path.abspath(args.program)
    else:
        program = build_peers(args) if args.peers else compare.build(args, {})["abi"]
    env = {"LD_LIBRARY_PATH": library}
    counts = [2**i for i in range(1, 20) if 2**i <= args.most]
    points = []
    share = [args.farpost, args.out, library, os.path.dirname(program), os.path.dirname(os.path.dirname(launcher))]
    name = "peers" if args.peers else "memory"
    if args.peers:
        args.hosts = 4
        counts = [n for n in counts if 8 <= n <= 64]
    with emulated.Hosts(min(args.hosts, max(counts)), share=share) as hosts:
        for used in (1, args.hosts) if args.peers else ():
            for ranks in counts:
                points.append(peers(hosts, launcher, program, ranks, used, env))
                print(f"{ranks} ranks on {used} hosts: {points[-1]['peers_kib']}", file=sys.stderr)
        if args.peers:
            counts = []
        for ranks in counts:
            points.append(measure(hosts, launcher, program, ranks, args.hosts, env))
            print(f"{ranks} ranks on {points[-1]['hosts']} hosts: {points[-1]['resident_kib']['median']:.0f} KiB", file=sys.stderr)
    lines = (peers_table if args.peers else table)(points)
    how = "scripts/measure-memory.py --peers" if args.peers else "scripts/measure-memory.py"
    per_rank = None if args.peers else growth(points)
    more = ""
    if per_rank is not None:
        by = f"grows by {per_rank:.0f} bytes a rank of the job" if per_rank > 0 else "does not grow with the job"
        more = f" With all hosts in use the median rank's resident memory {by}."
    report(args, name, how, points, lines, more)


def report(args, name, how, points, lines, more=""):
    """Print the table, write the results, draw them and, if asked, put the table into the docs."""
    day = datetime.date.today().isoformat()
    note = f"Measured by `{how}` on {day}: {compare.host()}.{more}"
    print("\n".join(lines), note, sep="\n\n")
    results = os.path.join(args.out, f"{name}.json")
    benchmark = "memory" if name == "memory" else "peers"
    with open(results, "w", encoding="utf-8") as f:
        json.dump({"benchmark": benchmark, "library": "Farpost", "host": compare.host(), "points": points}, f, indent=1)
    print(f"wrote {results}")
    for ending in ("svg", "png"):
        plot = os.path.join(args.out, f"{name}.{ending}")
        subprocess.run([os.path.join(args.farpost, "bin", "farpost"), "bench", "plot", results, "--out", plot], check=True)
    if args.update_docs:
        compare.update_table("docs/performance.md", name, lines, note)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except (OSError, RuntimeError, subprocess.CalledProcessError, emulated.Failed) as e:
        sys.exit(f"measure-memory: {e}")
