#!/usr/bin/env python3
"""The umlx5 program as its users meet it, on software devices."""

import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, "tests/tools/cases")
import cases  # noqa: E402

PROGRAM = os.path.abspath("tools/cli/umlx5")
LIMIT = 120  # seconds that anything here may take, on a slow machine with sanitizers
MASK = (1 << 64) - 1


def environment(**changes):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("UMLX5_", "LC_", "LANG"))}
    return kept | changes


def run(*arguments, **changes):
    return subprocess.run([PROGRAM, *arguments], env=environment(**changes), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=False)


def start(*arguments, **changes):
    return subprocess.Popen([PROGRAM, *arguments], env=environment(**changes), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def wait_until(condition, what):
    deadline = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} within {LIMIT} s")
        time.sleep(0.02)


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def is_side(pid, role):
    """Whether `pid` has become that side: the server has --server in its arguments."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            arguments = file.read().split(b"\0")
    except FileNotFoundError:
        return False
    return any(a.startswith(b"--report-fd") for a in arguments) and (b"--server" in arguments) == (role == "server")


def side_of(process, role):
    found = []

    def look():
        found[:] = [child for child in children(process.pid) if is_side(child, role)]
        return found
    wait_until(look, f"there is a {role} side")
    return found[0]


def mix(value):
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9 & MASK
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb & MASK
    return value ^ (value >> 31)


def pattern(seed, stream, iteration, words):
    """The payload by its definition: outputs of splitmix64 from a start that names the message."""
    step = 0x9e3779b97f4a7c15
    begin = mix(mix(seed + step & MASK) + (stream << 48) + iteration & MASK)
    return b"".join(struct.pack("<Q", mix(begin + (i + 1) * step & MASK)) for i in range(words))


class Case(unittest.TestCase):
    def good(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def refused(self, done, code, *parts):
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)


class LatencyAlone(Case):
    def measure(self, *arguments):
        done = run("lat", "--iters", "300", "--warmup", "20", "--json", "-", *arguments)
        value = json.loads(self.good(done))
        self.assertEqual(value["verified"], 300)
        self.assertEqual(value["iterations"], 300)
        self.assertIs(value["device"]["software"], True)
        self.assertTrue(value["device"]["name"])
        times = value["latency_us"]
        self.assertGreater(times["min"], 0)
        self.assertLessEqual(times["min"], times["p50"])
        self.assertLessEqual(times["p50"], times["p99"])
        self.assertLessEqual(times["p99"], times["p999"])
        self.assertLessEqual(times["p999"], times["max"])
        return value

    def test_every_operation_polling(self):
        for op, size, measure in (("write", 2, "half round trip"), ("send", 2, "half round trip"),
                                  ("read", 2, "round trip"), ("atomic", 8, "round trip")):
            with self.subTest(op=op):
                value = self.measure("--op", op)
                self.assertEqual((value["op"], value["size"], value["measure"]), (op, size, measure))

    def test_every_operation_with_events(self):
        for op in ("write", "send", "read", "atomic"):
            with self.subTest(op=op):
                self.assertEqual(self.measure("--op", op, "--events")["mode"], "events")

    def test_sizes(self):
        for op in ("write", "send", "read"):
            for size, size_bytes in (("0", 0), ("1", 1), ("1025", 1025), ("64k", 65536)):
                with self.subTest(op=op, size=size):
                    self.assertEqual(self.measure("--op", op, "--size", size)["size"], size_bytes)

    def test_inline(self):
        for op in ("write", "send"):
            with self.subTest(op=op):
                self.assertIs(self.measure("--op", op, "--inline", "--size", "64")["inline"], True)

    def test_mtu_and_seed(self):
        value = self.measure("--size", "5000", "--mtu", "256", "--seed", "77")
        self.assertEqual((value["mtu"], value["seed"]), (256, 77))

    def test_text(self):
        text = self.good(run("lat", "--iters", "500", "--op", "write"))
        self.assertIn("verified: 500 of 500\n", text)
        self.assertIn("software device: times say nothing about a NIC", text)
        self.assertRegex(text, r"half round trip +min +p50 +p99 +p99\.9 +max +mean")
        self.assertRegex(text, r"us \|#+ ")
        self.assertLessEqual(max(map(len, text.splitlines()[2:])), 80)

    def test_json_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "result.json")
            self.assertIn("verified: 50 of 50", self.good(run("lat", "--iters", "50", "--json", path)))
            with open(path, encoding="utf-8") as file:
                self.assertEqual(json.load(file)["verified"], 50)

    def test_two_runs_at_once(self):
        first, second = start("lat", "--iters", "300"), start("lat", "--iters", "300")
        for process in (first, second):
            out, err = process.communicate(timeout=LIMIT)
            self.assertEqual(process.returncode, 0, err)
            self.assertIn("verified: 300 of 300", out)


class ServerAndClient(Case):
    def serve(self, *arguments, **changes):
        port = free_port()
        server = start(arguments[0], "--server", "--port", port, *arguments[1:], **changes)
        self.addCleanup(lambda: server.poll() is not None or server.kill())
        self.assertIn("waiting for a client", server.stderr.readline())
        return server, port

    def test_a_run(self):
        for op in ("write", "send", "read", "atomic"):
            with self.subTest(op=op):
                server, port = self.serve("lat", "--iters", "100", "--op", op)
                text = self.good(run("lat", "localhost", "--port", port, "--iters", "100", "--op", op))
                self.assertIn("verified: 100 of 100", text)
                server.communicate(timeout=LIMIT)
                self.assertEqual(server.returncode, 0)

    def test_different_terms_are_named_on_both_sides(self):
        server, port = self.serve("lat", "--iters", "100")
        self.refused(run("lat", "127.0.0.1", "--port", port, "--iters", "200"), 1,
                     "the two sides differ in iters: 200 here, 100 at the other side")
        _, err = server.communicate(timeout=LIMIT)
        self.assertEqual(server.returncode, 1)
        self.assertIn("the two sides differ in iters: 100 here, 200 at the other side", err)

    def test_a_stranger_is_named(self):
        server, port = self.serve("lat")
        with socket.create_connection(("127.0.0.1", int(port)), timeout=LIMIT) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n")
            _, err = server.communicate(timeout=LIMIT)
        self.assertEqual(server.returncode, 1)
        self.assertIn("not an umlx5 test at the other side: it sent 'GET / HTTP/1.1.'", err)

    def test_a_client_that_dies_ends_the_server(self):
        for op in ("write", "read"):
            with self.subTest(op=op):
                server, port = self.serve("lat", "--iters", "1000000000", "--op", op)
                client = start("lat", "127.0.0.1", "--port", port, "--iters", "1000000000", "--op", op)
                self.assertIn("umlx5 lat", client.stdout.readline())
                client.kill()
                client.communicate()
                _, err = server.communicate(timeout=LIMIT)
                self.assertEqual(server.returncode, 1)
                self.assertIn("the other side closed the connection", err)


class Bandwidth(Case):
    def test_alone(self):
        for op in ("write", "send"):
            with self.subTest(op=op):
                value = json.loads(self.good(run("bw", "--op", op, "--iters", "500", "--json", "-")))
                self.assertEqual((value["op"], value["size"], value["iterations"]), (op, 65536, 500))
                self.assertEqual((value["verified_buffers"], value["buffers"]), (64, 64))
                self.assertGreater(value["bandwidth"]["bytes_per_second"], 0)

    def test_depth_one_and_small(self):
        text = self.good(run("bw", "--depth", "1", "--size", "1", "--iters", "100"))
        self.assertIn("verified: 1 of 1 buffers", text)


class Failures(Case):
    def test_bad_options(self):
        for arguments, part in ((("lat", "--op", "fetch"), "fetch"), (("lat", "--size", "1g"), "1g"),
                                (("lat", "--iters", "0"), "--iters"), (("lat", "--nonsense"), "--nonsense"),
                                (("nothing",), "no command 'nothing'"), ((), "subcommand")):
            with self.subTest(arguments=arguments):
                self.refused(run(*arguments), 2, part)

    def test_unknown_device_lists_those_there_are(self):
        for command in (("lat",), ("devinfo",), ("lat", "localhost")):
            with self.subTest(command=command):
                self.refused(run(*command, "--device", "mlx9_9"), 1, "there is no device 'mlx9_9'; there are: ",
                             "(software)")

    @unittest.skipIf(os.path.isdir("/sys/class/infiniband") and os.listdir("/sys/class/infiniband"),
                     "this machine has RDMA devices")
    def test_no_device_at_all(self):
        for command in ("lat", "devinfo"):
            with self.subTest(command=command):
                self.refused(run(command, UMLX5_SOFT_DEVICES="0"), 1, "there is no mlx5 device")

    def test_busy_address(self):
        address = f"127.77.{os.getpid() % 250}.{os.getpid() // 250 % 250 + 1}"
        server = start("lat", "--server", "--port", free_port(), UMLX5_SOFT_ADDR=address)
        try:
            self.assertIn("waiting for a client", server.stderr.readline())
            self.refused(run("lat", UMLX5_SOFT_ADDR=address), 1, address)
        finally:
            server.kill()
            server.communicate()

    def test_no_server(self):
        port = free_port()
        self.refused(run("lat", "127.0.0.1", "--port", port), 1,
                     f"cannot reach the server 127.0.0.1 at TCP port {port}", "Connection refused")
        self.refused(run("lat", "no.such.host.invalid"), 1, "no address for the server 'no.such.host.invalid'")

    def test_tcp_port_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.refused(run("lat", "--server", "--port", str(taken.getsockname()[1])), 1, "cannot listen at TCP port")

    def test_inline_that_does_not_fit(self):
        self.refused(run("lat", "--inline", "--size", "64k"), 1, "65536")

    def test_json_that_cannot_be_written(self):
        self.refused(run("lat", "--json", "/nonexistent/x.json"), 1, "/nonexistent/x.json")

    def test_a_killed_side_is_told_and_both_are_gone(self):
        for role in ("server", "client"):
            for op in ("write", "read"):
                with self.subTest(role=role, op=op):
                    process = start("lat", "--iters", "1000000000", "--op", op)
                    self.assertIn("umlx5 lat", process.stdout.readline())
                    sides = [side_of(process, "server"), side_of(process, "client")]
                    os.kill(side_of(process, role), signal.SIGKILL)
                    _, err = process.communicate(timeout=LIMIT)
                    self.assertEqual(process.returncode, 1)
                    self.assertEqual(err, f"umlx5 lat: the {role} side was ended by signal 9 (Killed)\n")
                    self.assertTrue(all(map(gone, sides)))

    def test_sides_end_with_their_supervisor(self):
        process = start("lat", "--iters", "1000000000")
        self.assertIn("umlx5 lat", process.stdout.readline())
        sides = [side_of(process, "server"), side_of(process, "client")]
        process.kill()
        process.communicate()
        wait_until(lambda: all(map(gone, sides)), "both sides are gone")

    def test_a_wrong_byte_is_told(self):
        """Changes one byte of the server's memory while the client reads it."""
        process = start("lat", "--op", "read", "--size", "64", "--iters", "1000000000", "--seed", "5")
        self.assertIn("umlx5 lat", process.stdout.readline())
        payload = pattern(5, 2, 0, 8)
        server = side_of(process, "server")
        copies = 0
        for _ in range(100):  # the server may not have written its payload yet
            copies = self.flip(server, payload, 13)
            if copies != 0:
                break
            time.sleep(0.05)
        self.assertGreaterEqual(copies, 1)  # the device's packets may hold another
        _, err = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 1)
        got, want = payload[13] ^ 0xff, payload[13]
        self.assertRegex(err, r"^umlx5 lat: payload mismatch in iteration \d+: "
                              rf"offset 13 of 64 has 0x{got:02x}, want 0x{want:02x}\n$")

    def flip(self, pid, payload, offset):
        """Inverts a byte of every copy of `payload` in the process' own writable memory; the number of copies. The process
        may end meanwhile, of the first one."""
        copies = 0
        with open(f"/proc/{pid}/maps", encoding="ascii") as maps, open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            for line in list(maps):
                match = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw.. \S+ \S+ 0 +$", line.rstrip("\n") + " ")
                if not match or int(match[2], 16) - int(match[1], 16) > 1 << 28:
                    continue
                begin = int(match[1], 16)
                try:
                    memory.seek(begin)
                    found = memory.read(int(match[2], 16) - begin).find(payload)
                    if found >= 0:
                        memory.seek(begin + found + offset)
                        memory.write(bytes([payload[offset] ^ 0xff]))
                        copies += 1
                except OSError:
                    continue
        return copies


class Devinfo(Case):
    def test_list(self):
        self.assertIn("(software)", self.good(run("devinfo", "--list")))
        listed = json.loads(self.good(run("devinfo", "--list", "--json", UMLX5_SOFT_DEVICES="2")))
        self.assertEqual(len([device for device in listed if device["software"]]), 2)

    def test_json(self):
        device = json.loads(self.good(run("devinfo", "--json", "--device", "soft")))[0]
        self.assertIs(device["software"], True)
        self.assertEqual(device["ports"][0]["state"], "active")
        self.assertTrue(any(gid["type"] == "RoCE v2" for gid in device["ports"][0]["gids"]))
        rc = next(qp for qp in device["create_qp"] if qp["type"] == "RC")
        self.assertGreater(rc["max_send_sge"], 0)
        self.assertGreater(rc["max_inline_bytes"], 0)

    def test_text(self):
        text = self.good(run("devinfo", "--device", "soft"))
        for part in ("firmware_version:", "max_qp_wr:", "max_inline_bytes", "active_mtu:", "RoCE v2"):
            self.assertIn(part, text)


if __name__ == "__main__":
    cases.main()
