#!/usr/bin/env python3
"""Ranks that meet their end, or run out of descriptors, memory or threads, at points drawn from a seed: at the start, in MPI_Init, in
each kind of wait, in collectives, in MPI_Finalize; and launchers that are killed. Each job ends, says why, and leaves nothing.

    deaths.py --mpiexec build/install/bin/mpiexec --program deaths [--tree HEX | --seed N] [--rounds N] [--stage S] [--action A]

The seed is made from the content of the commit (scripts/tree.sh) and printed; --seed repeats it. No time is tested: a job that has not
ended after a minute counts as hung.
"""
import argparse
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

WAITS = ["recv", "any", "probe", "iprobe", "mprobe", "test", "bigrecv", "gaps", "ssend", "flood", "exchange", "barrier", "bcast",
         "bigbcast", "allreduce", "bigallreduce", "alltoall", "gather", "scan", "ibarrier", "iallreduce", "dup"]
ENDS = {"kill": (137, "signal 9 (SIGKILL)"), "segv": (139, "signal 11 (SIGSEGV"), "exit": (7, "exited with code 7")}
SCARCE = ["files", "memory", "threads"]
# Lacks that were met once: a collective without descriptors for its first message went on without it, and all waited for each other.
MET = [(stage, "files", 3, 2, much) for stage in ("allreduce", "scan") for much in (2, 3)]
HUNG = 60
failed = 0


def processes(mark):
    """Processes that have `mark` in their environment, zombies aside."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                if mark.encode() not in f.read():
                    continue
            with open(f"/proc/{pid}/stat") as f:
                if f.read().rsplit(")", 1)[1].split()[0] not in "ZX":
                    found.append(int(pid))
        except (OSError, IndexError):
            pass
    return found


class Job:
    """A job whose processes are known by a word in their environment."""
    count = 0

    def __init__(self, args, options, ranks, what, env=None, as_user=None):
        Job.count += 1
        self.mark = f"DEATHS_MARK={os.getpid()}.{Job.count}"
        self.dir = tempfile.mkdtemp(prefix="deaths")
        name, value = self.mark.split("=")
        variables = {**os.environ, **(env or {}), name: value, "TMPDIR": self.dir}
        self.err = open(os.path.join(self.dir, "err"), "w+b")
        os.chmod(self.dir, 0o777)

        def before():
            if as_user:
                os.setgroups([])
                os.setgid(as_user)
                os.setuid(as_user)
        command = [args.mpiexec, *options, "-n", str(ranks), *what]
        self.command = " ".join(command)
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.err, stderr=self.err, env=variables, preexec_fn=before)

    def end(self):
        """The exit code, None when it hung; what was said; what is left."""
        try:
            code = self.process.wait(timeout=HUNG)
        except subprocess.TimeoutExpired:
            code = None
        left = processes(self.mark)
        # What was killed needs a moment to be gone.
        for _ in range(100):
            if not left or code is None:
                break
            time.sleep(0.02)
            left = processes(self.mark)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        if code is None:
            self.process.wait()
        self.err.seek(0)
        said = self.err.read().decode(errors="replace")
        self.err.close()
        os.unlink(os.path.join(self.dir, "err"))
        files = os.listdir(self.dir)
        for name in files:
            os.unlink(os.path.join(self.dir, name))
        os.rmdir(self.dir)
        return code, said, [f"process {pid}" for pid in left] + files


def tell(name, job, wrong, said):
    global failed
    if wrong:
        failed += 1
        print(f"FAIL deaths: {name}: {'; '.join(wrong)}\n       {job.command}\n       " + "\n       ".join(said.splitlines()[-12:]), flush=True)
    else:
        print(f"ok   deaths: {name}", flush=True)


def common(code, left):
    wrong = ["hung"] if code is None else []
    if left:
        wrong.append("left: " + ", ".join(left))
    return wrong


def a_death(args, draw, stage, action):
    ranks = draw.choice([2, 2, 3, 4, 8])
    victim = draw.randrange(ranks)
    delay = draw.choice([0, draw.randrange(1, 3000), draw.randrange(1, 30000)])
    go_on = draw.random() < 0.5
    options = ["--on-failure", "continue"] if go_on else []
    wrapped = draw.random() < 0.3
    own = [args.program, stage, action, str(victim), str(delay)]
    what = ["sh", "-c", " ".join(own) + "; e=$?; [ $e -gt 128 ] && kill -$((e - 128)) $$; exit $e"] if wrapped else own
    job = Job(args, options, ranks, what)
    code, said, left = job.end()
    name = f"{action} of rank {victim} of {ranks} in {stage} after {delay} us{', others go on' if go_on else ''}{', below a shell' if wrapped else ''}"
    wrong = common(code, left)
    want, how = ENDS[action]
    lines = [line for line in said.splitlines() if line.startswith("mpiexec: rank ")]
    mine = [line for line in lines if f"rank {victim} on host" in line]
    # It may have come to its end without meeting it.
    escaped = stage in ("start", "init", "finalize") and code == 0 and not lines
    if not escaped:
        if code != want:
            wrong.append(f"exit code {code}, not {want}")
        if len(mine) != 1 or how not in mine[0]:
            wrong.append(f"not told once that rank {victim} {how}")
        if not go_on and len(lines) != 1:
            wrong.append(f"{len(lines)} lines of mpiexec's")
        if go_on and stage in WAITS:
            # All others say who is gone and how: the victim, or one that left over it.
            first = 0
            for rank in range(ranks):
                heard = [line for line in said.splitlines() if line.startswith(f"rank {rank}: ")]
                first += any(f"rank {victim} on host" in line and how in line for line in heard)
                if rank != victim and not any(re.search(r"MPI_ERR_PROC_ABORTED: .*rank \d+ on host ", line) for line in heard):
                    wrong.append(f"rank {rank} was not told: {heard}")
            if not first:
                wrong.append("nobody names the first")
    tell(name, job, wrong, said)


def a_stop(args, draw, stage):
    """A stopped rank is not dead: the others wait, and are ended when the job's time is up."""
    ranks = draw.choice([2, 3, 4])
    victim = draw.randrange(ranks)
    job = Job(args, ["--timeout", "2"], ranks, [args.program, stage, "stop", str(victim), str(draw.randrange(1000))])
    code, said, left = job.end()
    wrong = common(code, left)
    if code != 124:
        wrong.append(f"exit code {code}, not 124")
    if "MPI_ERR_PROC_ABORTED" in said or "has ended" in said:
        wrong.append("a stopped rank was taken for a dead one")
    tell(f"stop of rank {victim} of {ranks} in {stage}", job, wrong, said)


