#!/usr/bin/env python3
"""The emulated hosts are what they say: separate, breakable, and gone afterwards. Plain TCP, no MPI."""

import os
import signal
import subprocess
import sys
import textwrap
import time
import unittest

from hosts import HERE, Failed, Hosts, sets_up

SERVER = """
import socket, sys
s = socket.create_server(("0.0.0.0", 7000)); print("listening", flush=True)
while True:
    c, _ = s.accept()
    while d := c.recv(1 << 16):
        c.sendall(d)
"""
# Sends bytes and waits for their echo; prints how long that took, or what went wrong.
CLIENT = """
import socket, sys, time
address, count = sys.argv[1], int(sys.argv[2])
try:
    t = time.monotonic()
    with socket.create_connection((address, 7000), 2) as s:
        left = count
        while left:
            n = min(left, 60000)
            s.sendall(b"x" * n)
            left -= n
            while n:
                n -= len(s.recv(n))
    print("took", time.monotonic() - t)
except OSError as e:
    print("failed", type(e).__name__, e)
"""


class Base(unittest.TestCase):
    def make(self, *args, **options):
        hosts = Hosts(*args, **options)
        self.addCleanup(hosts.close)
        return hosts

    def python(self, hosts, host, text, *args, **options):
        return hosts.run(host, [sys.executable, "-IS", "-c", textwrap.dedent(text), *args], **options)

    def serve(self, hosts, host):
        process = hosts.start(host, [sys.executable, "-IS", "-c", SERVER])
        self.addCleanup(process.close)
        for _ in range(400):
            if process.said()[0]:
                return process
            time.sleep(0.01)
        self.fail(f"server: {process.said()}")

    def reaches_again(self, hosts, host, address):
        """After a repair: addresses asked for while it was broken may fail for some seconds."""
        for _ in range(10):
            said = self.reaches(hosts, host, address)
            if "took" in said:
                return
            time.sleep(0.5)
        self.fail(said)

    def reaches(self, hosts, host, address, count=1):
        return self.python(hosts, host, CLIENT, address, str(count)).out


class Separate(Base):
    def test_names_memory_processes_and_devices_are_a_host_s_own(self):
        hosts = self.make(3, 2)
        for i, name in enumerate(hosts.names, 1):
            self.assertEqual(hosts.run(name, ["hostname"]).out, f"{name}\n")
            self.assertEqual(sorted(hosts.run(name, ["ls", "/sys/class/net"]).out.split()), ["lo", "r0", "r1"])
            self.assertIn(f"10.78.0.{i}", hosts.run(name, ["ip", "-br", "addr"]).out)
            self.assertEqual(hosts.leftovers(name), [])
        hosts.run("h1", ["sh", "-c", "echo x >/dev/shm/mine; echo x >/tmp/mine"], check=True)
        self.assertEqual(sorted(hosts.leftovers("h1")), ["file /dev/shm/mine", "file /tmp/mine"])
        self.assertEqual(hosts.leftovers("h2"), [])
        with hosts.start("h2", ["sleep", "1000"]):
            self.assertEqual([p[3] for p in hosts.processes("h2")], ["sleep 1000"])
            self.assertEqual(hosts.processes("h1"), [])
        self.assertEqual(hosts.settled("h2", 5), [])

    def test_hosts_reach_each_other_by_every_name(self):
        hosts = self.make(2, 2)
        self.serve(hosts, "h2")
        for address in ("h2", "h2-r0", "h2-r1", "10.77.0.2", "10.78.0.2"):
            self.assertIn("took", self.reaches(hosts, "h1", address), address)
        self.assertIn("failed", self.reaches(hosts, "h1", "nobody"))

    def test_two_sets_do_not_meet(self):
        one, two = self.make(2), self.make(2)
        self.serve(one, "h2")
        self.assertIn("took", self.reaches(one, "h1", "h2"))
        self.assertIn("failed", self.reaches(two, "h1", "h2"))

    def test_a_host_is_pinned_if_asked(self):
        hosts = self.make(2, direct=True, pin=True)
        seen = [self.python(hosts, n, "import os; print(len(os.sched_getaffinity(0)))").out for n in hosts.names]
        self.assertEqual(seen, ["1\n", "1\n"])
        self.assertEqual(hosts.run("h1", [hosts.rsh, "h2", "nproc"]).out, "1\n")

    def test_a_user_namespace_will_do(self):
        hosts = self.make(2, user=True)
        self.serve(hosts, "h2")
        self.assertIn("took", self.reaches(hosts, "h1", "h2"))
        hosts.black_hole("h1", 0)
        self.assertIn("failed", self.reaches(hosts, "h1", "h2"))


