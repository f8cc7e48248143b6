#!/bin/sh
# Fuzzes one target with libFuzzer: tools/fuzz.sh //tests/wqe:cqe_fuzz [libFuzzer options, e.g. -max_total_time=60 DIR]
# The compiler differs from the ordinary build's, so this uses a Bazel server and output tree of its own:
# $UMLX5_FUZZ_OUTPUT_BASE, by default ~/.cache/bazel/umlx5-fuzz-<checksum of the checkout's path>.
set -eu
target=$1
shift
cd "$(dirname "$0")/.."
default_base="$HOME/.cache/bazel/umlx5-fuzz-$(pwd | cksum | cut -d' ' -f1)"
exec bazel --output_base="${UMLX5_FUZZ_OUTPUT_BASE:-$default_base}" --max_idle_secs=60 run --config=fuzz --jobs=2 \
  "$target" -- "$@"
