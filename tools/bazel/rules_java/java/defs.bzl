"""The native Java rules under the names that @rules_java gives them: Bazel's own tool packages load them."""

java_binary = native.java_binary
java_import = native.java_import
java_library = native.java_library
java_runtime = native.java_runtime
java_toolchain = native.java_toolchain
