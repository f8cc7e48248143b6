"""Runs a module's unittest cases and writes Bazel's test.xml with one entry for each of them."""

import os
import sys
import time
import unittest
from xml.sax.saxutils import escape, quoteattr


class _Result(unittest.TextTestResult):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.entries = []

    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()

    def _add(self, test, element=""):
        seconds = time.monotonic() - getattr(self, "started", time.monotonic())
        identity = test.id()  # "module.Class.test", of a subtest "module.Class.test [message] (parameters)"
        class_name, _, name = identity.split(" ")[0].rpartition(".")
        name = identity.removeprefix(class_name + ".")
        self.entries.append(f"<testcase classname={quoteattr(class_name)} name={quoteattr(name)} "
                            f'time="{seconds:.3f}">{element}</testcase>')

    def addSuccess(self, test):
        super().addSuccess(test)
        self._add(test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._add(test, f"<failure>{escape(self.failures[-1][1])}</failure>")

    def addError(self, test, err):
        super().addError(test, err)
        self._add(test, f"<error>{escape(self.errors[-1][1])}</error>")

    def addSubTest(self, test, subtest, err):
        """Called for failing subtests too, for which no addFailure() or addError() comes."""
        super().addSubTest(test, subtest, err)
        if err is not None:
            element = "failure" if issubclass(err[0], test.failureException) else "error"
            text = (self.failures if element == "failure" else self.errors)[-1][1]
            self._add(subtest, f"<{element}>{escape(text)}</{element}>")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._add(test, f"<skipped message={quoteattr(reason)}/>")


def main():
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2, resultclass=_Result).run(suite)
    if path := os.environ.get("XML_OUTPUT_FILE"):
        with open(path, "w", encoding="utf-8") as out:
            out.write('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites><testsuite name="python">\n')
            out.write("\n".join(result.entries))
            out.write("\n</testsuite></testsuites>\n")
    sys.exit(0 if result.wasSuccessful() and result.testsRun > 0 else 1)
