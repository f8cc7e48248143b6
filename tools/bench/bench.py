#!/usr/bin/python3
"""What posting and polling cost: umlx5 (its libibverbs and libmlx5, and its native API) beside Debian's libraries, in
turns in one run, on a software device.

Times depend on the machine and on what else it does: quote the ratio. Instructions (--instructions, counted by valgrind)
do not. Everything is plain memory here: neither says anything about PCIe, write combining or a real adapter."""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections import namedtuple
from html import escape

STOCK, UMLX5, NATIVE = "stock", "umlx5", "native"
LANES = (STOCK, UMLX5, NATIVE)
INSTRUCTIONS, REPETITIONS = 1024, 2
NOTE = "plain memory on a software device: this says nothing about PCIe, write combining or a real adapter"

# Goals are of the C ABI and of the native API: instructions, and a share of the stock library's time.
Case = namedtuple("Case", "name title goals share", defaults=({}, {}))
CASES = [
    Case("post_send", "RDMA write, 1 SGE, doorbell each", {UMLX5: 120, NATIVE: 50}, {UMLX5: 0.48, NATIVE: 0.27}),
    Case("post_send_inline", "the same, 32 bytes inline", {UMLX5: 130, NATIVE: 60}, {UMLX5: 0.43, NATIVE: 0.24}),
    Case("post_send_list", "in lists of 32, each", {UMLX5: 80, NATIVE: 30}, {UMLX5: 0.47, NATIVE: 0.26}),
    Case("wr_steps", "ibv_wr_start, rdma_write, set_sge, complete"),
    Case("template", "from a template, doorbell each", {NATIVE: 50}),
    Case("template_list", "from a template, in lists of 32, each", {NATIVE: 30}),
    Case("post_recv", "receive, 1 SGE", {UMLX5: 50, NATIVE: 25}, {UMLX5: 0.42, NATIVE: 0.24}),
    Case("poll_cq", "poll, 32 at a time, each", {UMLX5: 45, NATIVE: 25}, {UMLX5: 0.34, NATIVE: 0.24}),
    Case("start_poll", "start_poll, next_poll, read_opcode, each", {UMLX5: 60}, {UMLX5: 0.43}),
    Case("two_threads", "2 threads post to one QP, for each post"),
    Case("cold", "16 writes, nothing in the caches, each"),
    Case("many_qps", "256 QPs in turn, a write each"),
    Case("many_qps_list", "256 QPs in turn, lists of 32, each"),
]


