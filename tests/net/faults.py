#!/usr/bin/env python3
"""What happens when something breaks while messages are under way between two emulated hosts.

  PREFIX=dir tests/net/faults.py [--full] [--launchers hydra,prterun,srun,srun-pmix] [NAME...]

The hosts have three networks: the launcher's own connections keep to the first, messages to the other two
(FARPOST_INTERFACE), so that a test can cut what carries messages and still hear what the job says.
Whatever breaks: nothing hangs, and in the end no process is left on any host, nothing in /dev/shm or /tmp.

A scenario says which job runs, what breaks, and how the job must end. The first launcher plays all of them, the others the six that
matter most; --full: all play all.
"""

import argparse
import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import typing

from hosts import HERE, ROOT, Failed, Hosts
from launchers import MPIEXEC, PREFIX, all_launchers
from report import Report

LIMIT = 40  # seconds any job here may take to end; far more than any needs
RAILS = (1, 2)


class Wrong(Exception):
    """What a scenario found; with everything that was said."""

    def __init__(self, why, log=""):
        super().__init__(why)
        self.log = log


class Scene:
    """A job under way: `stream` on two hosts."""

    def __init__(self, hosts, launcher, program, each=1, seconds=3, how="", direct=False, env=None, shell=None):
        self.hosts, self.launcher, self.program = hosts, launcher, program
        self.before = {name: hosts.leftovers(name) for name in hosts.names}
        ranks = {name: each for name in hosts.names[:2]}
        command = [*(["sh", "-c", shell] if shell else []), program, str(seconds), *how.split()]
        command = launcher.direct(hosts, ranks, command) if direct else launcher.mpiexec(hosts, ranks, command, quiet=False)
        interfaces = ",".join(f"10.{77 + r}.0.0/24" for r in RAILS)
        env = {**launcher.environment(hosts), "FARPOST_INTERFACE": interfaces, **(env or {})}
        os.environ["FARPOST_INTERFACE"] = interfaces  # for those that hand over what they are told to
        self.process = hosts.start("h1", command, env=env)
        self.began = time.monotonic()
        again = True
        while "moving" not in self.process.said()[0]:
            waited = time.monotonic() - self.began
            if waited > 10 and again:
                again = False
                if launcher.unstick(hosts):
                    self.process.close()
                    self.process = hosts.start("h1", command, env=env)
            if self.process.wait(0.02) is not None or waited > LIMIT:
                raise Wrong("the job did not get under way", self.text())
        time.sleep(0.3)

    def text(self):
        out, err = self.process.said()
        return f"{out}\n{err}"

    def kill(self, host, program, signal="KILL", which=min):
        """Send a signal to one of the processes on a host that run a program: the oldest, or the latest (`max`)."""
        found = [pid for pid, _, _, line in self.hosts.processes(host) if line.split(" ")[0] in (program, os.path.basename(program))]
        if not found:
            raise Wrong(f"no process of {program} on {host}", str(self.hosts.processes(host)))
        self.hosts.run(host, ["kill", f"-{signal}", str(which(found))], check=True)

    def end(self):
        """Wait for the end: exit code and everything said."""
        try:
            result = self.process.result(LIMIT)
        except Failed:
            raise Wrong(f"no end after {LIMIT} s", self.text()) from None
        return result.code, f"{result.out}\n{result.err}"

    def swept(self):
        """Nothing may be left on any host."""
        left = []
        for name in self.hosts.names:
            left += [f"{name}: {line}" for line in self.hosts.settled(name, 10, ignore=self.before[name])]
        if left:
            raise Wrong(f"left behind: {'; '.join(left[:3])}", "\n".join(left) + "\n" + self.text())

    def close(self):
        self.process.close()
        for rail in range(self.hosts.rails):
            for name in self.hosts.names:
                self.hosts.mend(name, rail)
                self.hosts.device(name, rail, True)
                self.hosts.black_hole(name, rail, False)
                self.hosts.slow(name, rail, None)
                self.hosts.lose(name, rail, 0)
        self.launcher.clear(self.hosts)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


# --- how a job may end ---


def well(code, text, _took):
    """As if nothing had been, with every byte right."""
    match = re.search(r"longest exchange ([0-9.]+) s, (\d+) wrong", text)
    if code != 0 or not match:
        raise Wrong(f"exit code {code}", text)
    if match.group(2) != "0":
        raise Wrong(f"{match.group(2)} words are wrong", text)
    return f"longest exchange {float(match.group(1)):.2f} s"