class Broken(Base):
    def test_a_cable_is_pulled_and_put_back(self):
        for options in ({}, {"direct": True}):
            with self.subTest(**options):
                hosts = self.make(2, 2, **options)
                self.serve(hosts, "h2")
                hosts.cut("h1", 1)
                self.assertEqual(hosts.run("h1", ["cat", "/sys/class/net/r1/carrier"]).out, "0\n")
                self.assertIn("failed", self.reaches(hosts, "h1", "h2-r1"))
                self.assertIn("took", self.reaches(hosts, "h1", "h2"))
                hosts.mend("h1", 1)
                self.reaches_again(hosts, "h1", "h2-r1")

    def test_a_device_goes_down_and_up(self):
        hosts = self.make(2)
        self.serve(hosts, "h2")
        hosts.device("h1", 0, False)
        self.assertIn("failed", self.reaches(hosts, "h1", "h2"))
        hosts.device("h1", 0, True)
        self.reaches_again(hosts, "h1", "h2")

    def test_a_black_hole_says_nothing(self):
        for options in ({}, {"direct": True}):
            with self.subTest(**options):
                hosts = self.make(2, **options)
                self.serve(hosts, "h2")
                self.assertIn("took", self.reaches(hosts, "h1", "h2"))  # and now addresses are known
                hosts.black_hole("h2", 0)
                self.assertEqual(hosts.run("h1", ["cat", "/sys/class/net/r0/carrier"]).out, "1\n")
                self.assertIn("failed timeout" if sys.version_info < (3, 10) else "failed TimeoutError", self.reaches(hosts, "h1", "h2"))
                hosts.black_hole("h2", 0, False)
                self.reaches_again(hosts, "h1", "h2")

    def test_a_cable_is_slowed(self):
        hosts = self.make(2)
        self.serve(hosts, "h2")
        hosts.slow("h1", 0, "40mbit")
        took = float(self.reaches(hosts, "h1", "h2", 3_000_000).split()[1])
        self.assertGreater(took, 3_000_000 * 8 / 40e6 * 0.7)  # the bucket lets some pass at once
        hosts.slow("h1", 0, None)
        self.assertIn("took", self.reaches(hosts, "h1", "h2", 3_000_000))

    def test_packets_are_lost(self):
        hosts = self.make(2)
        with self.serve(hosts, "h2"):
            self.assertIn("took", self.reaches(hosts, "h1", "h2"))  # and now addresses are known
        hosts.lose("h2", 0, 300)
        count = """
            import socket
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("0.0.0.0", 7001)); s.settimeout(1)
            print("ready", flush=True)
            got = 0
            try:
                while True:
                    got += len(s.recv(1))
            except socket.timeout:
                print(got)
        """
        with hosts.start("h2", [sys.executable, "-IS", "-c", textwrap.dedent(count)]) as receiver:
            while not receiver.said()[0]:
                time.sleep(0.01)
            send = 'import socket; s = socket.socket(2, 2); [s.sendto(b"x", ("h2", 7001)) for _ in range(100)]'
            self.python(hosts, "h1", send)
            got = int(receiver.result(20).out.split()[1])
        self.assertTrue(0 < got < 100, got)  # both ends with a chance of 1e-15
        hosts.lose("h2", 0, 0)
        self.serve(hosts, "h2")
        self.assertIn("took", self.reaches(hosts, "h1", "h2"))

    def test_a_host_crashes_and_can_be_used_again(self):
        hosts = self.make(2)
        self.serve(hosts, "h2")
        with hosts.start("h2", ["sh", "-c", "sleep 1000 & setsid sleep 1000 & wait"]) as process:
            while len(hosts.processes("h2")) < 4:
                time.sleep(0.01)
            self.assertEqual(hosts.crash("h2"), 4)
            self.assertEqual(process.wait(10), 137)
        self.assertEqual(hosts.processes("h2"), [])
        self.assertIn("failed ConnectionRefusedError", self.reaches(hosts, "h1", "h2"))
        self.serve(hosts, "h2")
        self.assertIn("took", self.reaches(hosts, "h1", "h2"))


