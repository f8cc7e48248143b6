#!/usr/bin/python3
"""Striding receive queues give both libraries the same CQEs, and those are the ones that the device's manual tells of."""
import os
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = ["tests/tools/cases", "tests/driver/verbs"]
import cases  # noqa: E402
import lanes  # noqa: E402

TIME_LIMIT_S = 60


def run(lane, *arguments, **variables):
    done = subprocess.run([os.path.abspath("tests/driver/verbs/stride_probe"), *arguments],
                          env=lanes.environment(lane, UMLX5_SOFT_ADDR=lanes.loopback_address(), **variables), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIME_LIMIT_S)
    return done.returncode, done.stdout.splitlines()


def polled(strides, length, filler=0):
    """ibv_wc.byte_len: the CQE's word as it is (DPDK's mlx5_prm.h: filler 31, strides 29:16, bytes 15:0)."""
    return filler << 31 | strides << 16 | length


def frames(stride, strides, shift):
    """The completions of the program's frames: each takes the next strides of a receive WQE, and what does not fit in
    the rest of one begins another."""
    wqe, used = 0, 0
    for length in (60, 64, 65, 200, 400, 500, 62, 63, 512, 60):
        needed = -(-(length + shift) // stride)
        if needed > strides:
            continue
        if used + needed > strides:
            left = strides - used
            yield f"wqe {wqe} stride {used}: filler, {left} strides, 0 bytes, op 2, polled {polled(left, 0, 1)}"
            wqe, used = wqe + 1, 0
        yield f"wqe {wqe} stride {used}: {needed} strides, {length} bytes, op 2, polled {polled(needed, length)}"
        used += needed
        if used == strides:
            wqe, used = wqe + 1, 0


class Stride(unittest.TestCase):
    maxDiff = None

    def test_completions(self):
        for lane in (lanes.STOCK, lanes.UMLX5):
            code, lines = run(lane)
            self.assertEqual(code, 0, lines)
            self.assertIn("strides of 2^6..2^13 bytes, 2^3..2^16 of them, types 100", lines)
            got = [line for line in lines if line.startswith("wqe ")]
            self.assertEqual(got, [*frames(64, 8, 0), *frames(64, 8, 2), *frames(512, 8, 0)], lane)

    def test_our_library_posts(self):
        self.assertEqual(run(lanes.UMLX5, "post"), run(lanes.UMLX5))

    def test_both_libraries_do_the_same(self):
        stock, ours = run(lanes.STOCK)[1], run(lanes.UMLX5)[1]
        self.assertGreater(len(stock), 60)
        self.assertEqual(ours, stock)

    def test_a_device_without_them_refuses(self):
        for lane in (lanes.STOCK, lanes.UMLX5):
            lines = run(lane, UMLX5_SOFT_CAPS="striding_rq=0")[1]
            self.assertNotIn("max_wr", "".join(lines), lane)
        self.assertIn("create_wq 2^6 bytes 2^9 strides shift 0 sge 3: errno 95", lines)


if __name__ == "__main__":
    cases.main()
