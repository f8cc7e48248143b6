"""How tests load a library of ours into programs that are not ours."""

import os
import re
import subprocess


def preload_of(library):
    """The value of LD_PRELOAD: a library built with a sanitizer needs the sanitizer's runtime loaded before it."""
    library = os.path.abspath(library)
    needed = subprocess.run(["ldd", library], stdout=subprocess.PIPE, text=True, check=True).stdout
    return ":".join(re.findall(r"=> (/\S*/lib[atu]+san\.so\S*)", needed) + [library])


def environment_with(library):
    """The environment for such programs, which need not be free of leaks themselves."""
    return dict(os.environ, LD_PRELOAD=preload_of(library), LC_ALL="C", ASAN_OPTIONS="detect_leaks=0")
