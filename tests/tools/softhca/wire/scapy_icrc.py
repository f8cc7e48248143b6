"""Prints scapy's RoCE v2 ICRC, in wire order, for each line "source destination source-port tos ttl packet-in-hex"."""
import logging
import sys

logging.getLogger("scapy").setLevel(logging.ERROR)
from scapy.contrib.roce import BTH  # noqa: E402
from scapy.layers.inet import IP, UDP  # noqa: E402

for line in sys.stdin:
    source, destination, port, tos, ttl, packet = line.split()
    bth = BTH(bytes.fromhex(packet) + bytes(4))
    bth.icrc = None
    ip = IP(src=source, dst=destination, tos=int(tos), ttl=int(ttl), id=0, flags="DF")
    print(bytes(ip / UDP(sport=int(port), dport=4791) / bth)[-4:].hex())
