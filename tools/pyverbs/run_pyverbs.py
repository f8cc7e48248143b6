#!/usr/bin/env python3
"""Runs rdma-core's own tests (Debian's python3-pyverbs) on software devices and tells what passed, failed and was
skipped, and why.

The tests come compressed with the package's documentation; they are unpacked to a folder that is removed at the end.
Every module runs in a process of its own; a case that takes too long or ends the process counts as failed, and the
module goes on with the next one.
"""

import argparse
import collections
import gzip
import json
import os
import re
import signal
import shutil
import subprocess
import sys
import tempfile
import time

PYTHON = "/usr/bin/python3"  # the one that python3-pyverbs is for
HERE = os.path.dirname(os.path.abspath(__file__))

# Modules whose cases want different devices, and what UMLX5_SOFT_CAPS takes from each. A case counts with the outcome
# that it has on the first one that does not make it skip.
DEVICES = {"test_mlx5_crypto": ["", "plain_keys=0"]}


def unpack(source, folder):
    """Unpacks the tests into `folder`/tests; the names of the test modules."""
    tests = os.path.join(folder, "tests")
    os.mkdir(tests)
    for name in os.listdir(source):
        path = os.path.join(source, name)
        if name.endswith(".gz"):
            with gzip.open(path) as packed, open(os.path.join(tests, name[:-3]), "wb") as out:
                shutil.copyfileobj(packed, out)
        elif os.path.isfile(path):
            shutil.copy(path, tests)
    return sorted(name[:-3] for name in os.listdir(tests) if re.fullmatch(r"test_\w+\.py", name))


class Results:
    """What a module has told in its file so far."""

    def __init__(self, path):
        self.path = path
        self.read_bytes = 0
        self.outcomes = {}   # case -> (outcome, text); the worst counts
        self.running = None  # the case that has begun and not ended

    def add(self, case, outcome, text):
        if self.outcomes.get(case, ("", ""))[0] != "failed":
            self.outcomes[case] = (outcome, text)

    def read(self):
        """Takes in what is new; true if anything was."""
        with open(self.path, "rb") as file:
            file.seek(self.read_bytes)
            new = file.read()
        new = new[:new.rfind(b"\n") + 1]
        self.read_bytes += len(new)
        for line in new.splitlines():
            entry = json.loads(line)
            if entry["outcome"] == "started":
                self.running = entry["test"]
            else:
                self.running = None
                self.add(entry["test"], entry["outcome"], entry["text"])
        return bool(new)


def watch(process, results, seconds):
    """Waits for the process, or until a case takes longer than `seconds`; says what went wrong, if anything did."""
    last = time.monotonic()
    while process.poll() is None:
        time.sleep(0.05)
        if results.read():
            last = time.monotonic()
        if time.monotonic() - last > seconds:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            results.read()
            return f"took more than {seconds} s"
    results.read()
    if process.returncode < 0:
        return f"ended the process by signal {-process.returncode}"
    return f"ended the process with code {process.returncode}" if process.returncode else None


def run_module(folder, module, environment, seconds):
    """case -> (outcome, text) of one module, on each device that its cases want."""
    outcomes = {}
    for number, without in enumerate(DEVICES.get(module, [""])):
        capabilities = ",".join(filter(None, (environment.get("UMLX5_SOFT_CAPS"), without)))
        device = dict(environment, UMLX5_SOFT_CAPS=capabilities) if capabilities else environment
        for case, outcome in run_on_device(folder, module, f"{module}-{number}", device, seconds).items():
            if outcomes.get(case, ("skipped", ""))[0] == "skipped":
                outcomes[case] = outcome
    return outcomes


