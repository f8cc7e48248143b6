"""How tests run programs that are not ours, with a library of ours loaded into them."""

import os
import re
import socket
import subprocess
import time
import unittest


def preload_of(library):
    """The value of LD_PRELOAD: a library built with a sanitizer needs the sanitizer's runtime loaded before it.

    Skips the test under ThreadSanitizer, whose runtime wraps a program's mmap() and munmap() too: it takes the mapping of
    a UAR page for a write of that page, which the device's thread reads, and reports a race that is none."""
    library = os.path.abspath(library)
    needed = subprocess.run(["ldd", library], stdout=subprocess.PIPE, text=True, check=True).stdout
    runtimes = re.findall(r"=> (/\S*/lib[atu]+san\.so\S*)", needed)
    if any("libtsan" in runtime for runtime in runtimes):
        raise unittest.SkipTest("ThreadSanitizer takes the mapping of a UAR page for a write of it")
    return ":".join(runtimes + [library])


def environment_with(library):
    """The environment for such programs, which need not be free of leaks themselves."""
    return dict(os.environ, LD_PRELOAD=preload_of(library), LC_ALL="C", ASAN_OPTIONS="detect_leaks=0")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_listening(port, server, seconds=60):
    """The programs tell nobody when they listen; /proc does."""
    end = time.monotonic() + seconds
    wanted = f":{port:04X} "
    while time.monotonic() < end and server.poll() is None:
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            with open(table) as lines:
                if any(wanted in line and " 0A " in line for line in lines):
                    return
        time.sleep(0.02)
    raise AssertionError(f"the server does not listen on {port}")
