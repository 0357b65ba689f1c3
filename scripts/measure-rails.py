#!/usr/bin/env python3
"""How much faster two rails are than one, between two emulated hosts (tests/net/hosts.py) whose rails are limited to a rate.

  PREFIX=dir scripts/measure-rails.py [--rate 1gbit] [--rounds N] [NAME=VALUE...]

Puts and gets of a MiB, one behind the other and as requests, by each rail and by both in turn, so that what disturbs one disturbs all. One
line each: the medians of MB/s of the better rail and of both, their ratio, and the least and the largest ratio of a round. NAME=VALUE: settings of
the job.
"""

import argparse
import os
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "net"))
from hosts import skipped_because  # noqa: E402
from rails import HYDRA, Rails  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="1gbit", help="of each rail, as tc writes it; 0: as fast as it goes")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("settings", nargs="*", metavar="NAME=VALUE")
    options = parser.parse_args()
    why = skipped_because() or (None if HYDRA else "mpiexec.hydra could not be had")
    if why:
        sys.exit(f"measure-rails.py: {why}")
    rails = Rails(None if options.rate == "0" else options.rate)
    try:
        ran = rails.start("measure", str(options.rounds), **dict(setting.split("=", 1) for setting in options.settings)).result(600)
    finally:
        rails.close()
    if ran.code != 0:
        sys.exit(f"measure-rails.py: exit code {ran.code}\n{ran.out}{ran.err}")
    found = {}
    for line in ran.out.splitlines():
        name, *speeds = line.split()
        found.setdefault(name, []).append([float(speed) for speed in speeds])
    for name, rounds in found.items():
        one, both = (statistics.median(max(r[:2]) if pick else r[2] for r in rounds) for pick in (True, False))
        ratios = [r[2] / max(r[:2]) for r in rounds]
        print(f"{name:9} one rail {one:6.1f} MB/s, two {both:6.1f}: {both / one:.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
