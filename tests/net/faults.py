#!/usr/bin/env python3
"""What happens when something breaks while messages are under way between two emulated hosts.

  PREFIX=dir tests/net/faults.py [NAME...]

The hosts have three networks: the launcher's own connections keep to the first, messages to the other two
(FARPOST_INTERFACE), so that a test can cut what carries messages and still hear what the job says.
Whatever breaks: nothing hangs, and in the end no process is left on any host, nothing in /dev/shm or /tmp.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from hosts import HERE, ROOT, Failed, Hosts
from launchers import PREFIX, all_launchers
from report import Report

BOUND = 1.0  # seconds after which a peer without any rail is given up (FARPOST_RAIL_BOUND_MS)
LIMIT = 40  # seconds any job here may take to end; far more than any needs
RAILS = (1, 2)


class Wrong(Exception):
    """What a scenario found; with everything that was said."""

    def __init__(self, why, log=""):
        super().__init__(why)
        self.log = log


class Scene:
    """A job under way: `stream` on two hosts."""

    def __init__(self, hosts, launcher, program, each=1, seconds=3, how="", direct=False, env=None):
        self.hosts, self.launcher = hosts, launcher
        self.before = {name: hosts.leftovers(name) for name in hosts.names}
        ranks = {name: each for name in hosts.names[:2]}
        command = [program, str(seconds), *how.split()]
        command = launcher.direct(hosts, ranks, command) if direct else launcher.mpiexec(hosts, ranks, command)
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
                self.fail("the job did not get under way")
        time.sleep(0.3)

    def text(self):
        out, err = self.process.said()
        return f"{out}\n{err}"

    def fail(self, why):
        raise Wrong(why, self.text())

    def end(self):
        """Wait for the end: exit code and everything said."""
        try:
            result = self.process.result(LIMIT)
        except Failed:
            self.fail(f"no end after {LIMIT} s")
        return result.code, f"{result.out}\n{result.err}"

    def fine(self):
        """The job must end well, with every byte right. The longest exchange."""
        code, text = self.end()
        match = re.search(r"longest exchange ([0-9.]+) s, (\d+) wrong", text)
        if code != 0 or not match:
            raise Wrong(f"exit code {code}", text)
        if match.group(2) != "0":
            raise Wrong(f"{match.group(2)} words are wrong", text)
        return f"longest exchange {float(match.group(1)):.2f} s"

    def swept(self, daemon_killed=False):
        """Nothing may be left on any host. A PRRTE daemon that was killed cannot remove what it made for itself."""
        if daemon_killed:
            for name in self.hosts.names:
                self.hosts.run(name, ["sh", "-c", "rm -rf /tmp/prted.* /tmp/prtrn.*"])
        left = []
        for name in self.hosts.names:
            left += [f"{name}: {line}" for line in self.hosts.settled(name, 10, ignore=self.before[name])]
        if left:
            raise Wrong(f"left behind: {'; '.join(left[:3])}", "\n".join(left) + "\n" + self.text())

    def close(self):
        self.process.close()
        if self.launcher.name != "srun":
            for name in self.hosts.names:
                self.hosts.crash(name)
        for rail in range(self.hosts.rails):
            for name in self.hosts.names:
                self.hosts.mend(name, rail)
                self.hosts.device(name, rail, True)
                self.hosts.black_hole(name, rail, False)
                self.hosts.slow(name, rail, None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


SCENARIOS = {}


def scenario(function):
    SCENARIOS[function.__name__] = function
    return function


# --- what the job must survive ---


@scenario
def nothing(scene):
    """Both rails live: the measure of what follows."""
    with scene() as s:
        said = s.fine()
        s.swept()
        return said


@scenario
def one_rail_cut(scene):
    with scene() as s:
        s.hosts.cut("h1", 2)
        said = s.fine()
        s.swept()
        return said


@scenario
def other_rail_cut_at_the_other_host(scene):
    with scene(each=2) as s:
        s.hosts.cut("h2", 1)
        said = s.fine()
        s.swept()
        return said


@scenario
def one_rail_black_hole(scene):
    with scene() as s:
        s.hosts.black_hole("h1", 1)
        said = s.fine()
        s.swept()
        return said


@scenario
def device_down(scene):
    with scene() as s:
        s.hosts.device("h2", 1, False)
        said = s.fine()
        s.swept()
        return said


@scenario
def cut_then_mended_then_the_other_cut(scene):
    with scene(seconds=8) as s:
        s.hosts.cut("h1", 1)
        time.sleep(1)
        s.hosts.mend("h1", 1)
        time.sleep(4)  # connections are made again, at intervals
        s.hosts.cut("h1", 2)
        said = s.fine()
        s.swept()
        return said


@scenario
def both_cut_for_less_than_the_bound(scene):
    with scene(env={"FARPOST_RAIL_BOUND_MS": "10000"}) as s:
        for rail in RAILS:
            s.hosts.cut("h1", rail)
        time.sleep(0.3)
        for rail in RAILS:
            s.hosts.mend("h1", rail)
        said = s.fine()
        s.swept()
        return said


@scenario
def one_rail_slow_and_lossy(scene):
    with scene(seconds=4) as s:
        s.hosts.slow("h1", 1, "100mbit")
        s.hosts.lose("h2", 2, 5)
        try:
            said = s.fine()
        finally:
            s.hosts.lose("h2", 2, 0)
        s.swept()
        return said


# --- what ends the job, in bounded time and with words ---


def told(text, words, began):
    """Both ranks, or one, must say all of `words`."""
    missing = [w for w in words if not re.search(w, text)]
    if missing:
        raise Wrong(f"nothing is said of {', '.join(missing)}", text)
    times = [float(t) for t in re.findall(r"failed after ([0-9.]+) s", text)]
    return f"told after {max(times):.2f} s" if times else f"ended after {time.monotonic() - began:.2f} s"


def last_rail_goes(scene, breaking, how):
    with scene(seconds=30, how=how) as s:
        for rail in RAILS:
            breaking(s.hosts, rail)
        began = time.monotonic()
        code, text = s.end()
        if code == 0:
            raise Wrong("the job ended as if all were well", text)
        # The host, its rails, and how long it waited.
        said = told(text, [r"h[12]", r"10\.78\.0\.|r1|rail", r"\d+(\.\d+)? ?m?s"], began)
        s.swept()
        return said


@scenario
def both_cut_errors_return(scene):
    return last_rail_goes(scene, lambda hosts, rail: hosts.cut("h1", rail), "return")


@scenario
def both_black_holes_errors_return(scene):
    return last_rail_goes(scene, lambda hosts, rail: hosts.black_hole("h2", rail), "return")


@scenario
def both_cut_errors_fatal(scene):
    return last_rail_goes(scene, lambda hosts, rail: hosts.cut("h1", rail), "")


@scenario
def a_rank_killed(scene):
    with scene(each=2, seconds=30) as s:
        victims = [p for p, _, _, line in s.hosts.processes("h2") if re.search(r"/stream 30", line) and "rsh" not in line]
        victim = [p for p in victims if "proxy" not in str(p)][-1]
        s.hosts.run("h2", ["kill", "-9", str(victim)], check=True)
        began = time.monotonic()
        code, text = s.end()
        if code == 0:
            raise Wrong("the job ended as if all were well", text)
        s.swept()
        return f"exit code {code} after {time.monotonic() - began:.2f} s"


@scenario
def a_host_crashes(scene):
    with scene(each=2, seconds=30) as s:
        s.hosts.crash("h2")
        began = time.monotonic()
        code, text = s.end()
        # PRRTE 3.0 says that it has lost a daemon, and exits with 0.
        if code == 0 and "lost communication with a remote daemon" not in text:
            raise Wrong("the job ended as if all were well", text)
        s.swept(daemon_killed=True)
        return f"exit code {code} after {time.monotonic() - began:.2f} s"


@scenario
def a_host_loses_power(scene):
    """No packet of it comes any more, not even the end of a connection. The launcher's network is another matter."""
    with scene(seconds=30, how="return") as s:
        for rail in RAILS:
            s.hosts.black_hole("h2", rail)
        s.hosts.crash("h2")
        began = time.monotonic()
        code, text = s.end()
        if code == 0:
            raise Wrong("the job ended as if all were well", text)
        s.swept(daemon_killed=True)
        return f"exit code {code} after {time.monotonic() - began:.2f} s"


