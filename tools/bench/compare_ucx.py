#!/usr/bin/env python3
"""Measures UCX over TCP on the loopback interface and umlx5 on software devices in turn, and prints the ratio.

Both move the same bytes between two processes of this machine through the kernel's loopback: UCX by TCP, umlx5 by RoCE
v2 in UDP, made by a software device. That compares two ways through software; memory of one machine and a device
without PCIe say nothing about what either does on a NIC.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys

NOTE = "software device, memory of one machine, no PCIe: this says nothing about a NIC"
UCX = dict(os.environ, UCX_TLS="tcp", UCX_NET_DEVICES="lo", UCX_WARN_UNUSED_ENV_VARS="n", UCX_LOG_LEVEL="error")
MIB = 1 << 20  # ucx_perftest's MB/s


def fail(text):
    print(f"compare-ucx: {text}", file=sys.stderr)
    sys.exit(1)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ucx(test, size, iterations, timeout):
    """One run of ucx_perftest: the last line of its CSV, as a dictionary of numbers."""
    common = ["ucx_perftest", "-t", test, "-s", str(size), "-n", str(iterations), "-w", str(iterations // 10),
              "-p", str(free_port())]
    with subprocess.Popen(["stdbuf", "-oL", *common], env=UCX, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as server:
        try:
            server.stdout.readline()  # "Waiting for connection..."
            client = subprocess.run([*common, "127.0.0.1", "-f", "-v"], env=UCX, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True, timeout=timeout, check=False)
            server.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            fail(f"ucx_perftest -t {test} does not end within {timeout} s")
        finally:
            if server.poll() is None:
                server.kill()
    lines = client.stdout.split()
    if client.returncode != 0 or len(lines) < 2:
        fail(f"ucx_perftest -t {test} failed: {(client.stderr or client.stdout).strip()}")
    return dict(zip(lines[-2].split(","), map(float, lines[-1].split(","))))


def umlx5(program, arguments, timeout):
    done = subprocess.run([program, *arguments, "--json", "-"], stdout=subprocess.PIPE, text=True, timeout=timeout,
                          check=False)
    if done.returncode != 0:
        fail(f"umlx5 {' '.join(arguments)} ended with code {done.returncode}")
    return json.loads(done.stdout)


def contests(options):
    """Name, unit, whether less is better, what UCX runs, and what umlx5 runs."""
    lat, bw, timeout = options.lat_iters, options.bw_iters, options.timeout

    def latency(op):
        return lambda: umlx5(options.umlx5, ["lat", "--op", op, "--size", "8", "--iters", str(lat)],
                             timeout)["latency_us"]["p50"]

    def bandwidth(op):
        return lambda: umlx5(options.umlx5, ["bw", "--op", op, "--size", "64k", "--iters", str(bw)],
                             timeout)["bandwidth"]["bytes_per_second"] / 1e6

    def ucx_latency():
        return ucx("tag_lat", 8, lat, timeout)["50.0_percentile_lat"]

    def ucx_bandwidth():
        return ucx("tag_bw", 65536, bw, timeout)["overall_bw"] * MIB / 1e6

    return [("8 B half round trip, send", "us", True, "UCX tag_lat", ucx_latency, latency("send")),
            ("8 B half round trip, write", "us", True, "UCX tag_lat", ucx_latency, latency("write")),
            ("64 KiB one way, write", "MB/s", False, "UCX tag_bw", ucx_bandwidth, bandwidth("write"))]


def main():
    parser = argparse.ArgumentParser(prog="umlx5 compare-ucx", description=__doc__.splitlines()[0])
    parser.add_argument("--umlx5", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each, in turn (5)")
    parser.add_argument("--lat-iters", type=int, default=20000, help="messages of a latency run (20000)")
    parser.add_argument("--bw-iters", type=int, default=5000, help="messages of a bandwidth run (5000)")
    parser.add_argument("--timeout", type=int, default=120, help="seconds that one run may take (120)")
    parser.add_argument("--json", metavar="FILE", help="write the result to this file; - for standard output")
    options = parser.parse_args()
    if min(options.rounds, options.lat_iters, options.bw_iters, options.timeout) < 1:
        parser.error("all numbers must be 1 or more")
    out = sys.stderr if options.json == "-" else sys.stdout
    print(f"{NOTE}\n\n{'':28} {'UCX':>10} {'umlx5':>10}", file=out)
    results = []
    for name, unit, less_is_better, peer, theirs, ours in contests(options):
        runs = []
        for _ in range(options.rounds):
            runs.append((theirs(), ours()))
            print(f"{name:28} {runs[-1][0]:>10.2f} {runs[-1][1]:>10.2f} {unit}", file=out, flush=True)
        ucx_median, our_median = (statistics.median(column) for column in zip(*runs))
        ratio = our_median / ucx_median
        better = (ratio < 1) == less_is_better
        print(f"{'  median':28} {ucx_median:>10.2f} {our_median:>10.2f} {unit}, umlx5/UCX {ratio:.2f} "
              f"({'better' if better else 'worse'}; {peer})\n", file=out, flush=True)
        results.append({"name": name, "unit": unit, "less_is_better": less_is_better, "peer": peer,
                        "ucx_runs": [run[0] for run in runs], "umlx5_runs": [run[1] for run in runs],
                        "ucx": ucx_median, "umlx5": our_median, "umlx5_over_ucx": ratio})
    if options.json:
        text = json.dumps({"note": NOTE, "rounds": options.rounds, "results": results}, indent=2) + "\n"
        if options.json == "-":
            sys.stdout.write(text)
        else:
            with open(options.json, "w", encoding="utf-8") as file:
                file.write(text)


if __name__ == "__main__":
    main()
