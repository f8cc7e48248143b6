#!/usr/bin/python3
"""What posting writes is what the stock libraries write, byte for byte: a few hundred sequences of each program of
tools/compare."""

import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = ["tests/tools/cases", "tests/driver/verbs"]
import cases  # noqa: E402
import lanes  # noqa: E402

SEQUENCES = 420


class StockBytes(unittest.TestCase):
    def test_random_sequences(self):
        done = subprocess.run(
            ["/usr/bin/python3", "tools/compare/compare_bytes.py", "--sequences", str(SEQUENCES), "--time-limit", "120",
             "--program", "tools/compare/post_bytes", "--preload", lanes.PRELOAD, "--libraries", lanes.LIBRARIES],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=280)
        print(done.stdout, flush=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(f"{SEQUENCES} sequences", done.stdout)
        for kind in ("RC,", "RC-steps", "UC,", "UC-steps", "UD,", "UD-steps", "DC-steps", "RQ", "SRQ"):
            self.assertIn(kind, done.stdout.replace("\n", ",\n"))

    def test_random_changes_of_memory_keys(self):
        changes = 400
        done = subprocess.run(
            ["/usr/bin/python3", "tools/compare/compare_bytes.py", "--sequences", str(changes), "--time-limit", "120",
             "--program", "tools/compare/mkey_bytes", "--preload", lanes.PRELOAD, "--libraries", lanes.LIBRARIES],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=280)
        print(done.stdout, flush=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        for kind in (f"{changes} sequences", "both", "encryption", "plain", "signature"):
            self.assertIn(kind, done.stdout)


if __name__ == "__main__":
    cases.main()
