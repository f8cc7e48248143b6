#!/usr/bin/python3
"""Programs that fork, are killed, or close a device too early."""

import os
import signal
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = ["tests/tools/cases", "tests/driver/verbs"]
import cases  # noqa: E402
import lanes  # noqa: E402

TIME_LIMIT_S = 60
EIO = 5
EBADF = 9


def output(lane, program, *arguments, **variables):
    done = subprocess.run([f"tests/driver/verbs/{program}", *arguments], env=lanes.environment(lane, **variables),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIME_LIMIT_S)
    return done.returncode, done.stdout


class Fork(unittest.TestCase):
    def check(self, *arguments, **variables):
        stock_code, stock = output(lanes.STOCK, "fork_probe", *arguments, **variables)
        code, ours = output(lanes.UMLX5, "fork_probe", *arguments, **variables)
        self.assertEqual((code, ours), (stock_code, stock))
        self.assertEqual(code, 0, ours)
        for line in ("before: 1", "after: 1", "beside a child: 100 of 100", "the child: 0",
                     f"reg_mr: {EIO}", "device memory: 0", "a device of its own: 0"):
            self.assertIn(line, ours)
        return ours

    def test_children_as_with_the_stock_libraries(self):
        ours = self.check()
        if "initialized: 0" in ours:  # the kernel does not copy what a device uses, and nobody asked to keep it back
            self.assertIn("poll_cq: 0\n", ours)
            self.assertIn("ibv_fork_init, late: 22", ours)

    def test_children_after_fork_init(self):
        ours = self.check("init")
        self.assertIn("ibv_fork_init: 0", ours)
        self.assertIn("ibv_fork_init, late: 0", ours)

    def test_children_after_fork_init_by_a_variable(self):
        for variable in ("RDMAV_FORK_SAFE", "IBV_FORK_SAFE"):
            with self.subTest(variable):
                self.assertIn("ibv_fork_init, late: 0", self.check(**{variable: "1"}))


class Kill(unittest.TestCase):
    def test_the_next_program_has_the_same_device(self):
        address = lanes.loopback_address()
        for lane in (lanes.UMLX5, lanes.STOCK, lanes.UMLX5):
            with self.subTest(lane):
                with subprocess.Popen([os.path.abspath("tests/driver/verbs/fork_probe"), "run"],
                                      env=lanes.environment(lane, UMLX5_SOFT_ADDR=address),
                                      stdout=subprocess.PIPE, text=True) as killed:
                    self.assertEqual(killed.stdout.readline(), "running\n")
                    killed.send_signal(signal.SIGKILL)
                    self.assertEqual(killed.wait(TIME_LIMIT_S), -signal.SIGKILL)
                code, text = output(lane, "fork_probe", UMLX5_SOFT_ADDR=address)
                self.assertEqual(code, 0, text)
                self.assertIn("beside a child: 100 of 100", text)


class Close(unittest.TestCase):
    def test_what_is_destroyed_after_its_device_was_closed(self):
        """The stock libraries use freed memory then; the kernel's answer for a descriptor that is closed is EBADF."""
        code, text = output(lanes.UMLX5, "late_destroy")
        self.assertEqual(text.splitlines(), [
            "close_device: 0, errno 0", f"destroy_qp: {EBADF}, errno 0", f"destroy_srq: {EBADF}, errno 0",
            f"dealloc_mw: {EBADF}, errno 0", f"dereg_mr: {EBADF}, errno 0", "again: 1",
            f"destroy_qp: {EBADF}, errno 0"])
        self.assertEqual(code, 0)


if __name__ == "__main__":
    cases.main()
