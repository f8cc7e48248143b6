#!/usr/bin/python3
"""What posting writes and creating asks for is what the stock libraries write and ask for: a few hundred sequences of
each program of tools/compare, two thousand sets of attributes."""

import json
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

    def compare_creation(self, sets, first=0, caps=""):
        done = subprocess.run(
            ["/usr/bin/python3", "tools/compare/compare_create.py", "--sets", str(sets), "--first", str(first), "--json",
             "--caps", caps, "--program", "tools/compare/create_queues", "--preload", lanes.PRELOAD, "--libraries",
             lanes.LIBRARIES, "--differences", "docs/stock_differences.md"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=280)
        print(done.stdout, flush=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        result = json.loads(done.stdout)
        self.assertEqual((result["sets"], result["different"]), (sets, []))
        self.assertGreater(result["made"], sets // 10)
        self.assertGreater(result["same"], sets // 4)

    def test_random_creations(self):
        self.compare_creation(2000)

    def test_random_creations_on_a_lesser_device(self):
        self.compare_creation(1000, 100000, "xrc=0,dct=0,mmo=0,atomic=0,tunnel_offloads=0,packet_based_credit=0")


if __name__ == "__main__":
    cases.main()
