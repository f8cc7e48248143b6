#!/usr/bin/python3
"""How many instructions a post or a completion takes in the native API, counted by valgrind: these numbers are the same on
every machine, unlike times."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, "tests/tools/cases")
import cases  # noqa: E402

PROGRAM = os.path.abspath("tests/driver/hot_path")
ROUNDS, OPERATIONS = 30, 30 * 32
TIME_LIMIT_S = 100

# Operation: the most instructions that one of them may take, a few per cent above what was measured; lower them when the
# code gets better. Single posts ring the doorbell each, a list has 32 requests, polling takes 32 at a time.
MOST = {"write": 120, "write-inline32": 224, "write-list": 84, "template": 76, "template-list": 54, "recv": 71, "poll": 81,
        "poll-compressed": 135}


def sanitized():
    needed = subprocess.run(["ldd", PROGRAM], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.search(r"lib[at]san", needed) is not None


def instructions(operation):
    """Instructions for one operation, all that it calls included."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", "--collect-atstart=no",
             "--toggle-collect=*counted_*", PROGRAM, operation, str(ROUNDS)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=TIME_LIMIT_S, check=True)
        with open(f"{folder}/out", encoding="utf-8") as file:
            total = int(re.search(r"^(?:summary|totals): (\d+)", file.read(), re.M)[1])
    if int(done.stdout) != OPERATIONS:
        raise AssertionError(f"{operation}: {done.stdout.strip()} operations of {OPERATIONS} were made")
    return total / OPERATIONS


@unittest.skipIf(sanitized(), "a sanitizer's instructions are not ours")
class Instructions(unittest.TestCase):
    def test_hot_paths(self):
        for operation, most in MOST.items():
            with self.subTest(operation):
                count = instructions(operation)
                print(f"{operation}: {count:.1f} instructions (at most {most})", flush=True)
                self.assertLessEqual(count, most)
                self.assertGreater(count, 5, "nothing was counted")


if __name__ == "__main__":
    cases.main()
