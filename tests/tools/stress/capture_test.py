#!/usr/bin/python3
"""A capture of random RC traffic: tshark finds every packet well-formed, and scapy computes every ICRC the same."""

import glob
import logging
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, "tests/tools/cases")
import cases  # noqa: E402

logging.getLogger("scapy").setLevel(logging.ERROR)
from scapy.contrib.roce import BTH  # noqa: E402
from scapy.layers.inet import IP, UDP  # noqa: E402
from scapy.utils import PcapReader  # noqa: E402

PROGRAM = os.path.abspath("tests/tools/stress/rc_stress")


def capture(folder, *arguments):
    """Runs the stress; the paths of both sides' captures."""
    done = subprocess.run([PROGRAM, "--pcap", os.path.join(folder, "%p.pcapng"), *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=250, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return sorted(glob.glob(os.path.join(folder, "*.pcapng")))


def packets(path):
    """Each packet of a capture, from the IP header to the ICRC."""
    with PcapReader(path) as reader:
        for packet in reader:
            yield bytes(packet)


def has_right_icrc(packet):
    """Lets scapy build the packet anew and compares the ICRC that it computes."""
    ip = IP(packet)
    bth = BTH(bytes(ip[UDP].payload))
    wire = bytes(bth)[-4:] if bth.icrc is None else bth.icrc.to_bytes(4, "big")
    bth.icrc = None
    header = IP(src=ip.src, dst=ip.dst, tos=ip.tos, ttl=ip.ttl, id=ip.id, flags=ip.flags)
    return bytes(header / UDP(sport=ip[UDP].sport, dport=ip[UDP].dport) / bth)[-4:] == wire == packet[-4:]


def malformed(path):
    """The layers of every packet that tshark calls malformed, "ip:udp:infiniband:..."."""
    done = subprocess.run(["tshark", "-n", "-r", path, "-Y", "_ws.malformed", "-T", "fields", "-e", "frame.protocols"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=250, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout.split()


class Capture(unittest.TestCase):
    def check(self, path):
        count, opcodes, wrong = 0, set(), 0
        for packet in packets(path):
            count += 1
            opcodes.add(packet[28])
            self.assertEqual(int.from_bytes(packet[2:4], "big"), len(packet), "IP total length")
            self.assertEqual(int.from_bytes(packet[24:26], "big"), len(packet) - 20, "UDP length")
            self.assertEqual(len(packet) % 4, 0)
            wrong += not has_right_icrc(packet)
        return count, opcodes, wrong

    def test_every_packet_is_right(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = capture(folder, "--messages", "200", "--max-bytes", "9000", "--seed", "3")
            self.assertEqual(len(paths), 2)
            for path in paths:
                count, opcodes, wrong = self.check(path)
                self.assertGreater(count, 300)
                self.assertEqual(wrong, 0)
                # IBA 9.2: SEND and WRITE of all forms, READ request and responses, ACK, atomics and their answers.
                self.assertLessEqual({0, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 15, 16, 17, 18, 19, 20}, opcodes)
                self.expect_well_formed(path)

    def test_packets_without_data(self):
        with tempfile.TemporaryDirectory() as folder:
            for path in capture(folder, "--messages", "100", "--max-bytes", "0"):
                self.assertEqual(self.check(path)[2], 0)
                self.expect_well_formed(path)

    def expect_well_formed(self, path):
        # Wireshark 4.0 guesses what a SEND carries from its payload. Random bytes look like a VLAN tag now and then,
        # and the guess "RPC over RDMA" reads beyond a payload of a few bytes or none (with --disable-protocol rpcordma
        # no such packet is malformed). That is not about the packet, whose own layers end with InfiniBand.
        for layers in malformed(path):
            self.assertNotIn(layers, ("ip", "ip:udp", "ip:udp:infiniband"))

    def test_corruption_is_seen(self):
        """The check above can fail: corrupted packets have a wrong ICRC, and no others."""
        with tempfile.TemporaryDirectory() as folder:
            paths = capture(folder, "--messages", "200", "--max-bytes", "2000", "--faults", "seed=3,corrupt=0.05")
            wrong = sum(self.check(path)[2] for path in paths)
            self.assertGreater(wrong, 5)


if __name__ == "__main__":
    cases.main()
