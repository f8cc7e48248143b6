#!/usr/bin/env python3
"""Builds the fuzz targets (//tests/...:*_fuzz) with --config=fuzz and runs each for a while.

A target starts from its package's corpus/. What it finds is kept in .cache/fuzz/NAME, so that the next run goes on from
there; an input that fails is kept beside it and named.
"""

import argparse
import os
import subprocess
import sys

from bazel import TOP, choose, fail, query


def run(label, seconds):
    """True if the target found nothing."""
    package, name = label[2:].split(":")
    corpus = os.path.join(TOP, ".cache", "fuzz", package.replace("/", "_") + "_" + name)
    os.makedirs(corpus, exist_ok=True)
    print(f"== {label}, {seconds} s", flush=True)
    # A loaded machine may take seconds for what takes milliseconds: only what really hangs is to be found.
    command = [os.path.join(TOP, "bazel-bin", package, name), f"-max_total_time={seconds}", "-timeout=60",
               "-print_final_stats=1", f"-artifact_prefix={corpus}-", corpus]
    if os.path.isdir(seeds := os.path.join(TOP, package, "corpus")):
        command.append(seeds)
    try:
        done = subprocess.run(command, cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=seconds + 120, check=False)
    except subprocess.TimeoutExpired:
        print(f"   does not end {120} s after its time")
        return False
    lines = done.stdout.splitlines()
    if done.returncode != 0:
        print("\n".join(lines[-60:]))
        print(f"   FAILED, exit code {done.returncode}")
        return False
    runs = [line.split()[-1] for line in lines if "number_of_executed_units" in line]
    print(f"   nothing found in {runs[0] if runs else '?'} runs", flush=True)
    return True


def main():
    parser = argparse.ArgumentParser(prog="umlx5 fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="time for each target (60)")
    parser.add_argument("target", nargs="*", help="a part of a target's name; none: all targets")
    options, flags = parser.parse_known_args()
    labels = query('filter("_fuzz$", //tests/...)')
    if labels is None:
        return 1
    labels = choose(labels, options.target)
    if not labels:
        fail("no fuzz target" + (f" has {' or '.join(options.target)} in its name" if options.target else ""))
    if subprocess.run(["bazel", "build", "--config=fuzz", *flags, *labels], cwd=TOP, check=False).returncode != 0:
        fail("the fuzz targets do not build; the errors are above")
    found = [label for label in labels if not run(label, options.seconds)]
    for label in found:
        print(f"failed: {label}")
    print(f"{len(labels) - len(found)} passed, {len(found)} failed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
