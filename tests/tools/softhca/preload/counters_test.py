#!/usr/bin/python3
"""The port's counters under faults, beside what tshark counts in the capture of the same packets."""

import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, "tests/tools/cases")
import cases  # noqa: E402
from preload import environment_with  # noqa: E402

DATAGRAMS = 400
TIME_LIMIT_S = 60


def run(faults):
    """Sends datagrams from a device to itself: its counters, and the sizes of the IP packets that the wire carried. The
    capture has each of them twice, as it leaves and as it arrives."""
    with tempfile.TemporaryDirectory() as folder:
        capture = os.path.join(folder, "capture.pcapng")
        environment = environment_with("tools/softhca/preload/libumlx5_preload.so")
        environment.update(UMLX5_SOFT_PCAP=capture, UMLX5_SOFT_FAULTS=faults)
        done = subprocess.run(["/usr/bin/python3", "tests/tools/softhca/preload/read_counters.py", str(DATAGRAMS)],
                              env=environment, stdout=subprocess.PIPE, text=True, timeout=TIME_LIMIT_S, check=True)
        names = ("sent", "received", "sent words", "received words", "multicast", "out of sequence", "errors")
        counters = dict(zip(names, (int(value) for value in done.stdout.splitlines()[1].split())))
        lengths = subprocess.run(["tshark", "-n", "-r", capture, "-T", "fields", "-e", "ip.len"], stdout=subprocess.PIPE,
                                 text=True, timeout=TIME_LIMIT_S, check=True).stdout.split()
    if len(lengths) % 2 != 0 or len(set(lengths)) != 1:
        raise AssertionError(f"{len(lengths)} packets of {set(lengths)} bytes")
    return counters, [int(length) for length in lengths[::2]]


class Counters(unittest.TestCase):
    def test_a_perfect_wire(self):
        counters, lengths = run("")
        self.assertEqual(len(lengths), DATAGRAMS)
        self.assertEqual((counters["sent"], counters["received"], counters["errors"]), (DATAGRAMS, DATAGRAMS, 0))
        self.assertEqual(counters["received words"] * 4, sum(lengths))

    def test_what_is_lost_and_doubled(self):
        """What a device sends counts whether it arrives or not; what arrives counts as often as it does."""
        counters, lengths = run("seed=5,loss=0.2,dup=0.1")
        self.assertNotEqual(len(lengths), DATAGRAMS)
        self.assertEqual((counters["sent"], counters["errors"]), (DATAGRAMS, 0))
        self.assertEqual(counters["received"], len(lengths))
        self.assertEqual(counters["received words"] * 4, sum(lengths))

    def test_what_is_corrupted(self):
        counters, lengths = run("seed=5,corrupt=0.2,dup=0.1")
        self.assertGreater(counters["errors"], 20)
        self.assertGreater(len(lengths), DATAGRAMS)
        self.assertEqual(counters["received"] + counters["errors"], len(lengths))
        self.assertEqual(counters["sent"], DATAGRAMS)


if __name__ == "__main__":
    cases.main()
