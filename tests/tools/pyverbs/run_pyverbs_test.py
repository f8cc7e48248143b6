#!/usr/bin/python3
"""What `umlx5 pyverbs` tells of cases that pass, fail, are skipped, hang and crash; the tests it runs are ours here."""

import gzip
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, "tests/tools/cases")
import cases  # noqa: E402

ARGS_PARSER = """
import sys
class Parser:
    def parse_args(self):
        self.args = sys.argv[1:]
        del sys.argv[1:]
parser = Parser()
"""
MIXED = """
import os, time, unittest
from args_parser import parser
class Mixed(unittest.TestCase):
    def test_a_passes(self):
        self.assertEqual(parser.args[:2], ["--dev", "mlx5_0"])
        self.assertIn("preloaded", os.environ["LD_PRELOAD"])
    def test_b_fails(self):
        self.assertEqual(1, 2)
    def test_c_is_skipped(self):
        self.skipTest("no such | thing")
    def test_d_crashes(self):
        os.abort()
    def test_e_hangs(self):
        time.sleep(60)
    def test_f_breaks(self):
        raise OSError("broken")
    def test_g_still_passes(self):
        pass
class NotSetUp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise unittest.SkipTest("no card")
    def test_x(self):
        pass
"""
GOOD = """
import unittest
class Good(unittest.TestCase):
    def test_it(self):
        pass
"""
# Cases that want different devices.
CRYPTO = """
import json, os, unittest
plain = os.environ.get("UMLX5_SOFT_CAPS") != "xrc=0,plain_keys=0"
class Crypto(unittest.TestCase):
    def test_plain(self):
        if not plain:
            self.skipTest("keys come wrapped")
        self.assertEqual(os.environ.get("UMLX5_SOFT_CAPS"), "xrc=0")
    def test_wrapped(self):
        if plain:
            self.skipTest("keys come plain")
        with open(os.environ["MLX5_CRYPTO_TEST_INFO"]) as file:
            self.assertEqual(len(json.load(file)[0]["credential"]), 6)
    def test_never(self):
        self.skipTest("not here")
    def test_fails_first(self):
        self.assertFalse(plain)
    def test_fails_later(self):
        if plain:
            self.skipTest("keys come plain")
        raise OSError("broken")
"""


class RunPyverbsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.source = os.path.join(self.folder, "source")
        os.mkdir(self.source)
        self.write("__init__.py", "")
        self.write("args_parser.py", ARGS_PARSER)
        self.write("test_good.py", GOOD)
        self.write("test_mixed.py", MIXED, packed=True)
        self.markdown = os.path.join(self.folder, "table.md")

    def write(self, name, text, packed=False):
        path = os.path.join(self.source, name)
        with gzip.open(path + ".gz", "wt") if packed else open(path, "w", encoding="utf-8") as out:
            out.write(text)

    def run_pyverbs(self, *arguments, **variables):
        return subprocess.run(
            ["/usr/bin/python3", "tools/pyverbs/run_pyverbs.py", "--source", self.source, "--preload", "/preloaded.so",
             "--seconds", "2", "--markdown", self.markdown, "--json", os.path.join(self.folder, "out.json"), *arguments],
            env=dict(os.environ, **variables), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100,
            check=False)

    def outcomes(self, module):
        with open(os.path.join(self.folder, "out.json"), encoding="utf-8") as file:
            modules = json.load(file)["modules"]
        return {case: (told["outcome"], told["text"].strip().splitlines()[-1:]) for case, told in modules[module].items()}

    def test_every_outcome_is_told(self):
        done = self.run_pyverbs()
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(done.stdout.splitlines()[-2:], ["2 skipped", "3 passed, 4 failed"])
        self.assertEqual(self.outcomes("test_good"), {"Good.test_it": ("passed", [])})
        self.assertEqual(self.outcomes("test_mixed"), {
            "Mixed.test_a_passes": ("passed", []),
            "Mixed.test_b_fails": ("failed", ["AssertionError: 1 != 2"]),
            "Mixed.test_c_is_skipped": ("skipped", ["no such | thing"]),
            "Mixed.test_d_crashes": ("failed", ["ended the process by signal 6"]),
            "Mixed.test_e_hangs": ("failed", ["took more than 2.0 s"]),
            "Mixed.test_f_breaks": ("failed", ["OSError: broken"]),
            "Mixed.test_g_still_passes": ("passed", []),
            "setUpClass (tests.test_mixed.NotSetUp)": ("skipped", ["no card"])})

    def test_a_case_counts_on_the_device_that_it_is_for(self):
        self.write("test_mlx5_crypto.py", CRYPTO)
        done = self.run_pyverbs("mlx5_crypto", UMLX5_SOFT_CAPS="xrc=0")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(self.outcomes("test_mlx5_crypto"), {
            "Crypto.test_plain": ("passed", []),
            "Crypto.test_wrapped": ("passed", []),
            "Crypto.test_never": ("skipped", ["not here"]),
            "Crypto.test_fails_first": ("failed", ["AssertionError: True is not false"]),
            "Crypto.test_fails_later": ("failed", ["OSError: broken"])})

    def test_the_table_keeps_both_drivers(self):
        self.assertEqual(self.run_pyverbs("--driver", "umlx5", "good").returncode, 0)
        self.run_pyverbs("--driver", "stock", "mixed")
        self.assertEqual(self.run_pyverbs("--driver", "umlx5", "test_good").returncode, 0)
        with open(self.markdown, encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(text.count("## Driver stock"), 1)
        self.assertEqual(text.count("## Driver umlx5"), 1)
        self.assertIn("| test_mixed | 2 | 4 | 2 |", text)
        self.assertIn("| test_good | 1 | 0 | 0 |", text)
        self.assertIn("| no such \\| thing | mixed: Mixed.test_c_is_skipped |", text)

    def test_a_module_that_is_not_there_is_refused(self):
        done = self.run_pyverbs("gone")
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no test module gone; there are good, mixed", done.stdout)


if __name__ == "__main__":
    cases.main()
