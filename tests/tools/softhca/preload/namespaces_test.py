#!/usr/bin/python3
"""Two unmodified programs on what are two machines to them: network namespaces with a veth pair between, each soft device
on its interface's own address.

The test runs itself again in a user and a network namespace of its own, so that it needs no privilege where the kernel
allows that, and leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, "tests/tools/cases")
import cases  # noqa: E402
from preload import environment_with, wait_until_listening  # noqa: E402

INSIDE = "UMLX5_TEST_INSIDE_NAMESPACE"
UNSHARE = ["unshare", "--user", "--map-root-user", "--net"]
HERE, THERE = "192.0.2.1", "192.0.2.2"  # TEST-NET-1
TIME_LIMIT_S = 60


def command(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIME_LIMIT_S,
                          check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(words)}: {done.stdout}")
    return done.stdout


def why_not():
    """Why this machine lets nobody make namespaces and interfaces, None if it does."""
    done = subprocess.run([*UNSHARE, "ip", "link", "add", "veth0", "type", "veth", "peer", "name", "veth1"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIME_LIMIT_S, check=False)
    return None if done.returncode == 0 else f"network namespaces are not permitted here: {done.stdout.strip()}"


class Namespaces(unittest.TestCase):
    def setUp(self):
        self.other = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo ready; exec sleep 300"],
                                      stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end)
        self.assertEqual(self.other.stdout.readline(), "ready\n")
        self.there = ["nsenter", "--net", "--target", str(self.other.pid)]
        command("ip", "link", "add", "veth0", "type", "veth", "peer", "name", "veth1", "netns", str(self.other.pid))
        for prefix, name, address in (([], "veth0", HERE), (self.there, "veth1", THERE)):
            command(*prefix, "ip", "address", "add", f"{address}/24", "dev", name)
            command(*prefix, "ip", "link", "set", name, "up")

    def end(self):
        self.other.send_signal(signal.SIGKILL)
        self.other.wait()
        self.other.stdout.close()

    def environment(self, address, capture):
        return dict(environment_with("tools/softhca/preload/libumlx5_preload.so"), UMLX5_SOFT_ADDR=address,
                    UMLX5_SOFT_PCAP=capture)

    def test_rc_pingpong_between_two_machines(self):
        port = 18515  # the namespace is this test's own
        program = ["ibv_rc_pingpong", "-g", "0", "-n", "200", "-c", "-p", str(port)]
        with tempfile.TemporaryDirectory() as folder:
            capture = os.path.join(folder, "server.pcapng")
            server = subprocess.Popen(program, env=self.environment(HERE, capture), stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True)
            try:
                wait_until_listening(port, server)
                client = subprocess.run([*self.there, *program, HERE],
                                        env=self.environment(THERE, os.path.join(folder, "client.pcapng")),
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        timeout=TIME_LIMIT_S, check=False)
                output, _ = server.communicate(timeout=TIME_LIMIT_S)
            finally:
                if server.poll() is None:
                    server.kill()
                    server.wait()
                server.stdout.close()
            shown = f"server:\n{output}\nclient:\n{client.stdout}"
            self.assertEqual((server.returncode, client.returncode), (0, 0), shown)
            self.assertIn("200 iters in", client.stdout)
            self.assertRegex(output, f"remote address: .* GID ::ffff:{THERE}\n")
            self.assertRegex(client.stdout, f"remote address: .* GID ::ffff:{HERE}\n")
            pairs = command("tshark", "-n", "-r", capture, "-Y", "infiniband", "-T", "fields", "-e", "ip.src", "-e",
                            "ip.dst").split("\n")
            # 200 messages of 4 KiB each way, 4 packets each.
            self.assertGreaterEqual(pairs.count(f"{HERE}\t{THERE}"), 800)
            self.assertGreaterEqual(pairs.count(f"{THERE}\t{HERE}"), 800)
        counted = json.loads(command("ip", "-s", "-j", "link", "show", "veth0"))[0]["stats64"]
        self.assertGreaterEqual(counted["tx"]["bytes"], 200 * 4096)
        self.assertGreaterEqual(counted["rx"]["bytes"], 200 * 4096)


if __name__ == "__main__":
    if INSIDE not in os.environ:
        REASON = why_not()
        if REASON is None:
            os.execvpe(UNSHARE[0], [*UNSHARE, sys.executable, *sys.argv], dict(os.environ, **{INSIDE: "1"}))
        Namespaces = unittest.skip(REASON)(Namespaces)
    cases.main()