def failed(code, text, took):
    """With a failure code."""
    if code == 0:
        raise Wrong("the job ended as if all were well", text)
    times = [float(t) for t in re.findall(r"failed after ([0-9.]+) s", text)]
    return f"told after {max(times):.2f} s" if times else f"exit code {code} after {took:.2f} s"


def without_a_daemon(code, text, took):
    """With a failure code; but PRRTE 3.0 says that it has lost a daemon, and exits with 0."""
    if code == 0 and "lost communication with a remote daemon" in text:
        return f"exit code 0, and PRRTE misses a daemon, after {took:.2f} s"
    return failed(code, text, took)


def somehow(_code, _text, took):
    """Who could tell is gone."""
    return f"all gone after {took:.2f} s"


# --- what breaks ---


@dataclasses.dataclass(frozen=True)
class Scenario:
    """`job`: of `Scene`; `ends`: one of the functions above; `words`: regular expressions that what is said must match;
    `everywhere`: under every launcher; `source`: the program; `daemons_die`: the launcher's cannot remove what they made for themselves."""

    breaks: typing.Callable
    ends: typing.Callable = well
    job: dict = dataclasses.field(default_factory=dict)
    words: tuple = ()
    everywhere: bool = False
    daemons_die: bool = False
    source: str = "stream"


def all_rails(what, host):
    """Do something with both rails that carry messages."""

    def breaks(scene):
        for rail in RAILS:
            getattr(scene.hosts, what)(host, rail)

    return breaks


def cut_then_mended_then_the_other_cut(scene):
    scene.hosts.cut("h1", 1)
    time.sleep(1)
    scene.hosts.mend("h1", 1)
    time.sleep(4)  # connections are made again, at intervals
    scene.hosts.cut("h1", 2)


def both_cut_for_less_than_the_bound(scene):
    all_rails("cut", "h1")(scene)
    time.sleep(0.3)
    all_rails("mend", "h1")(scene)


def cut_for_all_to_see(scene):
    """`farpost top` on the host that the cable is not pulled of: what each rail carries, and which of them works."""

    def until(what, holds):
        deadline = time.monotonic() + LIMIT
        while True:
            top = scene.hosts.run("h1", [f"{PREFIX}/bin/farpost", "top", "--rails", "--json"], check=True).out
            ranks = [rank for job in top.splitlines() for rank in json.loads(job)["ranks"] if rank["rails"]]
            rails = [{rail["rail"]: rail for rail in rank["rails"]} for rank in ranks]
            if len(ranks) == 2 and all(holds(of["r1"], of["r2"]) for of in rails if of.keys() == {"r1", "r2"}):
                return
            if scene.process.wait(0.05) is not None or time.monotonic() > deadline:
                raise Wrong(f"{what} is not seen: {top}", scene.text())

    until("that both rails work", lambda one, other: one["state"] == other["state"] == "up")
    scene.hosts.cut("h2", 1)
    until("that one does not", lambda one, other: (one["state"], other["state"]) == ("down", "up") and one["up"] == 0 < one["down"])
    until("what the other carries", lambda one, other: other["sent_bytes"] > 1 << 20 and other["sent"] > 0)


def slow_and_lossy(scene):
    scene.hosts.slow("h1", 1, "100mbit")
    scene.hosts.lose("h2", 2, 5)


def shaped(scene):
    """Both rails are slow, and equally so: each must carry its half of what the second host puts."""

    def sent():
        table = scene.hosts.run("h2", ["cat", "/proc/net/dev"], check=True).out
        words = {line.split(":")[0].strip(): line.split(":")[1].split() for line in table.splitlines() if ":" in line}
        return [int(words[f"r{rail}"][8]) for rail in RAILS]

    for rail in RAILS:
        scene.hosts.slow("h1", rail, "100mbit")
        scene.hosts.slow("h2", rail, "100mbit")
    time.sleep(1)
    before = sent()
    time.sleep(3)
    carried = [after - first for after, first in zip(sent(), before)]
    if min(carried) < 0.4 * sum(carried) or sum(carried) < 4 << 20:
        raise Wrong(f"the rails carried {carried} bytes", scene.text())


