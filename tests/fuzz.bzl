"""Fuzz targets: one source, a libFuzzer binary or an ordinary test."""

def fuzz_target(name, srcs, deps, corpus = [], size = "small", **kwargs):
    """A test of LLVMFuzzerTestOneInput().

    `bazel test //...` runs it over a bounded number of pseudo-random inputs and over the corpus. With --config=fuzz it
    is a libFuzzer binary instead: `bazel run` takes libFuzzer's options, `bazel test` fuzzes for 20 seconds.

    Args:
      name: name of the target.
      srcs: the file that defines LLVMFuzzerTestOneInput().
      deps: what it needs.
      corpus: input files to start from.
      size: as for any test.
      **kwargs: passed to cc_test.
    """
    corpus_args = ["$(location %s)" % file for file in corpus]
    native.cc_test(
        name = name,
        size = size,
        srcs = srcs + select({
            "//tests:fuzz": [],
            "//conditions:default": ["//tests:fuzz_main.cc"],
        }),
        args = select({
            # libFuzzer takes files as "run these and stop"; a list of seeds it fuzzes from.
            "//tests:fuzz": ["-max_total_time=20"] + (["-seed_inputs=" + ",".join(corpus_args)] if corpus else []),
            "//conditions:default": corpus_args,
        }),
        data = corpus,
        linkopts = select({
            "//tests:fuzz": ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        deps = deps,
        **kwargs
    )
