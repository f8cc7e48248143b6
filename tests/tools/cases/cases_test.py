#!/usr/bin/env python3
"""What cases.py tells Bazel about good, bad and skipped cases and their subtests."""

import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

sys.dont_write_bytecode = True
sys.path.insert(0, "tests/tools/cases")
import cases  # noqa: E402

MODULE = """
import sys, unittest
sys.dont_write_bytecode = True
sys.path.insert(0, "tests/tools/cases")
import cases
class Sample(unittest.TestCase):
    def test_good(self):
        with self.subTest("good"):
            pass
    def test_mixed(self):
        for program in ("fine", "not.fine"):
            with self.subTest(program):
                self.assertEqual(program, "fine")
        with self.subTest("broken"):
            raise OSError("broken <thing>")
    def test_off(self):
        self.skipTest("not here")
cases.main()
"""


class CasesTest(unittest.TestCase):
    def test_failing_subtests_are_failures(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "test.xml")
            done = subprocess.run([sys.executable, "-c", MODULE], env=dict(os.environ, XML_OUTPUT_FILE=path),
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 1, done.stdout)
            outcomes = {case.get("name"): [child.tag for child in case]
                        for case in ElementTree.parse(path).iter("testcase")}
        self.assertEqual(outcomes, {"test_good": [], "test_mixed [not.fine]": ["failure"],
                                    "test_mixed [broken]": ["error"], "test_off": ["skipped"]})


if __name__ == "__main__":
    cases.main()