def interrupted(scene):
    """From the keyboard; srun wants it twice."""
    for again in (False, True):
        if not again or scene.launcher.stays:
            scene.kill("h1", MPIEXEC, "INT")
            time.sleep(0.3)


def power_fails(scene):
    """No packet comes any more, not even the end of a connection. The launcher's network is another matter."""
    all_rails("black_hole", "h2")(scene)
    scene.hosts.crash("h2")
    scene.launcher.miss(scene.hosts, "h2")


def fault_counted(scene):
    """Each rank loses the other; `farpost top` on each host must count that once."""

    def counted(host):
        """Connections that were given up while the job started may be among them. A line for each job: that of mpiexec's own
        has no rank that exchanges messages."""
        top = scene.hosts.run(host, [f"{PREFIX}/bin/farpost", "top", "--json"], check=True).out
        return sum(rank["faults"] for job in top.splitlines() for rank in json.loads(job)["ranks"])

    # On a busy machine the start lasts.
    deadline, before = time.monotonic() + LIMIT, None
    while before != (now := {host: counted(host) for host in scene.hosts.names}) and time.monotonic() < deadline:
        before = now
        time.sleep(0.5)
    all_rails("cut", "h1")(scene)
    deadline = time.monotonic() + LIMIT
    while scene.text().count("failed after") < 2:
        if scene.process.wait(0.05) is not None or time.monotonic() > deadline:
            raise Wrong("the two ranks do not tell of the loss", scene.text())
    more = {host: counted(host) - before[host] for host in scene.hosts.names}
    if more != dict.fromkeys(scene.hosts.names, 1):
        raise Wrong(f"faults counted: {more}, not one on each host", scene.text())
    scene.kill("h1", MPIEXEC, "TERM")


# The host, its rails, and how long they were waited for.
RAILS_GONE = (r"h[12]", r"10\.78\.0\.|r1|rail", r"\d+(\.\d+)? ?m?s")
LONG, RETURN = {"each": 2, "seconds": 30}, {"seconds": 30, "how": "return"}

SCENARIOS = {
    # What a job must survive; the first is the measure of what follows.
    "nothing": Scenario(lambda s: None),
    "one_rail_cut": Scenario(lambda s: s.hosts.cut("h1", 2), everywhere=True),
    "other_rail_cut_at_the_other_host": Scenario(cut_for_all_to_see, job={"each": 2, "seconds": 6}),
    "one_rail_black_hole": Scenario(lambda s: s.hosts.black_hole("h1", 1), everywhere=True),
    "device_down": Scenario(lambda s: s.hosts.device("h2", 1, False)),
    "cut_then_mended_then_the_other_cut": Scenario(cut_then_mended_then_the_other_cut, job={"seconds": 8}),
    "both_cut_for_less_than_the_bound": Scenario(both_cut_for_less_than_the_bound, job={"env": {"FARPOST_RAIL_BOUND_MS": "10000"}}),
    "one_rail_slow_and_lossy": Scenario(slow_and_lossy, job={"seconds": 4}),
    # The same for puts of remote shared memory, which are striped over two rails, over one, and over two again.
    "rsm_both_rails_carry": Scenario(shaped, job={"seconds": 6}, source="rsm_stripe"),
    # The change of route is told to who has a barrier open, and a repetition heals it.
    "rsm_one_rail_cut": Scenario(
        lambda s: s.hosts.cut("h1", 2), words=(r"(?m)^degrees 2( 1 2)* 1$", r"[1-9]\d* barriers failed"), source="rsm_stripe"
    ),
    "rsm_cut_then_mended_then_the_other_cut": Scenario(
        cut_then_mended_then_the_other_cut, job={"seconds": 8}, words=(r"(?m)^degrees 2( 1 2)+ 1$",), source="rsm_stripe"
    ),
    # And for puts of Portals, of which several are under way.
    "portals_one_rail_cut": Scenario(lambda s: s.hosts.cut("h1", 2), job={"each": 2, "seconds": 2}, source="portals_stream"),
    "portals_one_rail_black_hole": Scenario(lambda s: s.hosts.black_hole("h1", 1), job={"seconds": 2}, source="portals_stream"),
    # What ends it, in bounded time and with words.
    "both_cut_errors_return": Scenario(all_rails("cut", "h1"), failed, RETURN, RAILS_GONE),
    "both_black_holes_errors_return": Scenario(all_rails("black_hole", "h2"), failed, RETURN, RAILS_GONE),
    "both_cut_errors_fatal": Scenario(all_rails("cut", "h1"), failed, {"seconds": 30}, RAILS_GONE, everywhere=True),
    "a_fault_is_counted_once": Scenario(fault_counted, failed, {"seconds": 30, "how": "stay"}),
    "a_rank_killed": Scenario(
        lambda s: s.kill("h2", s.program, which=max), failed, LONG, (r"(?i)rank|task", r"h2\b"), everywhere=True
    ),
    "portals_both_cut": Scenario(all_rails("cut", "h1"), failed, {"seconds": 30}, ("PTL_NI_UNDELIVERABLE",), source="portals_stream"),
    # A shell keeps the news from the launcher, which would end the others: they learn it from Portals.
    "portals_a_rank_killed": Scenario(
        lambda s: s.kill("h2", s.program, which=max),
        somehow,
        {"seconds": 30, "shell": '"$0" "$@"; sleep 3'},
        ("failed after .* PTL_NI_UNDELIVERABLE",),
        source="portals_stream",
    ),
    "a_host_crashes": Scenario(
        lambda s: s.hosts.crash("h2"), without_a_daemon, LONG, (r"on (host |node )?\[?h2\b|h2: |Remote host: +h2\b",), everywhere=True, daemons_die=True
    ),
    "a_host_loses_power": Scenario(power_fails, without_a_daemon, RETURN, (r"h2",), daemons_die=True),
    "mpiexec_killed": Scenario(lambda s: s.kill("h1", MPIEXEC), somehow, LONG, everywhere=True),
    "mpiexec_interrupted": Scenario(interrupted, failed, LONG),
    # The launcher itself, without our mpiexec above it.
    "the_launcher_killed": Scenario(
        lambda s: s.kill("h1", s.launcher.path), somehow, {**LONG, "direct": True}, daemons_die=True
    ),
}


