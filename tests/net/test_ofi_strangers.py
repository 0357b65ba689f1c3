#!/usr/bin/env python3
"""Strangers at the ports of libfabric's endpoints while a job on emulated hosts exchanges messages over them: a port scanner, who
connects and says nothing, random bytes, and a replay of all that one rank sent another. No message may be lost or changed.

The replay is left out with libfabric 2: its tcp provider (seen with 2.5.1) takes a repeated connection for a restart of the peer and
gives up the true one. Nothing above libfabric can prevent that."""

import ctypes
import os
import subprocess
import sys
import unittest

from hosts import Hosts
from launchers import has_library
from test_bad_input import HYDRA, MPIEXEC, PREFIX

# Exchanges short and long messages until rank 0 finds the file "stop" in the directory given.
PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static unsigned char out[100000], in[100000];
int main(int argc, char **argv)
{
    int rank, size, stop = 0;
    char name[4096];
    if (argc < 2) return 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (long round = 0; !stop; round++) {
        int len = round % 3 == 0 ? 8 : round % 3 == 1 ? 3000 : (int)sizeof out;
        int from = (rank + size - 1) % size;
        memset(out, (int)(round * 7 + rank), len);
        memset(in, 255, len);
        MPI_Sendrecv(out, len, MPI_BYTE, (rank + 1) % size, 3, in, len, MPI_BYTE, from, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < len; i++)
            if (in[i] != (unsigned char)(round * 7 + from)) {
                fprintf(stderr, "round %ld: byte %d of %d is wrong\n", round, i, len);
                MPI_Abort(MPI_COMM_WORLD, 9);
            }
        if (rank == 0) {
            snprintf(name, sizeof name, "%s/stop", argv[1]);
            stop = access(name, F_OK) == 0;
            snprintf(name, sizeof name, "%s/round", argv[1]);
            FILE *f = fopen(name, "w");
            if (f) fprintf(f, "%ld\n", round), fclose(f);
        }
        MPI_Bcast(&stop, 1, MPI_INT, 0, MPI_COMM_WORLD);
        usleep(1000);
    }
    MPI_Finalize();
    return 0;
}
"""

# Notes what every TCP stream carries, from its first byte on, until told to stop; then a line per stream: port and bytes.
LISTENER = r"""
import os, select, socket, struct, sys
directory = sys.argv[1]
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3))
streams = {}
open(directory + "/listening", "w").close()
while not os.path.exists(directory + "/noted"):
    if not select.select([s], [], [], 0.1)[0]:
        continue
    frame = s.recv(70000)
    if frame[12:14] != b"\x08\x00" or frame[23] != 6:
        continue
    ip = frame[14:14 + struct.unpack(">H", frame[16:18])[0]]
    tcp = ip[(ip[0] & 15) * 4:]
    source, port, sequence = struct.unpack(">HHI", tcp[:8])
    if tcp[13] & 2:
        streams[(ip[12:20], source, port)] = [sequence + 1, b""]
    known = streams.get((ip[12:20], source, port))
    data = tcp[(tcp[12] >> 4) * 4:]
    if known and data and known[0] + len(known[1]) & 0xffffffff == sequence and len(known[1]) < 60000:
        known[1] += data
for (_, _, port), (_, data) in streams.items():
    if data:
        print(port, data.hex(), flush=True)
"""

# At each port in the list, and with what was noted: all kinds of strangers.
STRANGER = r"""
import os, random, socket, sys, time
random.seed(4)
held = []
def call(address):
    s = socket.socket()
    s.settimeout(5)
    s.connect(address)
    return s
def say(address, data):
    try:
        with call(address) as s:
            s.sendall(data)
            s.settimeout(0.05)
            while s.recv(65536):
                pass
    except OSError:
        pass