class RemoteShell(Base):
    def test_it_is_called_like_ssh(self):
        hosts = self.make(2)
        ran = subprocess.run(
            [hosts.rsh, "-x", "-o", "StrictHostKeyChecking=no", "user@h2", "hostname;", "cat;", "exit", "7"],
            input="some input\n",
            capture_output=True,
            text=True,
            timeout=20,
        )
        self.assertEqual((ran.returncode, ran.stdout), (7, "h2\nsome input\n"))
        # From one host to another, by address; the environment is a fresh one.
        ran = hosts.run("h1", [hosts.rsh, "10.77.0.2", "hostname; echo ${SECRET-none}"], env={"SECRET": "x"})
        self.assertEqual(ran.out, "h2\nnone\n")
        ran = hosts.run("h1", [hosts.rsh, "h9", "true"])
        self.assertEqual((ran.code, ran.err), (255, "rsh: could not resolve hostname h9\n"))

    def test_what_it_started_outlives_it(self):
        hosts = self.make(1)
        client = subprocess.Popen([hosts.rsh, "h1", "exec sleep 1000"], stdout=subprocess.DEVNULL)
        while "sleep 1000" not in [p[3] for p in hosts.processes("h1")]:
            time.sleep(0.01)
        client.kill()
        client.wait()
        self.assertEqual([p[3] for p in hosts.processes("h1")], ["sleep 1000"])


class Gone(Base):
    """However a set's owner ends, nothing is left."""

    def owner(self, ending):
        """A program that makes hosts, starts something in them, says where, and then does `ending`."""
        text = f"""
            import os, signal, sys, time
            sys.path.insert(0, {HERE!r})
            from hosts import Hosts
            with Hosts(2) as hosts:
                p = hosts.start("h2", ["sh", "-c", "setsid sleep 87654.5 & sleep 87654.5"], hold=False)
                while len(hosts.processes("h2")) < 3: time.sleep(0.01)
                print(hosts.directory, flush=True)
                {ending}
        """
        # Not isolated: it imports what this file imports.
        return subprocess.Popen([sys.executable, "-c", textwrap.dedent(text)], stdout=subprocess.PIPE, text=True)

    def check_gone(self, directory):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            sleepers = subprocess.run(["pgrep", "-f", f"^sleep 87654.5$|node.py {directory}"], capture_output=True).stdout
            if not os.path.exists(directory) and not sleepers:
                return
            time.sleep(0.05)
        self.fail(f"still there: {directory}, processes {sleepers.decode().split()}")

    def test_after_the_end_an_error_an_interrupt_or_a_kill(self):
        for ending, number in (
            ("pass", None),
            ("raise SystemExit(3)", None),
            ("os._exit(0)", None),
            ("time.sleep(600)", signal.SIGINT),
            ("time.sleep(600)", signal.SIGKILL),
        ):
            with self.subTest(ending=ending, number=number):
                owner = self.owner(ending)
                directory = owner.stdout.readline().strip()
                if number is not None:
                    owner.send_signal(number)
                owner.wait(30)
                owner.stdout.close()
                self.check_gone(directory)

    def test_not_when_it_is_stopped_for_a_while(self):
        hosts = self.make(1)
        below = subprocess.run(["pgrep", "-f", f"node.py {hosts.directory}"], capture_output=True, text=True).stdout.split()
        self.assertGreater(len(below), 2)
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in below:
                os.kill(int(pid), number)
            time.sleep(0.2)
        self.assertEqual(hosts.run("h1", ["echo", "here"]).out, "here\n")

    def test_after_its_guardian_or_switch_is_killed(self):
        hosts = Hosts(2)
        hosts.guardian.kill()
        hosts.guardian.wait()
        with self.assertRaises(Failed):
            for _ in range(500):
                hosts.run("h1", ["true"])
                time.sleep(0.01)
        hosts.close()
        self.check_gone(hosts.directory)

    def test_by_hand(self):
        tool = [sys.executable, os.path.join(HERE, "hosts.py")]
        made = subprocess.run([*tool, "up", "2", "--rails", "2"], capture_output=True, text=True, timeout=60)
        directory = made.stdout.strip()
        self.assertIn(directory, sets_up(), made.stderr)
        env = dict(os.environ, TEST_HOSTS=directory)
        do = lambda *args: subprocess.run([*tool, *args], env=env, capture_output=True, text=True, timeout=60)
        try:
            self.assertEqual(do("run", "h2", "sh", "-c", "hostname; exit 4").stdout, "h2\n")
            self.assertEqual(do("run", "h2", "sh", "-c", "exit 4").returncode, 4)
            self.assertEqual(do("cut", "h1", "1").returncode, 0)
            self.assertIn("no host h7", do("cut", "h7", "1").stderr)
            self.assertIn("no rail 5", do("cut", "h1", "5").stderr)
        finally:
            do("down")
        self.check_gone(directory)


if __name__ == "__main__":
    unittest.main()