def play(scenario, hosts, launcher, built):
    """Play a scenario; what there is to say of it. Wrong when the job does not end as it should."""
    with Scene(hosts, launcher, f"{built}/{scenario.source}", **scenario.job) as scene:
        scenario.breaks(scene)
        began = time.monotonic()
        code, text = scene.end()
        said = scenario.ends(code, text, time.monotonic() - began)
        # What mpiexec says at the start does not count.
        told = "\n".join(line for line in text.splitlines() if "(-q: do not say so)" not in line)
        missing = [word for word in scenario.words if not re.search(word, told)]
        if missing:
            raise Wrong(f"nothing is said of {', '.join(missing)}", text)
        if scenario.daemons_die:
            launcher.sweep(hosts)
        scene.swept()
    return said


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--launchers")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    for name in args.names:
        if name not in SCENARIOS:
            parser.error(f"{name}: allowed are {', '.join(SCENARIOS)}")
    report = Report()
    launchers = [launcher for launcher in all_launchers() if not args.launchers or launcher.name in args.launchers.split(",")]
    for launcher in launchers:
        if launcher.missing:
            report.skip(f"everything under {launcher.name}", f"*** {launcher.missing}")
    launchers = [launcher for launcher in launchers if not launcher.missing]
    os.makedirs(f"{ROOT}/build", exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="net-tests.", dir=f"{ROOT}/build") as built:
        for name in sorted({scenario.source for scenario in SCENARIOS.values()}):
            source, program = os.path.join(HERE, f"{name}.c"), f"{built}/{name}"
            subprocess.run([f"{PREFIX}/bin/mpicc", "-O2", "-Wall", "-Wextra", source, "-o", program], check=True)
        for number, launcher in enumerate(launchers):
            with Hosts(2, 3, share=[PREFIX]) as hosts:
                launcher.prepare(hosts)
                report.resume()
                for name, scenario in SCENARIOS.items():
                    if name not in args.names if args.names else number > 0 and not args.full and not scenario.everywhere:
                        continue
                    tag, cell = f"{name} {launcher.name}", (name, launcher.name)
                    try:
                        report.ok(tag, play(scenario, hosts, launcher, built), cell)
                    except Wrong as e:
                        report.fail(tag, str(e), e.log, cell)
                    except Failed as e:
                        report.fail(tag, str(e).split("\n")[0], str(e), cell)
                launcher.finish()
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
