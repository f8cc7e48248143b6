#!/usr/bin/python3
"""What creating gives and refuses through the C ABI, row by row; the stock libraries agree but where a row says so."""
import os
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = ["tests/tools/cases", "tests/driver/verbs"]
import cases  # noqa: E402
import lanes  # noqa: E402

TIME_LIMIT_S = 120
# Devices without these have rows of their own.
WITHOUT = ("ooo=0", "dci_streams=0,dci_errored_streams=0", "atomic=0", "mmo=0", "tunnel_offloads=0", "scatter_to_cqe=0",
           "packet_based_credit=0", "xrc=0", "dct=0", "raw_packets=0")


class Creation(unittest.TestCase):
    def run_rows(self, lane, without=""):
        environment = lanes.environment(lane, UMLX5_SOFT_ADDR=lanes.loopback_address(), UMLX5_SOFT_CAPS=without,
                                        UMLX5_LOG="info")
        command = [os.path.abspath("tests/driver/verbs/creation_probe"), "--without", without]
        done = subprocess.run(command + ["--stock"] * (lane == lanes.STOCK), env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIME_LIMIT_S)
        print(f"{lane} {without}: {done.stdout.splitlines()[-1] if done.stdout else 'nothing'}", flush=True)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:])
        return int(done.stdout.splitlines()[-1].split()[0])

    def test_our_libraries(self):
        self.assertGreater(self.run_rows(lanes.UMLX5), 250)

    def test_stock_libraries(self):
        self.assertGreater(self.run_rows(lanes.STOCK), 200)

    def test_lesser_devices(self):
        for without in WITHOUT:
            with self.subTest(without):
                self.run_rows(lanes.UMLX5, without)

    def test_lesser_devices_with_stock_libraries(self):
        for without in WITHOUT:
            with self.subTest(without):
                self.run_rows(lanes.STOCK, without)


if __name__ == "__main__":
    cases.main()
