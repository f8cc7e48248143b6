#!/usr/bin/env python3
"""What the launcher counts from Bazel's build events."""

import io
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = ["tools/launcher", "tests/tools/cases"]
import cases  # noqa: E402
from run_tests import Outcomes  # noqa: E402

XML = """<testsuites><testsuite>
<testcase classname="A" name="good" status="run" result="completed"/>
<testcase classname="A" name="bad" status="run" result="completed"><failure message="no"/></testcase>
<testcase classname="A" name="off" status="notrun" result="suppressed"/>
<testcase classname="A" name="not here" status="run" result="skipped"><skipped/></testcase>
</testsuite></testsuites>"""


class OutcomesTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.outcomes = Outcomes(io.StringIO())

    def tearDown(self):
        self.folder.cleanup()

    def configured(self, label):
        self.outcomes.event({"id": {"targetConfigured": {"label": label}}, "configured": {"testSize": "SMALL"}})

    def result(self, label, status, xml, shard=1, log=""):
        outputs = []
        for name, text in (("test.xml", xml), ("test.log", log)):
            path = os.path.join(self.folder.name, f"{shard}-{name}")
            with open(path, "w", encoding="utf-8") as out:
                out.write(text)
            outputs.append({"name": name, "uri": "file://" + path})
        self.outcomes.event({
            "id": {"testResult": {"label": label, "run": 1, "shard": shard, "attempt": 1}},
            "testResult": {"status": status, "testActionOutput": outputs}})

    def test_counts_single_cases(self):
        self.configured("//a:a_test")
        self.result("//a:a_test", "FAILED", XML)
        self.assertEqual(self.outcomes.totals(), (1, 1, 1))
        self.assertEqual(self.outcomes.failures(), ["//a:a_test: A.bad"])

    def test_adds_up_shards(self):
        good = '<testsuites><testsuite><testcase name="x"/></testsuite></testsuites>'
        self.result("//a:a_test", "PASSED", good, shard=1)
        self.result("//a:a_test", "PASSED", good, shard=2)
        self.assertEqual(self.outcomes.totals(), (2, 0, 0))

    def test_a_later_attempt_replaces_the_earlier(self):
        self.result("//a:a_test", "FAILED", XML)
        self.result("//a:a_test", "PASSED", '<testsuites><testcase name="x"/></testsuites>')
        self.assertEqual(self.outcomes.totals(), (1, 0, 0))

    def test_bad_end_after_good_cases_is_a_failure(self):
        self.result("//a:a_test", "FAILED", '<testsuites><testcase name="x"/></testsuites>')
        self.assertEqual(self.outcomes.totals(), (1, 1, 0))

    def test_unreadable_xml_is_a_failure(self):
        self.result("//a:a_test", "PASSED", "<testsui")
        self.assertEqual(self.outcomes.totals(), (0, 1, 0))

    def test_a_failure_shows_the_end_of_its_log(self):
        self.result("//a:a_test", "FAILED", XML, log="".join(f"line {i}\n" for i in range(100)))
        shown = self.outcomes.out.getvalue().splitlines()
        self.assertEqual(shown[-60:], [f"line {i}" for i in range(40, 100)])
        self.assertIn("(40 lines of ", shown[-61])

    def test_a_success_shows_no_log(self):
        self.result("//a:a_test", "PASSED", '<testsuites><testcase name="x"/></testsuites>', log="line 1\n")
        self.assertNotIn("line 1", self.outcomes.out.getvalue())

    def test_build_failure_is_a_failure(self):
        self.configured("//a:a_test")
        self.outcomes.event({"id": {"targetCompleted": {"label": "//a:a_test"}}, "completed": {}})
        self.outcomes.event({"id": {"targetCompleted": {"label": "//a:lib"}}, "completed": {"success": True}})
        self.assertEqual(self.outcomes.totals(), (0, 1, 0))

    def test_aborted_target_is_one_failure(self):
        event = {"id": {"targetCompleted": {"label": "//a:a_test"}}, "aborted": {"reason": "ANALYSIS_FAILURE"}}
        self.outcomes.event(event)
        self.outcomes.event(event)
        self.assertEqual(self.outcomes.totals(), (0, 1, 0))


if __name__ == "__main__":
    cases.main()
