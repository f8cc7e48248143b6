#!/usr/bin/python3
"""Small messages are in their CQEs where the flags of a queue pair say so, and nowhere else, with both libraries."""
import os
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = ["tests/tools/cases", "tests/driver/verbs"]
import cases  # noqa: E402
import lanes  # noqa: E402

TIME_LIMIT_S = 60
SIZES = (8, 32, 33, 64, 65)


def run(lane, **variables):
    done = subprocess.run([os.path.abspath("tests/driver/verbs/scatter_probe")],
                          env=lanes.environment(lane, UMLX5_SOFT_ADDR=lanes.loopback_address(), **variables), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIME_LIMIT_S)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    return done.stdout.splitlines()


def rooms(room):
    """Of messages that fit in `room` bytes of a CQE; 0: none do."""
    return " ".join(f"{size}:{room if size <= room else '-'}" for size in SIZES)


def expected():
    """mlx5dv_create_qp(3), and mlx5_ib for what it leaves open: responders of RC and UC unless disabled, a DC target's
    with CQEs of 128 bytes only; requesters of RC if all requests are signalled or the flag promises it."""
    for kind in ("RC", "UC", "DC"):
        for cqe in (64, 128):
            for flags in ("-", "allow", "disable"):
                for signal_all in (0, 1):
                    room = cqe // 2
                    receive = 0 if flags == "disable" or (kind == "DC" and cqe == 64) else room
                    send = room if kind == "RC" and flags != "disable" and (signal_all or flags == "allow") else 0
                    line = f"{kind} cqe {cqe} flags {flags} sig {signal_all} | recv {rooms(receive)}"
                    if kind != "UC":
                        line += f" | read {rooms(send)} | atomic 8:{send or '-'}"
                    yield line


class Scatter(unittest.TestCase):
    maxDiff = None

    def test_flags_decide(self):
        self.assertEqual(run(lanes.UMLX5), list(expected()))

    def test_flags_decide_for_the_stock_library(self):
        # libmlx5 44.0 takes what ibv_poll_cq() finds in the 64 bytes from one byte too early (cq.c, "cqe - 1" of a void
        # pointer), so data of a read in a CQE of 128 bytes is lost there.
        lines = run(lanes.STOCK)
        self.assertEqual([line.replace(" LOST", "") for line in lines], list(expected()))
        self.assertTrue(all("cqe 128" in line and "LOST" not in line.split("|")[1] for line in lines if "LOST" in line))

    def test_the_variable_turns_it_off(self):
        for lane in (lanes.STOCK, lanes.UMLX5):
            for line in run(lane, MLX5_SCATTER_TO_CQE="0"):
                if " flags allow " not in line:
                    self.assertNotRegex(line, r":(32|64)\b", lane)


if __name__ == "__main__":
    cases.main()
