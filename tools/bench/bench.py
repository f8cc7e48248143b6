#!/usr/bin/python3
"""What posting and polling cost: umlx5's libibverbs and libmlx5 beside Debian's, in one run, on a software device.

Times depend on the machine and on what else it does: quote the ratio. Instructions (--instructions, counted by valgrind)
do not. Everything is plain memory here: neither says anything about PCIe, write combining or a real adapter."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

STOCK, UMLX5 = "stock", "umlx5"
INSTRUCTIONS, REPETITIONS = 1024, 7
CASES = {
    "post_send": "ibv_post_send, RDMA write, 1 SGE, doorbell each",
    "post_send_inline": "the same, 32 bytes inline",
    "post_send_list": "the same in lists of 32, for each request",
    "wr_steps": "ibv_wr_start, rdma_write, set_sge, complete",
    "post_recv": "ibv_post_recv, 1 SGE",
    "poll_cq": "ibv_poll_cq, 32 at a time, for each completion",
    "start_poll": "ibv_start_poll, next_poll, read_opcode, for each",
}


def environment(options, lane):
    result = dict(os.environ, LD_PRELOAD=options.preload, LC_ALL="C")
    result.pop("LD_LIBRARY_PATH", None)
    if lane == UMLX5:
        result["LD_LIBRARY_PATH"] = options.libraries
    return result


def run(options, lane, command, folder):
    with open(f"{folder}/errors", "w+", encoding="utf-8") as errors:
        done = subprocess.run(command, env=environment(options, lane), stdout=subprocess.PIPE, stderr=errors, text=True,
                              timeout=300)
        if done.returncode != 0:
            errors.seek(0)
            sys.exit(f"bench: {lane} ended with {done.returncode}:\n{errors.read()[-2000:]}")
    return done.stdout


def times(options, lane, folder):
    """Nanoseconds for one operation of each case: the fastest of the repetitions."""
    text = run(options, lane, [options.program, "--benchmark_format=json", f"--benchmark_repetitions={REPETITIONS}"],
               folder)
    best = {}
    for entry in json.loads(text)["benchmarks"]:
        if entry["run_type"] == "iteration":
            case = entry["name"].split("/")[0]
            best[case] = min(best.get(case, float("inf")), 1e9 / entry["items_per_second"])
    return best


def instructions(options, lane, folder):
    """Instructions of one operation of each case, the loop around the calls included."""
    out = f"{folder}/{lane}"
    run(options, lane, ["valgrind", "--tool=callgrind", "--separate-threads=yes", f"--callgrind-out-file={out}",
                        options.program, "--instructions", str(INSTRUCTIONS)], folder)
    counts = {}
    for name in os.listdir(folder):
        if name.startswith(f"{lane}.") and name.endswith("-01"):  # the dumps of the program's first thread
            with open(f"{folder}/{name}", encoding="utf-8") as file:
                text = file.read()
            if trigger := re.search(r"^desc: Trigger: Client Request: (\S+)", text, re.M):
                counts[trigger[1]] = int(re.search(r"^summary: (\d+)", text, re.M)[1]) / INSTRUCTIONS
    return counts


def table(unit, stock, umlx5):
    lines = [f"{'':52}{'stock':>9}{'umlx5':>9}{'ratio':>8}   ({unit})"]
    for case, title in CASES.items():
        lines.append(f"{title:52}{stock[case]:9.1f}{umlx5[case]:9.1f}{umlx5[case] / stock[case]:8.2f}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(prog="umlx5 bench", description=__doc__)
    parser.add_argument("--instructions", action="store_true", help="count instructions instead of time")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    for path in ("program", "preload", "libraries"):
        parser.add_argument(f"--{path}", required=True, type=os.path.abspath, help=argparse.SUPPRESS)
    options = parser.parse_args()
    measure = instructions if options.instructions else times
    unit = "instructions" if options.instructions else "ns"
    with tempfile.TemporaryDirectory() as folder:
        results = {lane: measure(options, lane, folder) for lane in (STOCK, UMLX5)}
    for lane, values in results.items():
        if missing := set(CASES) - set(values):
            sys.exit(f"bench: {lane} measured nothing for {', '.join(sorted(missing))}")
    note = "plain memory on a software device: this says nothing about PCIe, write combining or a real adapter"
    if options.json:
        cases = [{"case": case, "title": title, "stock": round(results[STOCK][case], 2),
                  "umlx5": round(results[UMLX5][case], 2),
                  "ratio": round(results[UMLX5][case] / results[STOCK][case], 3)} for case, title in CASES.items()]
        print(json.dumps({"unit": unit, "note": note, "cases": cases}, indent=2))
    else:
        print(table(unit, results[STOCK], results[UMLX5]))
        print(note)


if __name__ == "__main__":
    main()
