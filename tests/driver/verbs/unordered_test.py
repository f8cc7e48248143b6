#!/usr/bin/python3
"""Programs in C get out-of-order placement from our libmlx5, by the header beside it, where the device has it."""
import os
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = ["tests/tools/cases", "tests/driver/verbs"]
import cases  # noqa: E402
import lanes  # noqa: E402

TIME_LIMIT_S = 120

# A ring of a ConnectX-6 Dx has 2^15 entries: half of them for rings, all for shared receive queues. 95 is EOPNOTSUPP,
# 22 EINVAL. 100 requests take a ring of 256, of which half is for programs.
EXPECTED = """\
query_device: 0, errno 0
mask 14000, rc 16384 xrc 32768 dct 32768 ud 16384 uc 16384, dc rd atom 16 16
type 2, 16384 receives: made, errno 0
type 2, 16385 receives: null, errno 22
type 4, 16384 receives: made, errno 0
type 3, 16385 receives: null, errno 22
type 8, 4 receives: null, errno 95
asked for 100 receives, given 128
connect: 0, errno 0
query_qp: 0, errno 0
queried 128
posted 128, then errno 12
traffic: right, requests taken in any order
destroy_qp: 0, errno 0
""".splitlines()


def run(lane, **variables):
    done = subprocess.run([os.path.abspath("tests/driver/verbs/unordered_probe")],
                          env=lanes.environment(lane, UMLX5_SOFT_ADDR=lanes.loopback_address(), **variables), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIME_LIMIT_S)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    return done.stdout.splitlines()


class Unordered(unittest.TestCase):
    maxDiff = None

    def test_messages_are_in_order_and_requests_are_not(self):
        self.assertEqual(run(lanes.UMLX5), EXPECTED)

    def test_any_seed(self):
        for seed in range(2, 6):
            wire = f"seed={seed},loss=0.02,reorder=0.2,dup=0.02"
            self.assertEqual(run(lanes.UMLX5, UMLX5_SOFT_FAULTS=wire), EXPECTED, wire)

    def test_a_device_without_it_refuses(self):
        lines = run(lanes.UMLX5, UMLX5_SOFT_CAPS="ooo=0")
        self.assertEqual(lines[1], "mask 4000, rc 0 xrc 0 dct 0 ud 0 uc 0, dc rd atom 16 16")
        self.assertEqual(lines[-1], "create_qp: errno 95")

    def test_the_stock_library_knows_nothing_of_it(self):
        lines = run(lanes.STOCK)
        self.assertIn("mask 0,", lines[1])
        self.assertEqual(lines[-1], "create_qp: errno 22")


if __name__ == "__main__":
    cases.main()
