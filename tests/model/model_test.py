#!/usr/bin/python3
"""Checks the lock-free algorithms over all interleavings of a small case with spin, and that broken ones are found."""
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, "tests/tools/cases")
import cases  # noqa: E402

TIME_LIMIT_S = 240


def errors_of(model, *definitions):
    """How many errors spin finds, and what it printed; a search that was not exhaustive is an error of this test."""
    model = os.path.abspath(os.path.join("tests/model", model))
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["spin", *definitions, "-a", model], cwd=directory, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["gcc", "-O2", "-DSAFETY", "-DCOLLAPSE", "-w", "-o", "pan", "pan.c"], cwd=directory, check=True)
        output = subprocess.run(["./pan", "-m100000"], cwd=directory, check=True, stdout=subprocess.PIPE, text=True,
                                timeout=TIME_LIMIT_S).stdout
    if "max search depth too small" in output or "Full statespace search" not in output and "errors: 0" in output:
        raise AssertionError(f"the search was cut short:\n{output}")
    for line in output.splitlines():
        if "errors:" in line:
            return int(line.rsplit("errors:", 1)[1]), output
    raise AssertionError(f"pan ended without a verdict:\n{output}")


class Models(unittest.TestCase):
    def test_publishing_holds(self):
        count, output = errors_of("publish.pml", "-DPRODUCERS=2", "-DREQUESTS=3")
        self.assertEqual(count, 0, output)

    def test_a_publisher_that_does_not_look_again_loses_requests(self):
        count, output = errors_of("publish.pml", "-DPRODUCERS=2", "-DFORGETFUL")
        self.assertEqual(count, 1, output)
        self.assertIn("invalid end state", output)

    def test_marking_before_filling_shows_the_device_unfilled_blocks(self):
        count, output = errors_of("publish.pml", "-DPRODUCERS=2", "-DHASTY")
        self.assertEqual(count, 1, output)
        self.assertIn("assertion violated", output)

    def test_polling_holds(self):
        count, output = errors_of("poll.pml")
        self.assertEqual(count, 0, output)

    def test_claiming_before_copying_reads_what_the_device_wrote_since(self):
        count, output = errors_of("poll.pml", "-DEARLY")
        self.assertEqual(count, 1, output)
        self.assertIn("assertion violated", output)

    def test_a_title_that_is_not_looked_at_again_is_taken_twice(self):
        count, output = errors_of("poll.pml", "-DSTALE")
        self.assertEqual(count, 1, output)
        self.assertIn("assertion violated", output)

    def test_publishing_what_was_claimed_goes_backwards(self):
        count, output = errors_of("poll.pml", "-DBACKWARD")
        self.assertEqual(count, 1, output)
        self.assertIn("assertion violated", output)


if __name__ == "__main__":
    cases.main()
