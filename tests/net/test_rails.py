#!/usr/bin/env python3
"""Long puts and gets of remote shared memory over two rails, by the bytes that each rail carries: equal shares, rails by name, and a named rail
that fails. No time is judged: scripts/measure-rails.py measures how much faster two are than one."""

import time
import unittest

from rails import HYDRA, RAILS, Rails


@unittest.skipUnless(HYDRA, "no launcher for several hosts: mpiexec.hydra could not be had")
class TwoRails(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # So slow that the network is the bound and not the processors.
        cls.rails = Rails("500mbit")
        cls.addClassCleanup(cls.rails.close)

    def ends_well(self, process, word):
        ran = process.result(120)
        self.assertEqual(ran.code, 0, ran)
        self.assertIn(word, ran.out, ran)
        for host in self.rails.hosts.names:
            self.assertEqual(self.rails.hosts.settled(host, 10), [], f"left on {host} after {ran}")

    def test_puts_and_gets_are_striped_evenly_and_over_named_rails_alone(self):
        self.ends_well(self.rails.start("even"), "even")

    def test_a_named_rail_that_fails_is_an_error_with_its_name(self):
        # Rails are listed in the order in which their networks are named.
        for order in (RAILS, RAILS[::-1]):
            with self.subTest(order=order):
                self.fails(order)

    def fails(self, order):
        process = self.rails.start("named", str(order.index(2)), order=order)
        deadline = time.monotonic() + 40
        while "moving" not in process.said()[0]:
            self.assertLess(time.monotonic(), deadline, process.said())
            self.assertIsNone(process.wait(0.02), process.said())
        self.rails.hosts.cut("h1", 2)
        try:
            self.ends_well(process, "named")
        finally:
            self.rails.hosts.mend("h1", 2)


if __name__ == "__main__":
    unittest.main()
