#!/usr/bin/env python3
"""`farpost doctor --hosts` on emulated hosts: what it says of ways that work, of a dead rail, and of bad settings."""

import os
import shutil
import subprocess
import unittest

from hosts import ROOT, Hosts

PREFIX = os.environ.get("PREFIX", os.path.join(ROOT, "build", "install"))
FARPOST = os.path.join(PREFIX, "bin", "farpost")


def hydra():
    """Hydra of this system, or of the build cache."""
    found = shutil.which("mpiexec.hydra")
    if found:
        return found
    script = os.path.join(ROOT, "scripts", "fetch-peers.sh")
    done = subprocess.run([script, "mpich"], stdout=subprocess.PIPE, text=True, check=False)
    for line in done.stdout.splitlines():
        path = os.path.join(line.partition(" ")[2], "bin", "mpiexec.hydra")
        if os.access(path, os.X_OK):
            return path
    return None


HYDRA = hydra()


@unittest.skipUnless(HYDRA, "no launcher for several hosts: mpiexec.hydra could not be had")
class Doctor(unittest.TestCase):
    def setUp(self):
        # What lies below /tmp is not seen by hosts, unless it is shared.
        below = {os.path.dirname(os.path.dirname(os.path.realpath(p))) for p in (FARPOST, HYDRA)}
        self.hosts = Hosts(2, rails=2, share=sorted(p for p in below if p.startswith("/tmp/")))
        self.addCleanup(self.hosts.close)

    def doctor(self, hosts="h1,h2", **settings):
        env = {"PATH": f"{os.path.dirname(HYDRA)}:{os.environ['PATH']}", "FARPOST_RSH": self.hosts.rsh, **settings}
        ran = self.hosts.run("h1", [FARPOST, "doctor", "--hosts", *([hosts] if hosts else [])], timeout=100, env=env)
        for host in self.hosts.names:
            self.assertEqual(self.hosts.settled(host, 10), [], f"left on {host}")
        return ran

    def lines(self, ran):
        return [line for line in ran.out.splitlines() if " to " in line and not line.startswith(" ")]

    def test_every_pair_in_order_with_its_rails_and_reasons(self):
        ran = self.doctor()
        self.assertEqual(ran.code, 0, ran)
        starts = [
            "h1 (0) to h2 (1), rail 0, via r0 (10.77.0.1 to 10.77.0.2 port ",
            "h1 (0) to h2 (1), rail 1, via r1 (10.78.0.1 to 10.78.0.2 port ",
            "h2 (1) to h1 (0), rail 0, via r0 (10.77.0.2 to 10.77.0.1 port ",
            "h2 (1) to h1 (0), rail 1, via r1 (10.78.0.2 to 10.78.0.1 port ",
        ]
        lines = self.lines(ran)
        self.assertEqual(len(lines), len(starts), ran)
        for line, start in zip(lines, starts):
            self.assertTrue(line.startswith(start) and line.endswith(": reached"), line)
            self.assertIn(") because both are in 10.7", line)

    def test_interfaces_by_name_and_network(self):
        for value in ("r1", "10.78.0.0/16", "r*,!r0", "!r0"):
            ran = self.doctor(FARPOST_INTERFACE=value)
            self.assertEqual(ran.code, 0, ran)
            lines = self.lines(ran)
            self.assertEqual(len(lines), 2, ran)
            self.assertTrue(all(" via r1 (10.78.0." in line for line in lines), ran)

    def test_a_rail_that_swallows_everything_is_found_out(self):
        self.hosts.black_hole("h2", 1)
        ran = self.doctor()
        self.assertNotEqual(ran.code, 0, ran)
        lines = self.lines(ran)
        self.assertTrue(all(line.endswith(": reached") for line in lines if ", rail 0," in line), ran)
        self.assertTrue(all("NOT CONNECTED" in line for line in lines if ", rail 1," in line), ran)

    def test_bad_settings_are_refused_by_name(self):
        for name, value in (("FARPOST_INTERFACE", "eth7"), ("FARPOST_INTERFACE", "10.0.0.0/40"), ("FARPOST_TCP_PORTS", "9-1")):
            ran = self.doctor(**{name: value})
            self.assertNotEqual(ran.code, 0, ran)
            self.assertIn(f"{name}={value}", ran.err)
        ran = self.doctor(hosts=None)
        self.assertNotEqual(ran.code, 0, ran)
        self.assertIn("which hosts?", ran.err)

    def test_ports_of_the_range_are_used(self):
        ran = self.doctor(FARPOST_TCP_PORTS="5300-5301")
        self.assertEqual(ran.code, 0, ran)
        for line in self.lines(ran):
            self.assertRegex(line, r"port 530[01]\)")


if __name__ == "__main__":
    unittest.main()
