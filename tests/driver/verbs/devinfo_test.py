#!/usr/bin/python3
"""ibv_devinfo prints of our libibverbs what it prints of Debian's, on the same soft devices."""
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = ["tests/tools/cases", "tests/driver/verbs"]
import cases  # noqa: E402
import lanes  # noqa: E402

TIME_LIMIT_S = 60


def devinfo(lane, *arguments, **variables):
    done = subprocess.run(["ibv_devinfo", *arguments], env=lanes.environment(lane, **variables), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIME_LIMIT_S)
    return done.returncode, done.stdout


class Devinfo(unittest.TestCase):
    maxDiff = None

    def test_same_as_stock(self):
        for devices, *arguments in ((1, "-v"), (2, "-l"), (1, "-d", "mlx5_0", "-i", "1"), (2, "-d", "absent")):
            with self.subTest(arguments):
                variables = {"UMLX5_SOFT_ADDR": lanes.loopback_address(), "UMLX5_SOFT_DEVICES": str(devices)}
                stock = devinfo(lanes.STOCK, *arguments, **variables)
                ours = devinfo(lanes.UMLX5, *arguments, **variables)
                self.assertEqual(ours, stock)

    def test_is_about_the_soft_device(self):
        code, text = devinfo(lanes.UMLX5, "-v", UMLX5_LOG="info")
        self.assertEqual(code, 0)
        for line in ("hca_id:\tmlx5_0", "vendor_part_id:\t\t\t4125", "PORT_ACTIVE", "RoCE v2", "link_layer:\t\tEthernet"):
            self.assertIn(line, text)

    def test_no_device(self):
        variables = {"SYSFS_PATH": "/nonexistent"}
        self.assertEqual(devinfo(lanes.UMLX5, **variables), devinfo(lanes.STOCK, **variables))


class Libraries(unittest.TestCase):
    def test_ours_are_loaded(self):
        done = subprocess.run(["ldd", "/usr/bin/ibv_devinfo"], env=lanes.environment(lanes.UMLX5), text=True,
                              stdout=subprocess.PIPE, timeout=TIME_LIMIT_S, check=True)
        self.assertIn(f"libibverbs.so.1 => {lanes.LIBRARIES}/libibverbs.so.1", done.stdout)


if __name__ == "__main__":
    cases.main()
