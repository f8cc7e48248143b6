#!/usr/bin/python3
"""A program that calls libibverbs and libmlx5 with good and bad arguments gets from ours what Debian's give."""
import os
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = ["tests/tools/cases", "tests/driver/verbs"]
import cases  # noqa: E402
import lanes  # noqa: E402

PROBE = os.path.abspath("tests/driver/verbs/probe")
TIME_LIMIT_S = 60


def probe(lane, address):
    done = subprocess.run([PROBE], env=lanes.environment(lane, UMLX5_SOFT_ADDR=address), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=TIME_LIMIT_S)
    return done.returncode, done.stdout


class Probe(unittest.TestCase):
    def test_same_as_stock(self):
        address = lanes.loopback_address()
        stock_code, stock = probe(lanes.STOCK, address)
        code, ours = probe(lanes.UMLX5, address)
        self.assertEqual((stock_code, code), (0, 0))
        self.assertGreater(len(stock.splitlines()), 250)
        different = [f"stock: {a}\nours:  {b}" for a, b in zip(stock.splitlines(), ours.splitlines()) if a != b]
        self.assertFalse(different, "\n".join(different))
        self.assertEqual(len(ours.splitlines()), len(stock.splitlines()))
        self.assertNotIn("WROTE BEYOND", ours)


if __name__ == "__main__":
    cases.main()
