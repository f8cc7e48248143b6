#!/usr/bin/env python3
"""Runs the tests with Bazel, tells each target's outcome as it comes, and ends with `N passed, N failed`.

What is counted are the single cases of every target's test.xml. A target that does not build, crashes, leaks after its
last case or takes too long counts as one failure at least.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ElementTree

from bazel import TOP, choose, fail, query

LOG_TAIL_LINES = 60


def path_of(uri):
    return urllib.request.url2pathname(urllib.parse.urlparse(uri).path)


def count_cases(xml_path):
    """(passed, failed, skipped, names of those that failed) of one test.xml."""
    passed, failed, skipped, names = 0, 0, 0, []
    for case in ElementTree.parse(xml_path).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
            names.append(".".join(filter(None, (case.get("classname"), case.get("name")))))
        elif case.get("status") == "notrun":
            continue
        elif case.find("skipped") is not None or case.get("result") == "skipped":
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped, names


def log_tail(path):
    """The last lines of a test's log, and how many there are before them."""
    try:
        with open(path, encoding="utf-8", errors="replace") as log:
            lines = log.read().splitlines()
    except OSError as error:
        return f"no readable log ({error})"
    left_out = len(lines) - LOG_TAIL_LINES
    first = [f"({left_out} lines of {path} left out)"] if left_out > 0 else []
    return "\n".join(first + lines[-LOG_TAIL_LINES:])


class Outcomes:
    """Takes Bazel's build events one by one."""

    def __init__(self, out=sys.stdout):
        self.out = out
        self.tests = set()     # labels of all tests
        self.done = {}         # (label, run, shard) -> (passed, failed, skipped)
        self.broken = {}       # label or pattern -> why it never ran
        self.failed_cases = {}  # (label, run, shard) -> "label: case" of each that failed

    def event(self, event):
        identity = event["id"]
        if "targetConfigured" in identity:
            label = identity["targetConfigured"]["label"]
            if "testSize" in event.get("configured", {}):
                self.tests.add(label)
            if "aborted" in event:
                self.broke(label, event["aborted"])
        elif "targetCompleted" in identity:
            label = identity["targetCompleted"]["label"]
            if "aborted" in event:
                self.broke(label, event["aborted"])
            elif not event.get("completed", {}).get("success", False):
                self.broke(label, {"description": "does not build"})
        elif "pattern" in identity and "aborted" in event:
            self.broke(" ".join(identity["pattern"]["pattern"]), event["aborted"])
        elif "testResult" in identity:
            self.result(identity["testResult"], event["testResult"])

    def broke(self, label, aborted):
        if label not in self.broken:
            self.broken[label] = aborted.get("description") or aborted.get("reason", "aborted")
            print(f"FAILED   {label}: {self.broken[label]}", file=self.out, flush=True)

    def result(self, identity, result):
        label = identity["label"]
        status = result.get("status", "NO_STATUS")
        passed, failed, skipped, names = 0, 0, 0, []
        outputs = {output["name"]: output["uri"] for output in result.get("testActionOutput", [])}
        if "test.xml" in outputs:
            try:
                passed, failed, skipped, names = count_cases(path_of(outputs["test.xml"]))
            except (OSError, ElementTree.ParseError) as error:
                names = [f"no readable test.xml ({error})"]
                failed = 1
        if status not in ("PASSED", "FLAKY") and failed == 0:
            failed, names = 1, [f"the test program ended badly ({status}) though no case failed"]
        key = (label, identity.get("run", 1), identity.get("shard", 1))  # a later attempt replaces the earlier
        self.done[key] = (passed, failed, skipped)
        self.failed_cases[key] = [f"{label}: {name}" for name in names]
        seconds = int(result.get("testAttemptDurationMillis", 0)) / 1000
        how = "cached" if result.get("cachedLocally") else f"{seconds:.1f} s"
        print(f"[{len(self.done):>3}/{len(self.tests)}] {'FAILED  ' if failed else 'passed  '} {label}  "
              f"({passed + failed} cases, {how})", file=self.out, flush=True)
        if failed and "test.log" in outputs:
            print(log_tail(path_of(outputs["test.log"])), file=self.out, flush=True)

    def failures(self):
        cases = [name for names in self.failed_cases.values() for name in names]
        return [f"{label}: {why}" for label, why in self.broken.items()] + cases

    def totals(self):
        passed, failed, skipped = (sum(column) for column in zip((0, 0, 0), *self.done.values()))
        return passed, failed + len(self.broken), skipped


def follow(process, path, outcomes):
    """Feeds the events to `outcomes` as Bazel writes them, until it has ended and all are read."""
    with open(path, encoding="utf-8") as events:
        rest = ""
        while True:
            ended = process.poll() is not None
            rest += events.read()
            *lines, rest = rest.split("\n")
            for line in lines:
                if line:
                    outcomes.event(json.loads(line))
            if ended:
                return
            time.sleep(0.1)


def targets(filters):
    """Target patterns of the filters."""
    patterns = [text for text in filters if text.startswith("//")]
    parts = [text for text in filters if not text.startswith("//")]
    if parts:
        labels = query("tests(//tests/...)")
        if labels is None:
            return None
        found = choose(labels, parts)
        if not found:
            fail(f"no test's name has {' or '.join(parts)} in it")
        patterns += found
    return patterns or ["//tests/..."]


# The library is also built for 64-bit Arm, and its formats, doorbells, barriers and what is in assembly are tested
# under emulation.
AARCH64 = (["--config=aarch64"], ["//wqe/...", "//doorbell/...", "//uapi/...", "//driver:all", "//tests/wqe/...",
                                  "//tests/doorbell/...", "//tests/tools/softhca/hca:process_memory_test"])


def run(options, patterns):
    """The outcomes of one `bazel test`."""
    terminal = os.isatty(sys.stderr.fileno())
    outcomes = Outcomes()
    with tempfile.NamedTemporaryFile(prefix="umlx5-test-", suffix=".json") as events:
        process = subprocess.Popen(
            ["bazel", "test", "--keep_going", "--test_summary=none", "--test_output=summary", f"--build_event_json_file={events.name}",
             "--show_progress" if terminal else "--noshow_progress", *options, "--", *patterns], cwd=TOP)
        try:
            follow(process, events.name, outcomes)
        except KeyboardInterrupt:
            process.wait()
    if outcomes.totals()[1] == 0 and (process.returncode != 0 or outcomes.totals()[0] == 0):
        outcomes.broken[" ".join(patterns)] = f"bazel test ended with code {process.returncode}"
    return outcomes


def main(arguments):
    options = [argument for argument in arguments if argument.startswith("-")]
    patterns = targets([argument for argument in arguments if not argument.startswith("-")])
    if patterns is None:
        print("\n0 passed, 1 failed")
        return 1
    if not os.isatty(sys.stderr.fileno()):
        print("building and testing; the first build takes some minutes", flush=True)
    parts = [run(options, patterns)]
    if not arguments:
        print("\nthe same for 64-bit Arm, under emulation", flush=True)
        parts.append(run(*AARCH64))
    passed, failed, skipped = (sum(column) for column in zip(*(part.totals() for part in parts)))
    print()
    for part in parts:
        for failure in part.failures():
            print(f"failed: {failure}")
    if skipped:
        print(f"{skipped} skipped")
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
