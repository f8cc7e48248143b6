#!/usr/bin/env python3
"""tools/setup.sh with stand-ins for dpkg-query, id, sudo and apt-get: nothing is installed."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, "tests/tools/cases")
import cases  # noqa: E402

SETUP = os.path.abspath("tools/setup.sh")


class SetupTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        for tool in ("bash", "env", "grep", "mktemp", "rm", "sed", "tail"):
            os.symlink(shutil.which(tool), os.path.join(self.folder, tool))
        self.stand_in("id", "echo 0")
        self.log = os.path.join(self.folder, "log")

    def stand_in(self, name, script):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/bash\n{script}\n")
        os.chmod(path, 0o755)

    def installed(self, *missing):
        skip = "|".join(missing) or "-"
        self.stand_in("dpkg-query", 'for p in "${@:4}"; do case $p in ' + skip + ') ;; *) echo "installed $p";; esac; done')

    def run_setup(self, *arguments):
        return subprocess.run([SETUP, *arguments], env={"PATH": self.folder}, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=60, check=False)

    def logged(self):
        with open(self.log, encoding="utf-8") as file:
            return file.read()

    def test_nothing_is_missing(self):
        self.installed()
        done = self.run_setup("test")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"^setup: all \d+ packages are installed\n$")
        done = self.run_setup("--quiet", "run")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_only_what_is_missing_is_installed(self):
        self.installed("g++", "libfmt-dev")
        self.stand_in("apt-get", f'echo "$@" >>{self.log}')
        done = self.run_setup("run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.logged(), "-q install -y --no-install-recommends g++ libfmt-dev\n")
        self.assertIn("installing 2 Debian packages: g++ libfmt-dev", done.stderr)

    def test_the_lists_are_fetched_if_installing_fails_without(self):
        self.installed("libfmt-dev")
        self.stand_in("apt-get", f'echo "$2" >>{self.log}; [[ $2 == update || $(grep -c . {self.log}) -gt 1 ]]')
        done = self.run_setup("run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.logged(), "install\nupdate\ninstall\n")

    def test_a_failure_shows_what_apt_said(self):
        self.installed("libfmt-dev")
        self.stand_in("apt-get", "echo 'E: no network'; exit 100")
        done = self.run_setup("run")
        self.assertEqual(done.returncode, 1)
        self.assertIn("E: no network", done.stderr)

    def test_without_root_and_sudo_the_command_is_told(self):
        self.installed("libfmt-dev")
        self.stand_in("id", "echo 1000")
        done = self.run_setup("run")
        self.assertEqual(done.returncode, 1)
        self.assertIn("installing them takes root", done.stderr)
        self.assertIn("apt-get install libfmt-dev", done.stderr)

    def test_with_sudo(self):
        self.installed("libfmt-dev")
        self.stand_in("id", "echo 1000")
        self.stand_in("sudo", f'echo sudo >>{self.log}; exec "$@"')
        self.stand_in("apt-get", f'echo "$2" >>{self.log}')
        self.assertEqual(self.run_setup("run").returncode, 0)
        self.assertEqual(self.logged(), "sudo\ninstall\n")


if __name__ == "__main__":
    cases.main()
