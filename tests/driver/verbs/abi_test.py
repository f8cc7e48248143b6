#!/usr/bin/python3
"""abidiff finds nothing removed or changed from Debian's libraries to ours."""
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = ["tests/tools/cases", "tests/driver/verbs"]
import cases  # noqa: E402
import lanes  # noqa: E402

STOCK = "/usr/lib/x86_64-linux-gnu"
TIME_LIMIT_S = 240


def abidiff(old, new):
    done = subprocess.run(["abidiff", "--no-added-syms", old, new], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=TIME_LIMIT_S)
    return done.returncode, done.stdout


class Abi(unittest.TestCase):
    def test_nothing_removed_or_changed(self):
        for name in ("libibverbs.so.1", "libmlx5.so.1", "libefa.so.1"):
            with self.subTest(name):
                code, text = abidiff(f"{STOCK}/{name}", f"{lanes.LIBRARIES}/{name}")
                self.assertEqual(code, 0, text)

    def test_abidiff_sees_a_difference(self):
        """So that the above can fail."""
        code, text = abidiff(f"{STOCK}/libibverbs.so.1", f"{lanes.LIBRARIES}/libmlx5.so.1")
        self.assertNotEqual(code, 0)
        self.assertIn("Removed", text)


if __name__ == "__main__":
    cases.main()
