#!/usr/bin/python3
"""A program as of libibverbs 1.0 gets from our IBVERBS_1.0 what it gets from Debian's."""
import os
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = ["tests/tools/cases", "tests/driver/verbs"]
import cases  # noqa: E402
import lanes  # noqa: E402

PROGRAM = os.path.abspath("tests/driver/verbs/old_program")
TIME_LIMIT_S = 60


def run(lane):
    done = subprocess.run([PROGRAM], env=lanes.environment(lane), text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, timeout=TIME_LIMIT_S)
    return done.returncode, done.stdout


class OldProgram(unittest.TestCase):
    def test_same_as_stock(self):
        stock = run(lanes.STOCK)
        self.assertEqual(stock[0], 0)
        self.assertIn("posting 6 to a queue of 4: 12, refused 4", stock[1])
        self.assertEqual(run(lanes.UMLX5), stock)


if __name__ == "__main__":
    cases.main()
