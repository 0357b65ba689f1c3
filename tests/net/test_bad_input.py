#!/usr/bin/env python3
"""Jobs on emulated hosts that cannot run: each is refused in a clear line, within seconds, with a failure code, and nothing is
left running on any host. The launcher is MPICH's Hydra."""

import os
import subprocess
import unittest

from hosts import ROOT, Hosts
from test_doctor import HYDRA

PREFIX = os.environ.get("PREFIX", os.path.join(ROOT, "build", "install"))
MPIEXEC = os.path.join(PREFIX, "bin", "mpiexec")
SECONDS = 30

PROGRAM = """
#include <mpi.h>
int main(int argc, char **argv)
{
    int rank, size, from;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &from, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Finalize();
    return from != (rank + size - 1) % size;
}
"""

OLD_LIBFABRIC = "unsigned fi_version(void) { return 1u << 16 | 3; }\n" + "".join(
    f"int {name}(void) {{ return -38; }}\n"
    for name in ("fi_getinfo", "fi_freeinfo", "fi_fabric", "fi_strerror", "fi_dupinfo", "fi_tostr")
)


@unittest.skipUnless(HYDRA, "no launcher for several hosts: mpiexec.hydra could not be had")
class BadInput(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        below = {os.path.dirname(os.path.dirname(os.path.realpath(p))) for p in (MPIEXEC, HYDRA)}
        cls.hosts = Hosts(2, rails=2, share=sorted(p for p in below if p.startswith("/tmp/")))
        cls.addClassCleanup(cls.hosts.close)
        cls.here = cls.hosts.directory
        cls.program = f"{cls.here}/program"
        cls.compile([f"{PREFIX}/bin/mpicc"], PROGRAM, cls.program, [f"-L{PREFIX}/lib", f"-Wl,-rpath,{PREFIX}/lib"])

    @classmethod
    def compile(cls, compiler, text, to, more=()):
        with open(f"{to}.c", "w", encoding="utf-8") as f:
            f.write(text)
        subprocess.run([*compiler, f"{to}.c", "-o", to, *more], check=True)

    def file(self, name, content, mode=0o600):
        path = f"{self.here}/{name}"
        with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode), "wb") as f:
            f.write(content)
        return path

    def run_it(self, command, settings):
        env = {"PATH": f"{os.path.dirname(HYDRA)}:{os.environ['PATH']}", **settings}
        ran = self.hosts.run("h1", command, timeout=SECONDS, env=env)
        for host in self.hosts.names:
            self.assertEqual(self.hosts.settled(host, 10), [], f"left on {host} after {ran}")
        return ran

    def job(self, *options, program=None, **settings):
        options = options or ("--host", "h1,h2", "-n", "2")
        return self.run_it(
            [MPIEXEC, "-q", "--launcher", "hydra", "--rsh-agent", self.hosts.rsh, *options, *(program or [self.program])],
            settings,
        )

    def hydra(self, shell):
        """A job of two ranks under Hydra itself, whose ranks run `shell` first."""
        command = [HYDRA, "-launcher", "ssh", "-launcher-exec", self.hosts.rsh, "-hosts", "h1,h2", "-n", "2"]
        return self.run_it([*command, "/bin/sh", "-c", f"{shell}; exec {self.program}"], {})

    def on_h2(self, shell):
        return ["/bin/sh", "-c", f"if [ $(uname -n) = h2 ]; then {shell}; fi; exec {self.program}"]

    def refused(self, ran, *words, lines=2):
        self.assertNotEqual(ran.code, 0, ran)
        said = [line for line in ran.err.splitlines() if line.startswith(("farpost:", "mpiexec: ")) and " exited with code" not in line]
        self.assertTrue(0 < len(said) <= lines, ran)
        for word in words:
            self.assertTrue(any(word in line for line in said), f"{word}: {ran}")

    def test_what_is_right_runs(self):
        self.assertEqual(self.job().code, 0)

    def test_hosts(self):
        self.refused(self.job("--host", "h1,h9", "-n", "2"), "host h9: there is no such host", lines=1)
        self.refused(self.job("--host", "h1,10.99.0.1", "-n", "2"), "host 10.99.0.1: no network of this host leads to 10.99.0.1", lines=1)
        rubbish = self.file("rubbish", b"h1\n{json: 1}\n")
        self.refused(self.job("--hostfile", rubbish, "-n", "2"), f"host file {rubbish}:2: host '{{json:'", lines=1)
        binary = self.file("binary", b"\x7fELF\xff\xfe\0\1")
        self.refused(self.job("--hostfile", binary, "-n", "2"), f"host file {binary}:1: not text", lines=1)

    def test_no_launcher(self):
        self.refused(self.run_it([MPIEXEC, "--host", "h1,h2", "-n", "2", self.program], {"PATH": "/nowhere"}), "install", lines=1)

    def test_ports_used_up(self):
        ran = self.job("--host", "h1:2,h2:2", "-n", "4", FARPOST_TCP_PORTS="5000-5000")
        self.refused(ran, "FARPOST_TCP_PORTS=5000-5000", "widen the range", lines=4)

    def test_no_route_between_ranks(self):
        self.hosts.black_hole("h2", 1)
        self.addCleanup(self.hosts.black_hole, "h2", 1, False)
        ran = self.job("--host", "h1,h2", "-n", "2", "--interface", "r1")
        self.refused(ran, ": connecting has waited 10.", " UTC, and no way led there: 10.78.0.", " via r1: ")
        # With another way to the peer nobody waits for this one.
        self.assertEqual(self.job(FARPOST_CONNECT_MS="3600000").code, 0)

    def test_values(self):
        for name, value, allowed in (
            ("FARPOST_FABRIC", "rubbish", "allowed are auto, tcp, ofi and sim"),
            ("FARPOST_INTERFACE", "nosuch", "r0 (10.77.0."),
            ("FARPOST_INTERFACE", "10.0.0.0/40", "a network such as 10.1.0.0/16"),
            ("FARPOST_TCP_PORTS", "9-1", "5000-5099"),
            ("FARPOST_ENCRYPT", "2", "allowed are 0 to 1"),
            ("FARPOST_RAIL_BOUND_MS", "x", "not a number"),
            ("FARPOST_START_TIMEOUT", "abc", "not a number"),
            ("FARPOST_CONFIG", "/nonexistent", "No such file"),
        ):
            with self.subTest(name, value=value):
                self.refused(self.job(**{name: value}), f"{name}={value}", allowed)
        self.refused(self.job(FARPOST_FABRICS="tcp"), "FARPOST_FABRICS: no such setting")
        ran = self.job("--host", "h1,h2", "-n", "2", "--interface", "nosuch")
        self.refused(ran, "FARPOST_INTERFACE=nosuch")

    def test_libfabric(self):
        ran = self.job(FARPOST_FABRIC="ofi", FARPOST_OFI_LIBRARY="/nonexistent")
        self.refused(ran, "libfabric is not available: /nonexistent", "install libfabric")
        self.compile(["cc", "-shared", "-fPIC"], OLD_LIBFABRIC, f"{self.here}/old.so")
        ran = self.job(FARPOST_FABRIC="ofi", FARPOST_OFI_LIBRARY=f"{self.here}/old.so")
        self.refused(ran, "interface 1.3, which is too old")
        self.assertEqual(self.job(FARPOST_OFI_LIBRARY="/nonexistent").code, 0)

    def test_networks_that_differ(self):
        ran = self.job(program=self.on_h2("export FARPOST_FABRIC=ofi"), FARPOST_FABRIC="tcp")
        self.assertNotEqual(ran.code, 0, ran)
        self.assertIn("FARPOST_FABRIC", ran.err)

    def test_one_side_that_asks_for_encryption_is_enough(self):
        self.assertEqual(self.job(program=self.on_h2("export FARPOST_ENCRYPT=1")).code, 0)

    def test_what_a_launcher_must_say(self):
        for shell, words in (
            ("export PMI_RANK=zz", "PMI_RANK=zz: must be a rank"),
            ("export PMI_RANK=99", "PMI_RANK=99: PMI_SIZE=2 has no such rank"),
            ("unset PMI_RANK", "PMI_RANK=: is not set"),
            ("unset PMI_SIZE", "PMI_SIZE=: is not set"),
            ("export PMI_SIZE=0", "PMI_SIZE=0"),
            ("export PMI_FD=77", "PMI_FD=77: no such descriptor"),
            ("export PMI_FD=x", "PMI_FD=x: must be the descriptor"),
            ("unset PMI_FD", "which offers none of the ways to join a job"),
            ("unset PMI_FD; export PMI_PORT=malformed PMI_ID=0", "PMI_PORT=malformed: must be host:port"),
            ("unset PMI_FD; export PMI_PORT=127.0.0.1:9", "PMI_ID=: is not set"),
            ("unset PMI_FD; export PMI_PORT=127.0.0.1:9 PMI_ID=0", "cannot be reached: 127.0.0.1:9: Connection refused"),
        ):
            with self.subTest(shell):
                self.refused(self.hydra(shell), words)

    def test_secrets_that_differ(self):
        for host in self.hosts.names:
            self.file(f"secret.{host}", os.urandom(32))
        ran = self.hydra(f"export FARPOST_SECRET_FILE={self.here}/secret.$(uname -n)")
        self.assertNotEqual(ran.code, 0, ran)
        self.assertIn("were given different secrets", ran.out + ran.err)
        # Through our own mpiexec, too.
        of = lambda host: f"{self.here}/secret.{host}"
        self.assertEqual(self.job(FARPOST_SECRET_FILE=of("h1")).code, 0)
        ran = self.job(program=self.on_h2(f"export FARPOST_SECRET_FILE={of('h2')}"), FARPOST_SECRET_FILE=of("h1"))
        self.refused(ran, "were given different secrets")
        os.chmod(of("h1"), 0o640)
        self.refused(self.job(FARPOST_SECRET_FILE=of("h1")), f"FARPOST_SECRET_FILE={of('h1')}: must be a file of user", "0600")
        self.refused(self.job("-n", "1", FARPOST_SECRET_FILE=of("h3")), f"FARPOST_SECRET_FILE={of('h3')}: cannot be opened", lines=1)

    def test_mixed_versions(self):
        library = os.path.realpath(f"{PREFIX}/lib/libmpi_abi.so.1")
        with open(library, "rb") as f:
            content = f.read()
        # The version is a literal, or a number of four bytes where it is compared.
        other = self.file("other.so", content.replace(b"0.1.", b"0.9."), 0o700)
        self.addCleanup(os.unlink, other)
        ran = self.job(program=self.on_h2(f"export LD_PRELOAD={other}"))
        self.refused(ran, "Farpost 0.1.", "Farpost 0.9.")


if __name__ == "__main__":
    unittest.main()
