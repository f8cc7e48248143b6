#!/usr/bin/python3
"""What the program says of a device of the kernel's whose node it may not open.

The test runs itself again in user, mount and network namespaces of its own: there it can put such a device into /sys and
/dev, as the kernel shows one."""

import os
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, "tests/tools/cases")
import cases  # noqa: E402

PROGRAM = os.path.abspath("tools/cli/umlx5")
INSIDE = "UMLX5_TEST_INSIDE_NAMESPACE"
UNSHARE = ["unshare", "--user", "--map-root-user", "--mount", "--net"]
# The capabilities go, so that a file's mode counts for root too.
WITHOUT_CAPABILITIES = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
TIME_LIMIT_S = 60

DEVICE = """
set -e
mount -t tmpfs tmpfs /mnt
touch /mnt/null /mnt/urandom
mount --bind /dev/null /mnt/null
mount --bind /dev/urandom /mnt/urandom
mkdir /mnt/infiniband
touch /mnt/infiniband/uverbs0
chmod 0600 /mnt/infiniband/uverbs0
mount --rbind /mnt /dev
mount -t tmpfs tmpfs /sys
node=/sys/class/infiniband_verbs/uverbs0
mkdir -p $node/device /sys/class/infiniband/mlx5_7
echo mlx5_7 >$node/ibdev
echo 1 >$node/abi_version
echo 0x15b3 >$node/device/vendor
echo 0x101d >$node/device/device
"""


def why_not():
    """Why this machine lets nobody make namespaces and mounts, None if it does."""
    done = subprocess.run([*UNSHARE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=TIME_LIMIT_S, check=False)
    return None if done.returncode == 0 else f"user and mount namespaces are not permitted here: {done.stdout.strip()}"


def umlx5(*arguments):
    return subprocess.run([*WITHOUT_CAPABILITIES, PROGRAM, *arguments], env=dict(os.environ, UMLX5_SOFT_DEVICES="0"),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=TIME_LIMIT_S, check=False)


class NoPermission(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        subprocess.run(["sh", "-c", DEVICE], check=True, timeout=TIME_LIMIT_S)

    def refused(self, mode, *arguments):
        os.chmod("/dev/infiniband/uverbs0", mode)
        done = umlx5(*arguments)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("open /dev/infiniband/uverbs0: ", done.stderr)
        self.assertIn("EACCES", done.stderr)
        return done.stderr

    def test_the_device_is_listed_all_the_same(self):
        done = umlx5("devinfo", "--list")
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("mlx5_7", done.stdout)

    def test_devinfo_names_the_node_its_mode_and_the_user(self):
        self.assertIn("user 0 may not read and write it; its mode is 0000, owner 0, group 0", self.refused(0, "devinfo"))

    def test_a_node_that_may_only_be_read_is_refused(self):
        self.assertIn("its mode is 0444", self.refused(0o444, "devinfo", "--device", "mlx5_7"))

    def test_lat(self):
        self.assertIn("its mode is 0000", self.refused(0, "lat", "--device", "mlx5_7", "--iters", "10"))


if __name__ == "__main__":
    if INSIDE not in os.environ:
        REASON = why_not()
        if REASON is None:
            os.execvpe(UNSHARE[0], [*UNSHARE, sys.executable, *sys.argv], dict(os.environ, **{INSIDE: "1"}))
        NoPermission = unittest.skip(REASON)(NoPermission)
    cases.main()
