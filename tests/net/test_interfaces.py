#!/usr/bin/env python3
"""The interfaces beside MPI between emulated hosts: their C programs, on both networks that Farpost knows."""

import ctypes.util
import os
import subprocess
import unittest

from hosts import ROOT, Hosts
from test_bad_input import HYDRA, MPIEXEC, PREFIX

PROGRAMS = {"jam": ("jam_all",), "fm": ("fm_messages", "fm_bad"), "rsm": ("rsm_badinput",)}


@unittest.skipUnless(HYDRA, "no launcher for several hosts: mpiexec.hydra could not be had")
class Interfaces(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        below = {os.path.dirname(os.path.dirname(os.path.realpath(p))) for p in (MPIEXEC, HYDRA)}
        cls.hosts = Hosts(2, share=sorted(p for p in below if p.startswith("/tmp/")))
        cls.addClassCleanup(cls.hosts.close)
        for interface, programs in PROGRAMS.items():
            for name in programs:
                source = f"{ROOT}/tests/interfaces/{name}.c"
                command = ["cc", "-std=c99", "-D_GNU_SOURCE", "-O1", "-g", source, "-o", f"{cls.hosts.directory}/{name}"]
                env = {**os.environ, "PKG_CONFIG_PATH": f"{PREFIX}/lib/pkgconfig"}
                flags = subprocess.run(
                    ["pkg-config", "--cflags", "--libs", f"farpost-{interface}"],
                    check=True, capture_output=True, text=True, env=env,
                ).stdout.split()
                subprocess.run([*command, *flags, f"-Wl,-rpath,{PREFIX}/lib", "-lm", "-lpthread"], check=True)

    def programs(self, **settings):
        for programs in PROGRAMS.values():
            for name in programs:
                for layout in ("h1:1,h2:1", "h1:2,h2:2"):
                    with self.subTest(name, layout=layout, **settings):
                        size = "2" if layout == "h1:1,h2:1" else "4"
                        command = [MPIEXEC, "-q", "--launcher", "hydra", "--rsh-agent", self.hosts.rsh, "--host", layout]
                        env = {"PATH": f"{os.path.dirname(HYDRA)}:{os.environ['PATH']}", **settings}
                        program = f"{self.hosts.directory}/{name}"
                        ran = self.hosts.run("h1", [*command, "-n", size, program], timeout=60, env=env)
                        self.assertEqual(ran.code, 0, ran)
                        for host in self.hosts.names:
                            self.assertEqual(self.hosts.settled(host, 10), [], f"left on {host} after {ran}")

    def test_tcp(self):
        self.programs(FARPOST_FABRIC="tcp")

    def test_encrypted(self):
        self.programs(FARPOST_FABRIC="tcp", FARPOST_ENCRYPT="1")

    @unittest.skipUnless(ctypes.util.find_library("fabric"), "libfabric is not installed")
    def test_ofi(self):
        self.programs(FARPOST_FABRIC="ofi")


if __name__ == "__main__":
    unittest.main()
