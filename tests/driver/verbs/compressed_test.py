#!/usr/bin/python3
"""What our poll calls make of compressed CQEs is what the ring has, as a program reads it that runs on Debian's libmlx5."""
import os
import re
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = ["tests/tools/cases", "tests/driver/verbs"]
import cases  # noqa: E402
import lanes  # noqa: E402

PROGRAM = os.path.abspath("tests/driver/verbs/compressed_probe")
TIME_LIMIT_S = 60
HASH, CHECKSUM, STRIDE_INDEX = 1, 2, 4


class Compressed(unittest.TestCase):
    def run_program(self, lane, way, compression, cqe_bytes):
        done = subprocess.run([PROGRAM, way, str(compression), str(cqe_bytes)],
                              env=lanes.environment(lane, UMLX5_SOFT_ADDR=lanes.loopback_address()), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIME_LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stdout[-500:] + done.stderr[-500:])
        if way == "ring":
            sends, receives = map(int, re.search(r"titles: (\d+) (\d+)", done.stderr).groups())
            self.assertGreater(sends, 0)
            self.assertGreater(receives, 0)
        return done.stdout

    def test_polled_as_the_ring_has_it(self):
        for compression, cqe_bytes in ((HASH, 64), (CHECKSUM, 64), (STRIDE_INDEX, 64), (HASH, 128)):
            with self.subTest(compression=compression, cqe_bytes=cqe_bytes):
                expected = self.run_program(lanes.STOCK, "ring", compression, cqe_bytes)
                self.assertGreater(len(expected.splitlines()), 400)
                self.assertIn("received 0 status 0 bytes 100\n", expected)
                for way in ("ring", "poll", "extended"):
                    self.assertEqual(self.run_program(lanes.UMLX5, way, compression, cqe_bytes), expected, way)


if __name__ == "__main__":
    cases.main()
