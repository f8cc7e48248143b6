#!/usr/bin/python3
"""UMLX5_SOFT_DEVICES gives a program devices through our libraries alone, without the preloaded shim."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = ["tests/tools/cases", "tests/driver/verbs"]
import cases  # noqa: E402
import lanes  # noqa: E402
from preload import free_port, wait_until_listening  # noqa: E402

TIME_LIMIT_S = 60


def environment(libraries=lanes.LIBRARIES, **variables):
    result = lanes.environment(lanes.STOCK) | {"LD_LIBRARY_PATH": libraries}
    for name in ("LD_PRELOAD", "UMLX5_SOFT_DEVICES"):
        result.pop(name, None)
    return result | variables


def run(program, env):
    done = subprocess.run(program, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=TIME_LIMIT_S, check=False)
    return done.returncode, done.stdout


class SoftDevices(unittest.TestCase):
    def test_as_many_as_asked_for(self):
        for count in (0, 1, 3):
            _, text = run(["ibv_devinfo"], environment(UMLX5_SOFT_DEVICES=str(count)))
            self.assertEqual(text.count("hca_id:"), count, text)

    def test_traffic_between_two_programs(self):
        port = free_port()
        pingpong = ["ibv_rc_pingpong", "-g", "0", "-n", "100", "-c", "-p", str(port)]
        env = environment(UMLX5_SOFT_DEVICES="1")
        with subprocess.Popen(pingpong, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
            wait_until_listening(port, server)
            code, text = run(pingpong + ["127.0.0.1"], env)
            self.assertEqual(code, 0, text)
            self.assertIn("100 iters", text)
            self.assertEqual(server.wait(TIME_LIMIT_S), 0)

    def test_bad_values_are_told_in_words(self):
        for variable, value, words in (("UMLX5_SOFT_DEVICES", "x", "'x', and not a number from 0 to 64"),
                                       ("UMLX5_SOFT_DEVICES", "65", "'65', and not a number from 0 to 64"),
                                       ("UMLX5_SOFT_ADDR", "nonsense", "'nonsense' is not an IPv4 address"),
                                       ("UMLX5_SOFT_FAULTS", "loss=7", "a probability is 0 to 1"),
                                       ("UMLX5_SOFT_CAPS", "what=0", "'what=0' names no capability")):
            for preload in ("", lanes.PRELOAD):
                with self.subTest(f"{variable}={value} {preload}"):
                    env = environment(**{"UMLX5_SOFT_DEVICES": "1", "LD_PRELOAD": preload, variable: value})
                    code, text = run(["ibv_devinfo"], env)
                    self.assertNotEqual(code, 0)
                    self.assertIn(variable, text)
                    self.assertIn(words, text)
                    self.assertIn("Failed to get IB devices list: Invalid argument", text)

    def test_without_the_library_beside_ours(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(os.path.join(lanes.LIBRARIES, "libibverbs.so.1"), folder)
            code, text = run(["ibv_devinfo"], environment(folder, UMLX5_SOFT_DEVICES="1"))
            self.assertNotEqual(code, 0)
            self.assertIn("soft devices cannot be loaded", text)
            self.assertIn("libumlx5_softhca.so", text)
            self.assertIn("No such file or directory", text)

    def test_nothing_is_left_behind(self):
        with tempfile.TemporaryDirectory() as folder:
            code, text = run(["ibv_devinfo"], environment(UMLX5_SOFT_DEVICES="1", TMPDIR=folder))
            self.assertEqual(code, 0, text)
            self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    cases.main()
