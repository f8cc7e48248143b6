"""Runs one module of the pyverbs tests: one_module.py FOLDER MODULE RESULTS [DONE...], FOLDER being the one that has
`tests` in it. Writes a line of JSON to RESULTS when a case starts and when it ends, so that whoever watches knows which
one hangs or crashes. Cases named DONE are left out."""

import json
import sys
import unittest


def name_of(test):
    """"Class.test" of a case; of what stands for a class or module that could not be set up, what unittest calls it."""
    identity = test.id()
    return identity if " " in identity else ".".join(identity.split(".")[-2:])


class Recorder(unittest.TestResult):
    def __init__(self, out):
        super().__init__()
        self.out = out

    def record(self, test, outcome, text=""):
        self.out.write(json.dumps({"test": name_of(test), "outcome": outcome, "text": text}) + "\n")
        self.out.flush()

    def startTest(self, test):
        super().startTest(test)
        self.record(test, "started")

    def addSuccess(self, test):
        super().addSuccess(test)
        self.record(test, "passed")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.record(test, "failed", self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self.record(test, "failed", self.errors[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.record(test, "failed", "".join(map(str, err[1].args)))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.record(test, "skipped", reason)


def cases_of(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from cases_of(item)
        else:
            yield item


def main():
    folder, module, results, *done = sys.argv[1:]
    sys.path[:0] = [folder, f"{folder}/tests"]  # the tests name each other in both ways
    # The tests take their device from the command line.
    sys.argv[1:] = ["--dev", "mlx5_0", "--port", "1", "--gid", "0"]
    from args_parser import parser  # pylint: disable=import-error,import-outside-toplevel
    parser.parse_args()
    suite = unittest.defaultTestLoader.loadTestsFromName(f"tests.{module}")
    with open(results, "a", encoding="utf-8") as out:
        unittest.TestSuite(case for case in cases_of(suite) if name_of(case) not in done).run(Recorder(out))


main()