@scenario
def mpiexec_killed(scene):
    with scene(each=2, seconds=30) as s:
        s.process.signal(signal.SIGKILL)
        began = time.monotonic()
        s.end()
        s.swept()
        return f"all gone after {time.monotonic() - began:.2f} s"


@scenario
def mpiexec_interrupted(scene):
    with scene(each=2, seconds=30) as s:
        s.process.signal(signal.SIGINT)
        began = time.monotonic()
        code, text = s.end()
        if code == 0:
            raise Wrong("the job ended as if all were well", text)
        s.swept()
        return f"exit code {code} after {time.monotonic() - began:.2f} s"


@scenario
def the_launcher_killed(scene):
    """The launcher itself, without our mpiexec above it."""
    with scene(each=2, seconds=30, direct=True) as s:
        s.process.signal(signal.SIGKILL)
        began = time.monotonic()
        s.end()
        s.swept(daemon_killed=True)
        return f"all gone after {time.monotonic() - began:.2f} s"


# Under launchers other than the first: what depends on them.
LAUNCHER_MATTERS = ("a_rank_killed", "a_host_crashes", "mpiexec_killed", "mpiexec_interrupted", "both_cut_errors_fatal")


def main():
    names = sys.argv[1:] or list(SCENARIOS)
    for name in names:
        if name not in SCENARIOS:
            sys.exit(f"faults.py {name}: allowed are {', '.join(SCENARIOS)}")
    report = Report()
    launchers = all_launchers()
    for launcher in launchers:
        if launcher.missing:
            report.skip(f"everything under {launcher.name}", f"*** {launcher.missing}")
    launchers = [launcher for launcher in launchers if not launcher.missing and launcher.name != "srun"]
    os.makedirs(f"{ROOT}/build", exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="net-tests.", dir=f"{ROOT}/build") as built:
        program = f"{built}/stream"
        source = os.path.join(HERE, "stream.c")
        subprocess.run([f"{PREFIX}/bin/mpicc", "-O2", "-Wall", "-Wextra", source, "-o", program], check=True)
        for number, launcher in enumerate(launchers):
            with Hosts(2, 3, share=[PREFIX]) as hosts:
                launcher.prepare(hosts)
                for name in names:
                    if number > 0 and name not in LAUNCHER_MATTERS and not sys.argv[1:]:
                        continue
                    tag = f"{name} {launcher.name}"
                    try:
                        scene = lambda launcher=launcher, hosts=hosts, **options: Scene(hosts, launcher, program, **options)
                        report.ok(tag, SCENARIOS[name](scene))
                    except Wrong as e:
                        report.fail(tag, str(e), e.log)
                    except Failed as e:
                        report.fail(tag, str(e).split("\n")[0], str(e))
                launcher.finish()
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