streams = [line.split() for line in open(sys.argv[1])]
for address in [(word.rsplit(":", 1)[0], int(word.rsplit(":", 1)[1])) for word in sys.argv[2:]]:
    for _ in range(20):
        call(address).close()
    held += [call(address) for _ in range(20)]
    for _ in range(20):
        say(address, os.urandom(random.randint(1, 5000)))
    for _ in range(3):
        for port, data in streams:
            if int(port) == address[1]:
                data = bytes.fromhex(data)
                say(address, data)
                say(address, data[:len(data) // 2] + os.urandom(100))
time.sleep(0.3)
"""


@unittest.skipUnless(HYDRA, "no launcher for several hosts: mpiexec.hydra could not be had")
@unittest.skipUnless(has_library("libfabric.so.1"), "libfabric.so.1 is missing (on Debian and Ubuntu: apt-get install libfabric1)")
class Strangers(unittest.TestCase):
    def setUp(self):
        below = {os.path.dirname(os.path.dirname(os.path.realpath(p))) for p in (MPIEXEC, HYDRA)}
        self.hosts = Hosts(2, rails=1, share=sorted(p for p in below if p.startswith("/tmp/")))
        self.addCleanup(self.hosts.close)
        self.here = self.hosts.directory
        self.program = f"{self.here}/program"
        with open(f"{self.program}.c", "w", encoding="utf-8") as f:
            f.write(PROGRAM)
        compiler = [f"{PREFIX}/bin/mpicc", f"{self.program}.c", "-o", self.program]
        subprocess.run([*compiler, f"-L{PREFIX}/lib", f"-Wl,-rpath,{PREFIX}/lib"], check=True)

    def ports(self, host):
        """Addresses at which libfabric listens for ranks on a host; what they have inherited of Hydra's listens everywhere."""
        said = self.hosts.run(host, ["ss", "-Htlnp"], check=True).out
        return sorted({line.split()[3] for line in said.splitlines() if '"program"' in line and line.split()[3].startswith("10.")})

    def rounds(self):
        with open(f"{self.here}/round", encoding="utf-8") as f:
            return int(f.read() or 0)

    def go_on(self, job, rounds):
        """Wait for so many more rounds."""
        until = None
        for _ in range(600):
            if job.wait(0.1) is not None:
                self.fail(f"the job ended: {job.result(5)}")
            if not os.path.exists(f"{self.here}/round"):
                continue
            now = self.rounds()
            until = now + rounds if until is None else until
            if now >= until:
                return
        self.fail(f"the job stands still: {job.said()}")

    def touch(self, name):
        with open(f"{self.here}/{name}", "w", encoding="utf-8"):
            pass

    def test_a_job_is_unharmed(self):
        notes = self.hosts.start("h1", [sys.executable, "-c", LISTENER, self.here])
        while not os.path.exists(f"{self.here}/listening"):
            self.assertIsNone(notes.wait(0.05), notes)
        command = [MPIEXEC, "-q", "--launcher", "hydra", "--rsh-agent", self.hosts.rsh, "--host", "h1:2,h2:2", "-n", "4"]
        env = {"PATH": f"{os.path.dirname(HYDRA)}:{os.environ['PATH']}", "FARPOST_FABRIC": "ofi", "FARPOST_OFI_PROVIDER": "tcp"}
        job = self.hosts.start("h1", [*command, self.program, self.here], env=env)
        self.addCleanup(job.close)
        self.go_on(job, 20)
        self.touch("noted")
        streams = notes.result(20).out
        ports = {host: self.ports(host) for host in self.hosts.names}
        self.assertTrue(all(ports.values()), ports)
        listening = {address.rsplit(":", 1)[1] for host in ports.values() for address in host}
        self.assertTrue(listening & {line.split()[0] for line in streams.splitlines()}, "no stream to replay was seen")
        major = ctypes.CDLL("libfabric.so.1").fi_version() >> 16
        with open(f"{self.here}/streams", "w", encoding="utf-8") as f:
            f.write(streams if major < 2 else "")
        # From the host itself and from the other one.
        for host in self.hosts.names:
            addresses = [address for of in ports.values() for address in of]
            ran = self.hosts.run(host, [sys.executable, "-c", STRANGER, f"{self.here}/streams", *addresses], timeout=120)
            self.assertEqual(ran.code, 0, ran)
            self.go_on(job, 20)
        self.touch("stop")
        ran = job.result(30)
        self.assertEqual(ran.code, 0, ran)
        for host in self.hosts.names:
            self.assertEqual(self.hosts.settled(host, 10), [], host)


if __name__ == "__main__":
    unittest.main()
