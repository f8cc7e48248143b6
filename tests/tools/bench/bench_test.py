#!/usr/bin/python3
"""`umlx5 bench`: all cases are measured in all lanes that have them, and none takes more instructions than it did."""

import json
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.dont_write_bytecode = True
sys.path[:0] = ["tests/tools/cases", "tests/driver/verbs"]
import cases  # noqa: E402
import lanes  # noqa: E402

PROGRAM, NATIVE = "tools/bench/verbs_bench", "tools/bench/native_bench"

# Instructions of one operation, the program's loop included: a few per cent above what was measured. Lower them when the
# code gets better.
MOST = {"post_send": 131, "post_send_inline": 240, "post_send_list": 84, "wr_steps": 228, "post_recv": 87,
        "poll_cq": 75, "start_poll": 101}
# Of the verbs and native lanes, and of one of them alone; the last are not counted.
BOTH = {"post_send", "post_send_inline", "post_send_list", "post_recv", "poll_cq", "many_qps", "many_qps_list"}
VERBS_ONLY, NATIVE_ONLY, TIMED_ONLY = {"wr_steps", "start_poll"}, {"template", "template_list"}, {"two_threads", "cold"}


def sanitized():
    needed = subprocess.run(["ldd", PROGRAM], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.search(r"lib[at]san", needed) is not None


def bench(*options):
    done = subprocess.run(
        ["/usr/bin/python3", "tools/bench/bench.py", "--json", "--program", PROGRAM, "--native", NATIVE, "--preload", lanes.PRELOAD,
         "--libraries", lanes.LIBRARIES, *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=250)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


@unittest.skipIf(sanitized(), "a sanitizer's instructions are not ours")
class Bench(unittest.TestCase):
    def check(self, result, shared):
        self.assertIn("PCIe", result["note"])
        self.assertTrue(result["machine"])
        lanes_of = {case["case"]: {"stock", "umlx5", "native"} & set(case) for case in result["cases"]}
        expected = {name: {"stock", "umlx5", "native"} for name in shared}
        expected.update({name: {"stock", "umlx5"} for name in VERBS_ONLY})
        expected.update({name: {"native"} for name in NATIVE_ONLY})
        self.assertEqual(lanes_of, expected)

    def test_instructions(self):
        result = bench("--instructions")
        self.check(result, BOTH)
        for case in result["cases"]:
            with self.subTest(case["case"]):
                print(case, flush=True)
                for lane in {"stock", "umlx5", "native"} & set(case):
                    self.assertGreater(case[lane], 20, f"nothing was counted: {lane}")
                if case["case"] in MOST:
                    self.assertLessEqual(case["umlx5"], MOST[case["case"]])

    def test_times_and_picture(self):
        with tempfile.TemporaryDirectory() as folder:
            result = bench("--rounds", "1", "--svg", f"{folder}/bench.svg")
            texts = {"".join(text.itertext()) for text in xml.etree.ElementTree.parse(f"{folder}/bench.svg").iter(
                "{http://www.w3.org/2000/svg}text")}
        self.check(result, BOTH | TIMED_ONLY)
        for case in result["cases"]:
            self.assertIn(case["title"], texts)
            for lane in {"stock", "umlx5", "native"} & set(case):
                self.assertGreater(case[lane], 0.2, f"{case['case']}, {lane}: nothing was timed")
        self.assertIn(result["note"], texts)


if __name__ == "__main__":
    cases.main()
