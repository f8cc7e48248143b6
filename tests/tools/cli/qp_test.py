#!/usr/bin/env python3
"""`umlx5 qp` on a software device. Sizes are those that stock libmlx5 44 gives with max_sq_desc_sz 1024, which the device
reports; flags are those of mlx5-abi.h."""

import json
import os
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, "tests/tools/cases")
import cases  # noqa: E402

PROGRAM = os.path.abspath("tools/cli/umlx5")
TYPE_DCT, TYPE_DCI, SELF_LOOPBACK_UNICAST, PACKET_CREDIT, DCI_STREAM = 1 << 4, 1 << 5, 1 << 6, 1 << 9, 1 << 11


def run(*arguments):
    return subprocess.run([PROGRAM, "qp", "--device", "soft", *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=120, check=False)


def ask(*arguments):
    done = run("--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class QpTest(unittest.TestCase):
    def test_sizes(self):
        for arguments, wqe_bytes, wqebbs, max_wr, max_inline in (
                (["rc"], 256, 4, 1, 60),
                (["rc", "--send-wr", "10", "--send-sge", "8"], 320, 64, 12, 124),
                (["rc", "--inline", "828"], 1024, 16, 1, 828),
                (["rc", "--ops", "send"], 64, 1, 1, 44),
                (["uc"], 256, 4, 1, 60),
                (["ud"], 128, 2, 1, 60),
                (["raw"], 64, 1, 1, 12),
                (["xrc-send"], 256, 4, 1, 44),
                (["dci"], 256, 4, 1, 12)):
            with self.subTest(arguments):
                answer = ask(*arguments)
                self.assertEqual(answer["send_queue"],
                                 {"wqe_bytes": wqe_bytes, "wqebbs": wqebbs, "ring_bytes": wqebbs * 64})
                self.assertEqual(answer["granted"]["max_send_wr"], max_wr)
                self.assertEqual(answer["granted"]["max_inline_bytes"], max_inline)
                self.assertEqual(answer["kernel"]["sq_wqe_count"], wqebbs)

    def test_receive_queue(self):
        answer = ask("rc", "--recv-wr", "5", "--recv-sge", "3")
        self.assertEqual(answer["receive_queue"], {"wqe_bytes": 64, "wqes": 8, "ring_bytes": 512})
        self.assertEqual((answer["granted"]["max_recv_wr"], answer["granted"]["max_recv_sge"]), (8, 4))
        self.assertEqual((answer["kernel"]["rq_wqe_count"], answer["kernel"]["rq_wqe_shift"]), (8, 6))
        self.assertEqual(ask("rc", "--srq")["receive_queue"], {"wqe_bytes": 0, "wqes": 0, "ring_bytes": 0})

    def test_kernel_flags(self):
        for arguments, flag, name in ((["dct", "--srq"], TYPE_DCT, "TYPE_DCT"),
                                      (["dci"], TYPE_DCI, "TYPE_DCI"),
                                      (["raw", "--flags", "self-loopback-unicast"], SELF_LOOPBACK_UNICAST,
                                       "TIR_ALLOW_SELF_LB_UC"),
                                      (["rc", "--flags", "packet-based-credit"], PACKET_CREDIT,
                                       "PACKET_BASED_CREDIT_MODE"),
                                      (["dci", "--log-streams", "3", "--log-errored-streams", "1"], DCI_STREAM,
                                       "DCI_STREAM")):
            with self.subTest(arguments):
                kernel = ask(*arguments)["kernel"]
                self.assertEqual(kernel["flags"] & flag, flag)
                self.assertIn(name, kernel["flag_names"].split())
                self.assertEqual(ask("rc")["kernel"]["flags"] & flag, 0)
        streams = ask("dci", "--log-streams", "3", "--log-errored-streams", "1")["kernel"]
        self.assertEqual((streams["log_num_concurent"], streams["log_num_errored"]), (3, 1))

    def test_text(self):
        done = run("xrc-recv")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"(?m)^type: +xrc-recv$")

    def test_refusals_in_words(self):
        for arguments, number, words in ((["rc", "--inline", "829"], 22, "829"),
                                         (["rc", "--send-wr", "8193"], 22, "8193"),
                                         (["rc", "--tso-header", "14"], 22, "TSO"),
                                         (["rc", "--flags", "allow-scatter-to-cqe,disable-scatter-to-cqe"], 22,
                                          "scatter")):
            with self.subTest(arguments):
                done = run("--json", *arguments)
                self.assertEqual(done.returncode, 1)
                error = json.loads(done.stdout)["error"]
                self.assertEqual(error["errno"], number)
                self.assertIn(words.lower(), error["text"].lower())
                self.assertEqual(done.stderr, f"umlx5 qp: {error['text']}\n")

    def test_bad_command_lines(self):
        for arguments in (["rd"], ["rc", "--ops", "fly"], ["rc", "--flags", "none"], ["rc", "--send-wr", "-1"]):
            with self.subTest(arguments):
                done = run(*arguments)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertRegex(done.stderr, r"^umlx5 qp: .+\n$")


if __name__ == "__main__":
    cases.main()
