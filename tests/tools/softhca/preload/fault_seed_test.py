#!/usr/bin/python3
"""The same seed gives the same faults, seen from end to end: what of a stock program's packets reaches its peer.

The program writes over an unreliable connection, so that nothing is sent again and packet n of the device is packet n
of the program."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, "tests/tools/cases")
import cases  # noqa: E402
from preload import environment_with, free_port, wait_until_listening  # noqa: E402

PACKETS = 100
# What seed 7 loses of them at 0.1, in every release: the same numbers as in FaultPlan's own test.
LOST = [61, 66, 72, 78, 81, 86, 90, 94, 97, 98, 99]
TIME_LIMIT_S = 60


def run_pair(faults, capture):
    """Runs the two programs; what the client prints."""
    environment = environment_with("tools/softhca/preload/libumlx5_preload.so")
    port = free_port()
    command = ["ib_write_bw", "-c", "UC", "-n", str(PACKETS), "-s", "64", "-F", "-x", "0", "-p", str(port)]
    server = subprocess.Popen(command, env=dict(environment, UMLX5_SOFT_PCAP=capture), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    try:
        wait_until_listening(port, server)
        client = subprocess.run([*command, "127.0.0.1"], env=dict(environment, UMLX5_SOFT_FAULTS=faults),
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIME_LIMIT_S,
                                check=False)
        output, _ = server.communicate(timeout=TIME_LIMIT_S)
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
        server.stdout.close()
    if client.returncode != 0 or server.returncode != 0:
        raise AssertionError(f"client:\n{client.stdout}\nserver:\n{output}")
    return client.stdout


def arrived(faults):
    """The numbers of the client's packets that reached the server, in their order."""
    with tempfile.TemporaryDirectory() as folder:
        capture = os.path.join(folder, "server.pcapng")
        output = run_pair(faults, capture)
        first = int(re.search(r"local address: .* PSN (0x[0-9a-f]+)", output)[1], 16)
        psns = subprocess.run(["tshark", "-n", "-r", capture, "-Y", "infiniband.bth.opcode == 0x2a", "-T", "fields", "-e",
                               "infiniband.bth.psn"], stdout=subprocess.PIPE, text=True, timeout=TIME_LIMIT_S, check=True)
    return [(int(psn) - first) % (1 << 24) for psn in psns.stdout.split()]


class FaultSeed(unittest.TestCase):
    def test_a_perfect_wire_loses_nothing(self):
        self.assertEqual(arrived(""), list(range(PACKETS)))

    def test_the_same_seed_loses_the_same_packets(self):
        faults = "seed=7,loss=0.1,dup=0.1"
        first = arrived(faults)
        self.assertEqual(first, arrived(faults))
        self.assertEqual(sorted(set(range(PACKETS)) - set(first)), LOST)
        self.assertGreater(len(first), len(set(first)), "some came twice")
        self.assertNotEqual(first, arrived("seed=8,loss=0.1,dup=0.1"))


if __name__ == "__main__":
    cases.main()