def a_lack(args, stage, action, ranks, victim, much):
    """Whatever comes of it: the job ends, well or with a word that says what was lacking, and nobody gets wrong words."""
    user = None
    if action == "threads" and os.getuid() == 0:
        user = 65534
    env = {"FARPOST_PROGRESS_THREAD": "1"} if action == "threads" else {}
    job = Job(args, [], ranks, [args.program, stage, action, str(victim), str(much)], env, user)
    code, said, left = job.end()
    wrong = common(code, left)
    if code not in (0, None) and not re.search(r"os error \d+|memory|descriptor|Too many|limit|allocat|resource|thread", said):
        wrong.append(f"exit code {code}, and no word about what was lacking")
    if "panicked" in said:
        wrong.append("a panic")
    tell(f"lack of {action} at rank {victim} of {ranks} in {stage}: exit code {code}", job, wrong, said)


def launchers(args, draw, stage, which):
    """The front process, its guardian, or both at once are killed."""
    ranks = draw.choice([2, 3])
    own = " ".join([args.program, stage, "none", "0", "0"])
    shell = draw.choice(["exec {}", "{}; true", "sh -c '{}; true'; true", "setsid sh -c '{}; true'"])
    job = Job(args, ["--on-failure", "continue"] if draw.random() < 0.5 else [], ranks, ["sh", "-c", shell.format(own)])
    time.sleep(draw.random() * 0.5)
    front = job.process.pid
    guard = []
    for pid in processes(job.mark):
        try:
            with open(f"/proc/{pid}/stat") as f:
                stat = f.read()
            if int(stat.rsplit(")", 1)[1].split()[1]) == front and "(farpost-guard)" in stat:
                guard.append(pid)
        except OSError:
            pass
    targets = {"front": [front], "guardian": guard, "both": [front, *guard]}[which]
    for sent in (signal.SIGSTOP, signal.SIGKILL):
        for pid in targets:
            try:
                os.kill(pid, sent)
            except OSError:
                pass
    if which == "guardian" and not guard:
        job.process.kill()
    code, said, left = job.end()
    tell(f"{which} killed, {ranks} ranks in {stage}, {shell.format('program')}", job, common(code, left), said)


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--mpiexec", required=True)
    ask.add_argument("--program", required=True)
    ask.add_argument("--tree", default="0")
    ask.add_argument("--seed", type=int)
    ask.add_argument("--rounds", type=int, default=24)
    ask.add_argument("--stage")
    ask.add_argument("--action")
    args = ask.parse_args()
    seed = args.seed if args.seed is not None else int(args.tree[:12], 16)
    print(f"deaths: seed {seed} (--seed {seed} repeats it)", flush=True)
    draw = random.Random(seed)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    stages = [args.stage] if args.stage else ["start", "init", *WAITS, "finalize"]
    kinds = [args.action] if args.action else [*ENDS, *ENDS, *SCARCE, "stop", "front", "guardian", "both"]
    # Every kind at least once, then stages in turn, so that a few seeds meet all.
    draw.shuffle(kinds)
    draw.shuffle(stages)
    for lack in MET if not (args.stage or args.action) else []:
        a_lack(args, *lack)
    for turn in range(args.rounds):
        kind, stage = kinds[turn % len(kinds)], stages[turn % len(stages)]
        if kind in ENDS:
            a_death(args, draw, stage, kind)
        elif kind in SCARCE:
            # In a flood nobody would ever come to an end.
            ranks = draw.choice([2, 3])
            a_lack(args, stage if stage != "flood" else "recv", kind, ranks, draw.randrange(ranks), draw.randrange(16))
        elif kind == "stop":
            a_stop(args, draw, stage if stage in WAITS else "barrier")
        else:
            launchers(args, draw, stage if stage in WAITS else "barrier", kind)
    sys.exit(1 if failed else 0)


main()
