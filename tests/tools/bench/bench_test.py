#!/usr/bin/python3
"""`umlx5 bench --instructions` beside the stock libraries: all cases are there, and none takes more than it did."""

import json
import re
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = ["tests/tools/cases", "tests/driver/verbs"]
import cases  # noqa: E402
import lanes  # noqa: E402

PROGRAM = "tools/bench/verbs_bench"

# Instructions of one operation, the program's loop included: a few per cent above what was measured. Lower them when the
# code gets better.
MOST = {"post_send": 131, "post_send_inline": 240, "post_send_list": 84, "wr_steps": 238, "post_recv": 87,
        "poll_cq": 75, "start_poll": 101}


def sanitized():
    needed = subprocess.run(["ldd", PROGRAM], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.search(r"lib[at]san", needed) is not None


def bench(*options):
    done = subprocess.run(
        ["/usr/bin/python3", "tools/bench/bench.py", "--json", "--program", PROGRAM, "--preload", lanes.PRELOAD,
         "--libraries", lanes.LIBRARIES, *options],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=250)
    if done.returncode != 0:
        raise AssertionError(done.stdout)
    return json.loads(done.stdout)


@unittest.skipIf(sanitized(), "a sanitizer's instructions are not ours")
class Bench(unittest.TestCase):
    def test_instructions(self):
        result = bench("--instructions")
        self.assertIn("PCIe", result["note"])
        self.assertEqual({case["case"] for case in result["cases"]}, set(MOST))
        for case in result["cases"]:
            with self.subTest(case["case"]):
                print(case, flush=True)
                self.assertGreater(case["umlx5"], 20, "nothing was counted")
                self.assertGreater(case["stock"], 20, "nothing was counted")
                self.assertLessEqual(case["umlx5"], MOST[case["case"]])


if __name__ == "__main__":
    cases.main()
