#!/usr/bin/env python3
"""Emulated hosts whose second network has IPv6 addresses only: messages go by it, and mpiexec takes such addresses for hosts."""

import os
import subprocess
import unittest

from hosts import Hosts
from test_bad_input import HYDRA, MPIEXEC, PREFIX, PROGRAM


@unittest.skipUnless(HYDRA, "no launcher for several hosts: mpiexec.hydra could not be had")
class IPv6(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        below = {os.path.dirname(os.path.dirname(os.path.realpath(p))) for p in (MPIEXEC, HYDRA)}
        cls.hosts = Hosts(2, rails=2, share=sorted(p for p in below if p.startswith("/tmp/")))
        cls.addClassCleanup(cls.hosts.close)
        if not os.path.exists("/proc/net/if_inet6"):
            raise unittest.SkipTest("this kernel has no IPv6")
        with open(f"{cls.hosts.directory}/hosts", "a", encoding="utf-8") as names:
            for number, host in enumerate(cls.hosts.names, 1):
                cls.hosts.run(host, ["ip", "-4", "addr", "flush", "dev", "r1"], check=True)
                cls.hosts.run(host, ["ip", "addr", "add", f"fd78::{number}/64", "dev", "r1", "nodad"], check=True)
                names.write(f"fd78::{number} {host}-r1-v6\n")
        cls.program = f"{cls.hosts.directory}/program"
        with open(f"{cls.program}.c", "w", encoding="utf-8") as f:
            f.write(PROGRAM)
        compiler = [f"{PREFIX}/bin/mpicc", f"{cls.program}.c", "-o", cls.program]
        subprocess.run([*compiler, f"-L{PREFIX}/lib", f"-Wl,-rpath,{PREFIX}/lib"], check=True)

    def job(self, hosts, program=None, **settings):
        command = [MPIEXEC, "-q", "--launcher", "hydra", "--rsh-agent", self.hosts.rsh, "--host", hosts, "-n", "4"]
        env = {"PATH": f"{os.path.dirname(HYDRA)}:{os.environ['PATH']}", **settings}
        ran = self.hosts.run("h1", [*command, *(program or [self.program])], timeout=30, env=env)
        for host in self.hosts.names:
            self.assertEqual(self.hosts.settled(host, 10), [], f"left on {host} after {ran}")
        return ran

    def test_messages_go_by_it(self):
        for choice in ("r1", "fd78::/64", "fd78::1,fd78::2", "!r0"):
            for encrypt in "01":
                with self.subTest(choice, encrypt=encrypt):
                    ran = self.job("h1:2,h2:2", FARPOST_INTERFACE=choice, FARPOST_ENCRYPT=encrypt)
                    self.assertEqual(ran.code, 0, ran)
        # It was this network, and no other that went.
        self.hosts.black_hole("h2", 1)
        self.addCleanup(self.hosts.black_hole, "h2", 1, False)
        ran = self.job("h1:2,h2:2", FARPOST_INTERFACE="r1", FARPOST_CONNECT_MS="500")
        self.assertNotEqual(ran.code, 0, ran)
        self.assertIn("no way led there: [fd78::", ran.err)

    def test_both_networks_are_used(self):
        self.assertEqual(self.job("h1:2,h2:2").code, 0)

    def test_addresses_of_hosts(self):
        where = lambda ran: sorted(ran.out.split())
        ran = self.job("[fd78::1]:1,[fd78::2]:3", ["uname", "-n"])
        self.assertEqual((ran.code, where(ran)), (0, ["h1", "h2", "h2", "h2"]), ran)
        ran = self.job("root@h1:2,root@[fd78::2]:2", ["uname", "-n"])
        self.assertEqual((ran.code, where(ran)), (0, ["h1", "h1", "h2", "h2"]), ran)
        ran = self.job("h1,[fd78::99]:2")
        self.assertEqual((ran.code != 0, len(ran.err.splitlines())), (True, 1), ran)
        self.assertIn("host fd78::99: mpiexec.hydra does not take IPv6 addresses, and no name belongs", ran.err)


if __name__ == "__main__":
    unittest.main()
