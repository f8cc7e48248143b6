#!/usr/bin/python3
"""Posts the same random work requests, and changes memory keys in the same random ways, through Debian's libibverbs and
libmlx5 and through umlx5's, on a software device, and compares what they wrote: WQEs, doorbell records, BlueFlame
copies, return values and completions. Differences that are meant are in docs/stock_differences.md."""

import argparse
import os
import subprocess
import sys
import tempfile

STOCK, UMLX5 = "stock", "umlx5"


def environment(options, lane):
    result = dict(os.environ, LD_PRELOAD=options.preload, LC_ALL="C")
    result.pop("LD_LIBRARY_PATH", None)
    if lane == UMLX5:
        result["LD_LIBRARY_PATH"] = options.libraries
    return result


def run(options, program, lane, first, count, show=False):
    """The lines of one run."""
    command = [program, "--first", str(first), "--sequences", str(count)]
    command += ["--stock"] * (lane == STOCK) + ["--show"] * show
    with tempfile.TemporaryFile("w+") as errors:
        done = subprocess.run(command, env=environment(options, lane), stdout=subprocess.PIPE, stderr=errors, text=True,
                              timeout=options.time_limit)
        if done.returncode != 0:
            errors.seek(0)
            sys.exit(f"{lane}: {os.path.basename(program)} ended with {done.returncode} after\n{done.stdout[-300:]}{errors.read()[-2000:]}")
    return done.stdout.splitlines()


def show_difference(options, program, seed):
    stock, umlx5 = (run(options, program, lane, seed, 1, show=True) for lane in (STOCK, UMLX5))
    print(f"sequence {seed}, where the two part:")
    for at, (left, right) in enumerate(zip(stock, umlx5)):
        if left != right:
            for line in stock[max(0, at - 3):at]:
                print(f"           {line}")
            print(f"    stock: {left}\n    umlx5: {right}")
            return


def compare(options, program):
    """How many sequences of a program differ."""
    stock, umlx5 = (run(options, program, lane, options.first, options.sequences) for lane in (STOCK, UMLX5))
    if len(stock) != options.sequences or len(umlx5) != options.sequences:
        sys.exit(f"{len(stock)} and {len(umlx5)} sequences ran, not {options.sequences}")
    different = [int(left.split()[0]) for left, right in zip(stock, umlx5) if left != right]
    kinds = {}
    for line in stock:
        kind = line.split()[1].rstrip(":") + (" (not on this device)" if "has none" in line else "")
        kinds[kind] = kinds.get(kind, 0) + 1
    print(f"{os.path.basename(program)}, {len(stock)} sequences: "
          + ", ".join(f"{kinds[kind]} {kind}" for kind in sorted(kinds)))
    print(f"{len(different)} differ" + (f", the first of them {different[:5]}" if different else ""), flush=True)
    for seed in different[:2]:
        show_difference(options, program, seed)
    return len(different)


def main():
    parser = argparse.ArgumentParser(prog="umlx5 compare-bytes", description=__doc__)
    parser.add_argument("--sequences", type=int, default=10000, help="how many of each program (10000)")
    parser.add_argument("--first", type=int, default=0, help="seed of the first one (0)")
    parser.add_argument("--time-limit", type=int, default=3600, help="seconds for either run (3600)")
    parser.add_argument("--program", required=True, action="append", type=os.path.abspath, help=argparse.SUPPRESS)
    for path in ("preload", "libraries"):
        parser.add_argument(f"--{path}", required=True, type=os.path.abspath, help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.exit(1 if sum(compare(options, program) for program in options.program) else 0)


if __name__ == "__main__":
    main()
