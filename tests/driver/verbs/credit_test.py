#!/usr/bin/python3
"""A queue pair with packet-based credits tells in its acknowledgements for how many packets it has receive requests."""
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = ["tests/tools/cases", "tests/driver/verbs"]
import cases  # noqa: E402
import lanes  # noqa: E402

TIME_LIMIT_S = 60


def credits(lane, *arguments):
    """The credit codes of all acknowledgements, in order, as tshark reads them."""
    with tempfile.TemporaryDirectory() as folder:
        capture = os.path.join(folder, "capture.pcapng")
        subprocess.run([os.path.abspath("tests/driver/verbs/credit_probe"), *arguments], check=True, timeout=TIME_LIMIT_S,
                       env=lanes.environment(lane, UMLX5_SOFT_ADDR=lanes.loopback_address(), UMLX5_SOFT_PCAP=capture))
        fields = subprocess.run(["tshark", "-n", "-r", capture, "-Y", "infiniband.aeth", "-T", "fields", "-e",
                                 "infiniband.aeth.syndrome.credit_count"], check=True, timeout=TIME_LIMIT_S, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        return [int(field) for field in fields.split()][::2]  # as sent; and as received, for it is one device


class Credits(unittest.TestCase):
    def test_packets_are_counted(self):
        # IBA table 46: codes 8, 6 and 0 are 16, 8 and no credits: two, one and no requests of 8 KB with an MTU of 1 KB.
        for lane in (lanes.STOCK, lanes.UMLX5):
            self.assertEqual(credits(lane), [8, 6, 0], lane)

    def test_nothing_is_counted_unless_asked(self):
        for lane in (lanes.STOCK, lanes.UMLX5):
            self.assertEqual(credits(lane, "plain"), [31, 31, 31], lane)


if __name__ == "__main__":
    cases.main()
