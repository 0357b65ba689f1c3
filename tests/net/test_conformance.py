#!/usr/bin/env python3
"""The fabrics' conformance suites (crates/fabric/src/conformance) between emulated hosts: `tcp`, encrypted too, and `ofi`; and the
tests of RSMAPI in Rust over `ofi`, with a process on each host.

A thread of one process lives in the network namespace of each host. The process runs in the switch of the set, which owns the
hosts' namespaces, as root or in a user namespace.
"""

import glob
import json
import os
import subprocess
import sys
import unittest

from hosts import ROOT, Hosts

CARGO = os.environ.get("CARGO", "cargo")


def binary(package, name):
    """Build a test program; its path."""
    command = [CARGO, "test", "-q", "-p", package, "--test", name, "--no-run", "--message-format=json"]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    for line in built.stdout.splitlines():
        if line.startswith("{"):
            message = json.loads(line)
            if message.get("executable") and message["target"]["name"] == name:
                return message["executable"]
    raise RuntimeError(f"{' '.join(command)} told of no program")


def libraries():
    """Newer libfabrics than the system's, of other MPI libraries, where these can be had."""
    script = os.path.join(ROOT, "scripts", "fetch-peers.sh")
    done = subprocess.run([script, "openmpi", "impi-rt"], stdout=subprocess.PIPE, text=True, check=False)
    found = []
    for line in done.stdout.splitlines():
        directory = line.partition(" ")[2]
        found += sorted(glob.glob(f"{directory}/**/libfabric.so.1", recursive=True))
    if not found:
        print("*** SKIPPED: newer versions of libfabric: the packages that have them could not be had", file=sys.stderr)
    return found


LIST = """
import os
seen = {}
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        seen[os.readlink(f"/proc/{pid}/ns/net")] = f"/proc/{pid}/ns/net"
    except OSError:
        pass
print(*(f"{space} {path}" for space, path in seen.items()), sep="\\n")
"""


def namespaces(hosts):
    """Paths to the network namespaces of the hosts, in order, as the switch sees them."""
    listed = hosts.run("switch", [sys.executable, "-IS", "-c", LIST], check=True).out
    paths = dict(line.split() for line in listed.splitlines())
    found = []
    for name in hosts.names:
        own = hosts.run(name, ["readlink", "/proc/self/ns/net"], check=True).out.strip()
        found.append(paths[own])
    return found


class Conformance(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.binaries = {package: binary(f"farpost-{package}", "namespaces") for package in ("tcp", "ofi")}
        cls.rsm = binary("farpost-rsm", "processes")
        cls.libraries = libraries()

    def suites(self, count, rails, *tests, libraries=()):
        with Hosts(count, rails=rails) as hosts:
            env = {
                "FARPOST_TEST_NAMESPACES": ":".join(namespaces(hosts)),
                "FARPOST_TEST_RAILS": str(rails),
                "FARPOST_TEST_OFI_LIBRARIES": ":".join(libraries),
            }
            for package, program in self.binaries.items():
                its = [test for test in tests if test.partition("_")[0] == package]
                if its:
                    self.run_suites(hosts, [program, "--nocapture", "--exact", *its], env, len(its))

    def run_suites(self, hosts, command, env, count):
        ran = hosts.run("switch", command, timeout=150, env=env)
        said = ran.out + ran.err
        self.assertEqual(ran.code, 0, said)
        self.assertIn(f"{count} passed", said)
        self.assertNotIn("names no network namespaces", said)
        for line in said.splitlines():
            if line.startswith("SKIPPED"):
                print(f"*** {line}", file=sys.stderr)

    def test_remote_shared_memory(self):
        with Hosts(3, rails=1) as hosts:
            ran = hosts.run("switch", [self.rsm], timeout=150, env={"FARPOST_TEST_NAMESPACES": ":".join(namespaces(hosts))})
            said = ran.out + ran.err
            self.assertEqual(ran.code, 0, said)
            if "SKIPPED" in said:
                print(f"*** {said.strip()}", file=sys.stderr)
            else:
                self.assertRegex(said, r"libfabric: \d\d roles")

    def test_two_hosts_one_rail(self):
        self.suites(2, 1, "tcp", "tcp_encrypted", "tcp_uses_every_rail", "ofi_tcp_with_the_rxm_layer")

    def test_two_hosts_two_rails(self):
        self.suites(2, 2, "tcp", "tcp_uses_every_rail", "ofi_tcp", libraries=self.libraries)

    def test_four_hosts_one_rail(self):
        self.suites(4, 1, "tcp", "tcp_uses_every_rail")

    def test_four_hosts_two_rails(self):
        self.suites(4, 2, "tcp", "tcp_encrypted", "tcp_uses_every_rail", "ofi_tcp")


if __name__ == "__main__":
    unittest.main()
