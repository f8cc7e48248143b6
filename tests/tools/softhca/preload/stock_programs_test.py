#!/usr/bin/python3
"""Debian's own verbs programs on software devices: with Debian's libibverbs and libmlx5, and with ours.

They were written against real adapters and know nothing of this device or these libraries, so what they accept is
independent of us.
"""
import os
import signal
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, "tests/tools/cases")
import cases  # noqa: E402
from preload import environment_with, free_port, wait_until_listening  # noqa: E402

TIME_LIMIT_S = 60


class StockPrograms(unittest.TestCase):
    libraries = None  # Debian's

    def environment(self):
        result = environment_with("tools/softhca/preload/libumlx5_preload.so")
        if self.libraries is not None:
            result["LD_LIBRARY_PATH"] = os.path.abspath(self.libraries)
        # As `umlx5 run` sets it; and UCX's choice of transports.
        result.update(UCX_MEM_EVENTS="n", UCX_IB_REG_METHODS="direct", UCX_TLS="rc_verbs,ud_verbs:aux", UCX_NET_DEVICES="mlx5_0:1")
        return result

    def pair(self, program, *arguments, **variables):
        port = free_port()
        command = [program, "-p", str(port), *arguments]
        environment = dict(self.environment(), **variables)
        server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            wait_until_listening(port, server)
            client = subprocess.run([*command, "127.0.0.1"], env=environment, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True, timeout=TIME_LIMIT_S)
            output, _ = server.communicate(timeout=TIME_LIMIT_S)
        finally:
            if server.poll() is None:
                server.send_signal(signal.SIGKILL)
                server.wait()
            server.stdout.close()
        self.assertEqual(client.returncode, 0, f"{command}: client:\n{client.stdout}")
        self.assertEqual(server.returncode, 0, f"{command}: server:\n{output}")
        return client.stdout

    def test_devinfo(self):
        done = subprocess.run(["ibv_devinfo", "-v"], env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=TIME_LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stdout)
        for line in ("hca_id:\tmlx5_0", "vendor_part_id:\t\t\t4125", "PORT_ACTIVE", "RoCE v2", "link_layer:\t\tEthernet"):
            self.assertIn(line, done.stdout)

    def test_a_bad_number_of_devices_is_refused(self):
        done = subprocess.run(["ibv_devinfo"], env=dict(self.environment(), UMLX5_SOFT_DEVICES="2x"), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=TIME_LIMIT_S)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("UMLX5_SOFT_DEVICES is '2x', and not a number from 0 to 64", done.stdout)
        self.assertNotIn("hca_id", done.stdout)

    def test_pingpong_with_events(self):
        for program in ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong"):
            with self.subTest(program):
                self.assertIn("100 iters in", self.pair(program, "-g", "0", "-n", "100", "-e"))

    def test_xsrq_pingpong(self):
        for more in ([], ["-e"]):
            self.assertIn("success", self.pair("ibv_xsrq_pingpong", "-d", "mlx5_0", "-g", "0", *more))

    def test_rc_pingpong_checks_its_data(self):
        self.assertIn("100 iters in", self.pair("ibv_rc_pingpong", "-g", "0", "-n", "100", "-c", "-s", "20000"))

    def test_perftest(self):
        for program, *arguments in (
            ("ib_write_bw", "-n", "100", "-q", "8"),
            ("ib_send_bw", "-n", "128", "-l", "16", "-t", "64"),
            ("ib_read_bw", "-n", "50"),
            ("ib_atomic_bw", "-n", "50"),
            ("ib_write_lat", "-n", "20", "-s", "64", "-I", "64"),
            ("ib_send_lat", "-n", "50", "-e"),
        ):
            with self.subTest(program):
                self.assertIn("#bytes", self.pair(program, "-F", "-x", "0", *arguments))

    def test_multicast(self):
        for more in ([], ["-M", "0:0:0:0:0:0:0:0:0:0:255:255:239:77:0:1"]):
            with self.subTest(more):
                self.assertIn("#bytes", self.pair("ib_send_lat", "-F", "-x", "0", "-c", "UD", "-g", "-n", "100", *more))

    def test_counters_in_sysfs(self):
        done = subprocess.run(["/usr/bin/python3", "tests/tools/softhca/preload/read_counters.py"], env=self.environment(),
                              stdout=subprocess.PIPE, text=True, timeout=TIME_LIMIT_S)
        # A datagram is IP 20, UDP 8, BTH 12, DETH 8, data 100, ICRC 4: 38 words of 4 bytes.
        self.assertEqual(done.stdout.splitlines(), ["0 0 0 0 0 0 0", "10 10 380 380 0 0 0"])

    def test_ucx(self):
        """Over the verbs, and over its own transports for mlx5, which make their queues by the device's commands."""
        for transports in ("rc_verbs,ud_verbs:aux", "rc_mlx5,ud_mlx5:aux", "dc_mlx5,ud_mlx5:aux", "ud_mlx5"):
            for test, *more in (("tag_lat", "-s", "64"), ("tag_bw", "-s", "65536")):
                with self.subTest(transports, test=test):
                    self.assertIn("Final:", self.pair("ucx_perftest", "-t", test, "-n", "100", "-w", "5", *more,
                                                      UCX_TLS=transports))


class ProgramsWithOwnLibraries(StockPrograms):
    libraries = "driver/verbs/lib"

    def test_ours_are_loaded(self):
        listed = subprocess.run(["ldd", "/usr/bin/ib_write_bw"], env=self.environment(), stdout=subprocess.PIPE, text=True,
                                timeout=TIME_LIMIT_S, check=True).stdout
        for name in ("libibverbs.so.1", "libmlx5.so.1", "libefa.so.1"):
            self.assertIn(f"{name} => {os.path.abspath(self.libraries)}/{name}", listed)

    def test_ucx_finds_its_transports(self):
        done = subprocess.run(["ucx_info", "-d"], env=self.environment(), stdout=subprocess.PIPE, text=True,
                              timeout=TIME_LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stdout)
        for transport in ("rc_verbs", "ud_verbs", "rc_mlx5", "dc_mlx5", "ud_mlx5"):
            self.assertIn(f"Transport: {transport}", done.stdout)

    def test_pyverbs(self):
        text = ("import pyverbs.device as d, pyverbs.cmid, pyverbs.providers.mlx5.mlx5dv as m\n"
                "context = m.Mlx5Context(m.Mlx5DVContextAttr(), name='mlx5_0')\n"
                "print(context.query_device().max_qp, context.query_mlx5_device().flags & 1)\n")
        done = subprocess.run(["/usr/bin/python3", "-c", text], env=self.environment(), stdout=subprocess.PIPE, text=True,
                              timeout=TIME_LIMIT_S)
        # mlx5dv.h: CQE_V1 is 1, PACKET_BASED_CREDIT_MODE 64.
        self.assertEqual(done.stdout.split(), ["131072", "1"])


if __name__ == "__main__":
    cases.main()