def run_on_device(folder, module, name, environment, seconds):
    """case -> (outcome, text) of one module; `name` is that of its files."""
    path = os.path.join(folder, name + ".results")
    log_path = os.path.join(folder, name + ".log")
    open(path, "w", encoding="utf-8").close()
    results = Results(path)
    while True:
        with open(log_path, "ab") as log:
            process = subprocess.Popen(
                [PYTHON, "-B", os.path.join(HERE, "one_module.py"), folder, module, path, *results.outcomes],
                cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
            trouble = watch(process, results, seconds)
        if trouble is None:
            return results.outcomes
        if results.running is None:
            with open(log_path, encoding="utf-8", errors="replace") as log:
                results.add(module, "failed", f"{trouble}: {log.read()[-2000:]}")
            return results.outcomes
        results.add(results.running, "failed", trouble)
        results.running = None


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def counts_of(outcomes):
    return collections.Counter(outcome for outcome, _ in outcomes.values())


def totals_of(modules):
    return sum((counts_of(outcomes) for outcomes in modules.values()), collections.Counter())


def cell(text):
    return text.replace("|", "\\|")


def markdown(driver, modules):
    """The section of one driver."""
    total = totals_of(modules)
    lines = [f"## Driver {driver}", "",
             f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped.", "",
             "| module | passed | failed | skipped |", "|---|---|---|---|"]
    for module, outcomes in modules.items():
        count = counts_of(outcomes)
        lines.append(f"| {module} | {count['passed']} | {count['failed']} | {count['skipped']} |")
    for title, wanted in (("Failed", "failed"), ("Skipped", "skipped")):
        reasons = collections.defaultdict(list)
        for module, outcomes in modules.items():
            for case, (outcome, text) in outcomes.items():
                if outcome == wanted:
                    reasons[last_line(text)].append(f"{module.removeprefix('test_')}: {case}")
        if reasons:
            lines += ["", f"### {title}", "", "| reason | cases |", "|---|---|"]
            lines += [f"| {cell(reason)} | {cell(', '.join(cases))} |" for reason, cases in sorted(reasons.items())]
    return "\n".join(lines) + "\n"


def put_section(path, driver, section):
    """Replaces the driver's section in the file, or adds it."""
    title = "# rdma-core's tests on software devices\n\nWritten by `./umlx5 pyverbs --markdown`.\n\n"
    sections = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for part in re.split(r"^(?=## Driver )", file.read(), flags=re.M)[1:]:
                sections[part.split()[2]] = part.strip() + "\n"
    sections[driver] = section
    with open(path, "w", encoding="utf-8") as file:
        file.write(title + "\n".join(sections[name] for name in sorted(sections)))


def environment_of(options):
    environment = dict(os.environ, LD_PRELOAD=options.preload,
                       MLX5_CRYPTO_TEST_INFO=os.path.join(HERE, "crypto_details.json"))
    if options.library_path:
        environment["LD_LIBRARY_PATH"] = options.library_path
    return environment


def choose(modules, wanted):
    chosen = [module for module in modules if not wanted or module in wanted or module.removeprefix("test_") in wanted]
    missing = set(wanted) - set(chosen) - {module.removeprefix("test_") for module in chosen}
    if missing:
        sys.exit(f"umlx5 pyverbs: there is no test module {' or '.join(sorted(missing))}; there are "
                 + ", ".join(module.removeprefix("test_") for module in modules))
    return chosen


def run(options):
    """module -> case -> (outcome, text), told as they come."""
    modules = {}
    with tempfile.TemporaryDirectory(prefix="umlx5-pyverbs-") as folder:
        for module in choose(unpack(options.source, folder), options.module):
            outcomes = modules[module] = run_module(folder, module, environment_of(options), options.seconds)
            count = counts_of(outcomes)
            print(f"{module}: {count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped", flush=True)
            for case, (outcome, text) in outcomes.items():
                if outcome != "passed":
                    print(f"  {outcome:<7} {case}: {last_line(text)}", flush=True)
    return modules


def write_json(path, driver, modules):
    cases = {module: {case: {"outcome": outcome, "text": text} for case, (outcome, text) in outcomes.items()}
             for module, outcomes in modules.items()}
    with open(path, "w", encoding="utf-8") as out:
        json.dump({"driver": driver, "modules": cases}, out, indent=1)


def main():
    parser = argparse.ArgumentParser(prog="umlx5 pyverbs", description=__doc__.splitlines()[0])
    parser.add_argument("--driver", choices=("umlx5", "stock"), default="stock",
                        help="whose libibverbs and libmlx5 the tests use (stock)")
    parser.add_argument("--seconds", type=float, default=60, help="time for each case (60)")
    parser.add_argument("--json", help="write every case's outcome to this file")
    parser.add_argument("--markdown", help="write the tables to this file, beside those of the other driver")
    parser.add_argument("--source", default="/usr/share/doc/rdma-core/tests", help=argparse.SUPPRESS)
    parser.add_argument("--preload", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--library-path", help=argparse.SUPPRESS)
    parser.add_argument("module", nargs="*", help="test modules, as `qp` or `test_qp`; none: all")
    options = parser.parse_args()
    if not os.path.isdir(options.source):
        sys.exit(f"umlx5 pyverbs: there is no {options.source}; Debian's package python3-pyverbs brings it")
    modules = run(options)
    if options.json:
        write_json(options.json, options.driver, modules)
    if options.markdown:
        put_section(options.markdown, options.driver, markdown(options.driver, modules))
    total = totals_of(modules)
    print(f"{total['skipped']} skipped\n{total['passed']} passed, {total['failed']} failed", flush=True)
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
