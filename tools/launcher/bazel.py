"""What the launcher's scripts share: where the tree is, and how targets are named and found."""

import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def fail(text, code=1):
    print(f"umlx5: {text}", file=sys.stderr)
    sys.exit(code)


def query(expression):
    """Labels of a Bazel query, or None if it failed; Bazel has said why on stderr."""
    done = subprocess.run(
        ["bazel", "query", "--noshow_progress", "--noshow_loading_progress", expression],
        cwd=TOP, stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.split() if done.returncode == 0 else None


def choose(labels, filters):
    """The labels that contain any of the filters' texts; all of them if there are no filters."""
    return [label for label in labels if not filters or any(text in label for text in filters)]
