"""The cross compiler of Debian's g++-aarch64-linux-gnu, for --config=aarch64."""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "ACTION_NAMES")
load("@bazel_tools//tools/cpp:cc_toolchain_config_lib.bzl", "feature", "flag_group", "flag_set", "tool_path")

_PREFIX = "/usr/bin/aarch64-linux-gnu-"

_COMPILE = [
    ACTION_NAMES.c_compile,
    ACTION_NAMES.cpp_compile,
    ACTION_NAMES.assemble,
    ACTION_NAMES.preprocess_assemble,
]
_LINK = [
    ACTION_NAMES.cpp_link_executable,
    ACTION_NAMES.cpp_link_dynamic_library,
    ACTION_NAMES.cpp_link_nodeps_dynamic_library,
]

def _flags(name, actions, flags):
    return feature(
        name = name,
        enabled = True,
        flag_sets = [flag_set(actions = actions, flag_groups = [flag_group(flags = flags)])],
    )

def _impl(ctx):
    # g++ for everything: it links its own libraries, and no C source is built for this CPU.
    tools = {"gcc": "g++", "cpp": "cpp", "ar": "ar", "ld": "ld", "nm": "nm", "objdump": "objdump", "strip": "strip"}
    return cc_common.create_cc_toolchain_config_info(
        ctx = ctx,
        toolchain_identifier = "aarch64-linux-gnu",
        host_system_name = "local",
        target_system_name = "aarch64-linux-gnu",
        target_cpu = "aarch64",
        target_libc = "glibc",
        compiler = "gcc",
        abi_version = "local",
        abi_libc_version = "local",
        tool_paths = [tool_path(name = name, path = _PREFIX + program) for name, program in tools.items()] +
                     [tool_path(name = "gcov", path = "/bin/false")],
        cxx_builtin_include_directories = [
            "/usr/lib/gcc-cross/aarch64-linux-gnu",
            "/usr/aarch64-linux-gnu",
            "/usr/include",
        ],
        features = [
            # What the cross packages lack (fmt, rdma-core) comes from the host: headers only, after all others.
            _flags("headers", _COMPILE, ["-idirafter", "/usr/include", "-no-canonical-prefixes"]),
            _flags("reproducible", _COMPILE, [
                "-Wno-builtin-macro-redefined",
                "-D__DATE__=\"redacted\"",
                "-D__TIME__=\"redacted\"",
                "-D__TIMESTAMP__=\"redacted\"",
            ]),
            _flags("optimise", _COMPILE, ["-O2", "-DNDEBUG", "-fno-omit-frame-pointer"]),
            # Static, so that the emulator needs no root file system.
            _flags("static", _LINK, ["-static"]),
        ],
    )

aarch64_toolchain_config = rule(
    implementation = _impl,
    attrs = {},
    provides = [CcToolchainConfigInfo],
)
