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

TIME_LIMIT_S = 60


def probe(program, lane, address):
    done = subprocess.run([os.path.abspath(f"tests/driver/verbs/{program}")], env=lanes.environment(lane, UMLX5_SOFT_ADDR=address), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=TIME_LIMIT_S)
    return done.returncode, done.stdout


class Probe(unittest.TestCase):
    def compare(self, program, least_lines):
        address = lanes.loopback_address()
        stock_code, stock = probe(program, lanes.STOCK, address)
        code, ours = probe(program, lanes.UMLX5, address)
        self.assertEqual((stock_code, code), (0, 0), stock[-500:] + ours[-500:])
        self.assertGreater(len(stock.splitlines()), least_lines)
        different = [f"stock: {a}\nours:  {b}" for a, b in zip(stock.splitlines(), ours.splitlines()) if a != b]
        self.assertFalse(different, "\n".join(different))
        self.assertEqual(len(ours.splitlines()), len(stock.splitlines()))
        return ours

    def test_what_is_no_queue(self):
        self.assertNotIn("WROTE BEYOND", self.compare("probe", 250))

    def test_queues(self):
        self.assertNotIn("NOT THE TIME", self.compare("queue_probe", 20))


if __name__ == "__main__":
    cases.main()