def progress(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def command_of(options, lane):
    return [options.native if lane == NATIVE else options.program]


def environment(options, lane):
    result = dict(os.environ, LC_ALL="C")
    result.pop("LD_LIBRARY_PATH", None)
    if lane != NATIVE:
        result["LD_PRELOAD"] = options.preload
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


def times(options, folder):
    """Nanoseconds for one operation of each lane and case: the fastest of all rounds."""
    best = {lane: {} for lane in LANES}
    for number in range(options.rounds):
        for lane in LANES:
            progress(f"round {number + 1} of {options.rounds}: {lane}")
            command = command_of(options, lane) + ["--benchmark_format=json", f"--benchmark_repetitions={REPETITIONS}"]
            for entry in json.loads(run(options, lane, command, folder))["benchmarks"]:
                if entry["run_type"] == "iteration":
                    case, took = entry["name"].split("/")[0], 1e9 / entry["items_per_second"]
                    best[lane][case] = min(best[lane].get(case, took), took)
    return best


def instructions(options, folder):
    """Instructions of one operation of each lane and case, the loop around the calls included."""
    counts = {lane: {} for lane in LANES}
    for lane in LANES:
        progress(f"counting: {lane}")
        run(options, lane, ["valgrind", "--tool=callgrind", "--separate-threads=yes",
                            f"--callgrind-out-file={folder}/{lane}", *command_of(options, lane), "--instructions",
                            str(INSTRUCTIONS)], folder)
        for name in os.listdir(folder):
            if name.startswith(f"{lane}.") and name.endswith("-01"):  # the dumps of the program's first thread
                with open(f"{folder}/{name}", encoding="utf-8") as file:
                    text = file.read()
                if trigger := re.search(r"^desc: Trigger: Client Request: (\S+)", text, re.M):
                    counts[lane][trigger[1]] = int(re.search(r"^summary: (\d+)", text, re.M)[1]) / INSTRUCTIONS
    return counts


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = re.search(r"^model name\s*: (.*)", file.read(), re.M)
    return f"{model[1] if model else platform.machine()}, {os.cpu_count()} CPUs, Linux {platform.release()}"


def rows(unit, results):
    """What was measured of each case, as it is printed, drawn and given as JSON."""
    for case in CASES:
        row = {"case": case.name, "title": case.title}
        stock = results[STOCK].get(case.name)
        for lane in LANES:
            value = results[lane].get(case.name)
            if value is None:
                continue
            row[lane] = round(value, 2)
            if lane != STOCK:
                goal = case.goals.get(lane) if unit == "instructions" else case.share.get(lane)
                if stock is not None:
                    row["ratio" if lane == UMLX5 else "native_ratio"] = round(value / stock, 3)
                if goal is not None:
                    row[f"{lane}_goal"] = goal
        if len(row) > 2:
            yield row


def table(unit, measured):
    goals = "goal" if unit == "instructions" else "(goal)"
    lines = [f"{'':46}{'stock':>8}{'umlx5':>9}{'ratio':>7}{goals:>8}{'native':>9}{'ratio':>7}{goals:>8}   ({unit})"]

    def cell(row, key, form):
        return format(row[key], form) if key in row else format("-", ">" + form.split(".")[0])

    for row in measured:
        form = "8.0f" if unit == "instructions" else "8.2f"
        lines.append(f"{row['title']:46}" + cell(row, STOCK, "8.1f") + cell(row, UMLX5, "9.1f") +
                     cell(row, "ratio", "7.2f") + cell(row, "umlx5_goal", form) + cell(row, NATIVE, "9.1f") +
                     cell(row, "native_ratio", "7.2f") + cell(row, "native_goal", form))
    return "\n".join(lines)


def picture(unit, measured):
    """Bars, the longest of each case as wide as the picture: cases differ more than lanes do."""
    left, width, bar, gap, top = 300, 420, 13, 12, 64
    colours = {STOCK: "#8a8f98", UMLX5: "#2f6fb0", NATIVE: "#2a9d6f"}
    parts, y = [], top
    for row in measured:
        lanes = [lane for lane in LANES if lane in row]
        longest = max(row[lane] for lane in lanes)
        parts.append(f'<text x="{left - 10}" y="{y + bar * len(lanes) / 2 + 4}" text-anchor="end">{escape(row["title"])}'
                     "</text>")
        for lane in lanes:
            length = max(1, row[lane] / longest * width)
            parts.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{bar - 2}" fill="{colours[lane]}"/>')
            parts.append(f'<text x="{left + length + 5:.1f}" y="{y + bar - 4}" class="value">{row[lane]:.1f}</text>')
            y += bar
        y += gap
    legend = "".join(f'<rect x="{left + 90 * i}" y="40" width="11" height="11" fill="{colours[lane]}"/>'
                     f'<text x="{left + 90 * i + 16}" y="50">{lane}</text>' for i, lane in enumerate(LANES))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 70}" height="{y + 40}" '
            'font-family="sans-serif" font-size="12"><style>.value{font-size:10px;fill:#444}</style>'
            '<rect width="100%" height="100%" fill="white"/>'
            f'<text x="10" y="22" font-size="15">What an operation costs, in {escape(unit)}</text>{legend}'
            + "\n".join(parts) +
            f'<text x="10" y="{y + 10}" class="value">{escape(machine())}</text>'
            f'<text x="10" y="{y + 25}" class="value">{escape(NOTE)}</text></svg>\n')


def main():
    parser = argparse.ArgumentParser(prog="umlx5 bench", description=__doc__)
    parser.add_argument("--instructions", action="store_true", help="count instructions instead of time")
    parser.add_argument("--rounds", type=int, default=4, choices=range(1, 101), metavar="N",
                        help="how often the three take turns (4)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--svg", metavar="FILE", help="draw it, too")
    for path in ("program", "native", "preload", "libraries"):
        parser.add_argument(f"--{path}", required=True, type=os.path.abspath, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.svg is not None and not os.access(os.path.dirname(os.path.abspath(options.svg)), os.W_OK):
        parser.error(f"--svg: {options.svg} cannot be written")
    unit = "instructions" if options.instructions else "ns"
    with tempfile.TemporaryDirectory() as folder:
        results = (instructions if options.instructions else times)(options, folder)
    measured = list(rows(unit, results))
    if options.svg is not None:
        with open(options.svg, "w", encoding="utf-8") as file:
            file.write(picture(unit, measured))
    if options.json:
        print(json.dumps({"unit": unit, "note": NOTE, "machine": machine(), "cases": measured}, indent=2))
    else:
        print(table(unit, measured))
        print(f"{machine()}\n{NOTE}")


if __name__ == "__main__":
    main()
