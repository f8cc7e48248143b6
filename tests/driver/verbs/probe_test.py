#!/usr/bin/python3
"""A program that calls libibverbs and libmlx5 with good and bad arguments gets from ours what Debian's give."""
import os
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = ["tests/tools/cases", "tests/driver/verbs"]
import cases  # noqa: E402
import lanes  # noqa: E402

TIME_LIMIT_S = 60


def probe(program, lane, address, *arguments):
    done = subprocess.run([os.path.abspath(f"tests/driver/verbs/{program}"), *arguments], env=lanes.environment(lane, UMLX5_SOFT_ADDR=address), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=TIME_LIMIT_S)
    return done.returncode, done.stdout


class Probe(unittest.TestCase):
    def compare(self, program, least_lines):
        address = lanes.loopback_address()
        stock_code, stock = probe(program, lanes.STOCK, address)
        code, ours = probe(program, lanes.UMLX5, address)
        self.assertEqual((stock_code, code), (0, 0), stock[-500:] + ours[-500:])
        self.assertGreater(len(stock.splitlines()), least_lines)
        different = [f"stock: {a}\nours:  {b}" for a, b in zip(stock.splitlines(), ours.splitlines()) if a != b]
        self.assertFalse(different, "\n".join(different))
        self.assertEqual(len(ours.splitlines()), len(stock.splitlines()))
        return ours

    def test_what_is_no_queue(self):
        self.assertNotIn("WROTE BEYOND", self.compare("probe", 250))

    def test_queues(self):
        ours = self.compare("queue_probe", 20)
        self.assertNotIn("NOT THE TIME", ours)
        self.assertIn("open_qp: 1\n", ours)

    def test_a_queue_pair_that_was_opened_again_is_destroyed_with_the_last(self):
        code, ours = probe("queue_probe", lanes.UMLX5, lanes.loopback_address(), "destroy")
        self.assertEqual(code, 0, ours)
        for line in ("close_xrcd, used: 16, errno 0", "destroy_qp, the second: 0, errno 0",
                     "open_qp of what was: refused 1", "close_xrcd: 0, errno 0"):
            self.assertIn(line + "\n", ours)

    def test_objects_by_the_devices_own_commands(self):
        ours = self.compare("devx_probe", 20)
        for line in ("CQ in no umem: 0, status 5", "QP: 1, status 0", "72 bytes, cookie 0x1234, type 0, of this CQ 1",
                     "8 bytes, cookie 0x5678", "signals: 1 of 1", "CQE opcode 14"):
            self.assertIn(line + "\n", ours)

    def test_pages_that_variables_ask_for(self):
        """Whether queues are made, with huge pages or without as this machine has them, is the stock library's answer."""
        address = lanes.loopback_address()
        for kind in ("HUGE", "PREFER_HUGE", "ALL", "CONTIG", "PREFER_CONTIG", "ANON", "huge", "nothing"):
            for queue in ("QP", "CQ"):
                with self.subTest(kind=kind, queue=queue):
                    made = {}
                    for lane in (lanes.STOCK, lanes.UMLX5):
                        variables = {"UMLX5_SOFT_ADDR": address, f"MLX_{queue}_ALLOC_TYPE": kind}
                        done = subprocess.run([os.path.abspath("tests/driver/verbs/loop_probe")],
                                              env=lanes.environment(lane, **variables), text=True,
                                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=TIME_LIMIT_S)
                        made[lane] = (done.returncode, done.stdout)
                    self.assertEqual(made[lanes.UMLX5], made[lanes.STOCK])
                    if kind in ("ANON", "PREFER_HUGE", "nothing"):
                        self.assertEqual(made[lanes.UMLX5], (0, "transferred: 1\n"))
                    if kind == "CONTIG":
                        self.assertEqual(made[lanes.UMLX5][0], 1)


if __name__ == "__main__":
    cases.main()
