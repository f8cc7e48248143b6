#!/usr/bin/python3
"""Our libraries export every symbol that Debian's export, of the same kind and with the same version."""
import re
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = ["tests/tools/cases", "tests/driver/verbs"]
import cases  # noqa: E402
import lanes  # noqa: E402

STOCK = "/usr/lib/x86_64-linux-gnu"
NAMES = ("libibverbs.so.1", "libmlx5.so.1", "libefa.so.1")


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout


def exported(path):
    """{(name, version, is the default version): kind}"""
    found = {}
    for line in readelf("--dyn-syms", path).splitlines():
        fields = line.split()
        if len(fields) < 8 or not fields[0].endswith(":") or fields[6] in ("UND", "Ndx"):
            continue
        name, at, version = fields[7].partition("@")
        if at and not (fields[6] == "ABS" or name == version.lstrip("@")):
            found[name, version.lstrip("@"), version.startswith("@")] = fields[3]
    return found


def dynamic(path, tag):
    return re.findall(rf"\({tag}\).*\[(\S+)\]", readelf("-d", path))


class Symbols(unittest.TestCase):
    def test_nothing_is_missing(self):
        for name in NAMES:
            with self.subTest(name):
                stock = exported(f"{STOCK}/{name}")
                ours = exported(f"{lanes.LIBRARIES}/{name}")
                self.assertGreater(len(stock), 5)
                missing = [symbol for symbol, kind in stock.items() if ours.get(symbol) != kind]
                self.assertFalse(missing, missing)

    def test_nothing_is_added(self):
        for name in NAMES:
            with self.subTest(name):
                added = set(exported(f"{lanes.LIBRARIES}/{name}")) - set(exported(f"{STOCK}/{name}"))
                self.assertFalse(added, added)

    def test_names(self):
        for name in NAMES:
            with self.subTest(name):
                self.assertEqual(dynamic(f"{lanes.LIBRARIES}/{name}", "SONAME"), [name])

    def test_libmlx5_needs_our_libibverbs(self):
        self.assertIn("libibverbs.so.1", dynamic(f"{lanes.LIBRARIES}/libmlx5.so.1", "NEEDED"))
        self.assertNotIn("libibverbs.so.1", dynamic(f"{lanes.LIBRARIES}/libibverbs.so.1", "NEEDED"))


if __name__ == "__main__":
    cases.main()
