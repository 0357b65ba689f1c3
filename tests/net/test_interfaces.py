#!/usr/bin/env python3
"""The interfaces beside MPI between emulated hosts: their C programs, on both networks that Farpost knows, and a stranger that
sends RSMAPI's packets by hand. A program that one network runs with a process on each host the other runs with two, and half of
them run encrypted: which is chosen by the content of the commit. With FULL=1 everything runs."""

import ctypes.util
import json
import os
import shutil
import subprocess
import unittest

from hosts import ROOT, Hosts
from selection import turn_of_tree
from test_bad_input import HYDRA, MPIEXEC, PREFIX

PROGRAMS = {
    "jam": ("jam_all",),
    "fm": ("fm_messages", "fm_bad"),
    "rsm": ("rsm_badinput", "rsm_basic", "rsm_aborted withdrawn", "rsm_aborted gone", "rsm_computing", "rsm_requests"),
    "portals3": ("portals_codes", "portals_data", "portals_pids 700", "portals_recipes", "portals_computes", "examples/portals_store", "examples/portals_halo"),
}
# About calls more than about what travels: once a network, with two processes on each host.
CALLS = ("portals_refused", "portals_situations", "portals_threads", "portals_tiny")
# Of two ranks, a host each, on both networks.
PAIRS = ("rsm_limits",)
# In Rust, of the crate that C does not reach.
RUST = ("portals_sort",)
LAYOUTS = ("h1:1,h2:1", "2"), ("h1:2,h2:2", "4")
FULL = os.environ.get("FULL", "0") != "0"
# A process that has ended without a word is missed after so many milliseconds.
SOON = {"FARPOST_OFI_PEER_TIMEOUT": "1000"}
CARGO = os.environ.get("CARGO", "cargo")


def examples(*names):
    """Build programs in Rust; their paths. `stranger` interrupts whom it may not."""
    chosen = [word for name in names for word in ("--example", name)]
    command = [CARGO, "build", "-q", "-p", "farpost-node", *chosen, "--message-format=json"]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    messages = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    return [m["executable"] for m in messages if m.get("executable") and m["target"]["name"] in names]


@unittest.skipUnless(HYDRA, "no launcher for several hosts: mpiexec.hydra could not be had")
class Interfaces(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        below = {os.path.dirname(os.path.dirname(os.path.realpath(p))) for p in (MPIEXEC, HYDRA)}
        cls.hosts = Hosts(2, share=sorted(p for p in below if p.startswith("/tmp/")))
        cls.addClassCleanup(cls.hosts.close)
        for interface, programs in PROGRAMS.items():
            for name in sorted({program.split()[0] for program in programs}):
                cls.compile(interface, name)
        for name in CALLS:
            cls.compile("portals3", name)
        for name in PAIRS:
            cls.compile("rsm", name)
        cls.compile("rsm", "strangers/victim")
        for path in examples(*RUST, "stranger"):
            shutil.copy(path, cls.hosts.directory)

    @classmethod
    def compile(cls, interface, name):
        folder = ROOT if name.startswith("examples/") else f"{ROOT}/tests/interfaces"
        source, program = f"{folder}/{name}.c", f"{cls.hosts.directory}/{os.path.basename(name)}"
        command = ["cc", "-std=c99", "-D_GNU_SOURCE", "-O1", "-g", source, "-o", program]
        env = {**os.environ, "PKG_CONFIG_PATH": f"{PREFIX}/lib/pkgconfig"}
        flags = subprocess.run(
            ["pkg-config", "--cflags", "--libs", f"farpost-{interface}"],
            check=True, capture_output=True, text=True, env=env,
        ).stdout.split()
        subprocess.run([*command, *flags, f"-Wl,-rpath,{PREFIX}/lib", "-lm", "-lpthread"], check=True)

    def job(self, layout, command, **settings):
        mpiexec = [MPIEXEC, "-q", "--launcher", "hydra", "--rsh-agent", self.hosts.rsh, "--host", layout]
        env = {"PATH": f"{os.path.dirname(HYDRA)}:{os.environ['PATH']}", **SOON, **settings}
        ran = self.hosts.run("h1", [*mpiexec, *command], timeout=60, env=env)
        self.assertEqual(ran.code, 0, ran)
        for host in self.hosts.names:
            self.assertEqual(self.hosts.settled(host, 10), [], f"left on {host} after {ran}")
        return ran

    def programs(self, layouts=LAYOUTS, turn=0, **settings):
        """Every program in one of the layouts (None: not at all), with FULL in all of them."""
        programs = [program for programs in (*PROGRAMS.values(), RUST) for program in programs]
        for number, program in enumerate(programs):
            name, *args = os.path.basename(program).split()
            chosen = layouts if FULL else [layouts[(number + turn + turn_of_tree()) % len(layouts)]]
            for layout, size in filter(None, chosen):
                with self.subTest(program, layout=layout, **settings):
                    self.job(layout, ["-n", size, f"{self.hosts.directory}/{name}", *args], **settings)
        # Process 0 on one host, who may and who may not interrupt it on the other.
        for how, lines in (("asked", 0), ("untold", 5)):
            with self.subTest("a stranger", how=how, **settings):
                here = self.hosts.directory
                ran = self.job("h1:1,h2:2", ["-n", "2", f"{here}/victim", how, ":", "-n", "1", f"{here}/stranger"], **settings)
                said = (ran.out + ran.err).count("node 0: a fault that nobody asked for: process 2 wrote 0x")
                self.assertEqual(said, lines, ran)

    def calls(self, names=CALLS, layout=LAYOUTS[1], **settings):
        hosts, size = layout
        for name in names:
            with self.subTest(name, **settings):
                self.job(hosts, ["-n", size, f"{self.hosts.directory}/{name}"], **settings)

    def test_tcp(self):
        self.programs(FARPOST_FABRIC="tcp")
        self.calls(FARPOST_FABRIC="tcp")
        self.calls(PAIRS, LAYOUTS[0], FARPOST_FABRIC="tcp", FARPOST_RSM_SEGMENTS="80")

    def test_encrypted(self):
        self.programs([LAYOUTS[0], None], FARPOST_FABRIC="tcp", FARPOST_ENCRYPT="1")

    @unittest.skipUnless(ctypes.util.find_library("fabric"), "libfabric is not installed")
    def test_ofi(self):
        self.programs(turn=1, FARPOST_FABRIC="ofi")
        self.calls(FARPOST_FABRIC="ofi")
        self.calls(PAIRS, LAYOUTS[0], FARPOST_FABRIC="ofi")


if __name__ == "__main__":
    unittest.main()
