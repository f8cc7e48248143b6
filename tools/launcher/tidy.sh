# `umlx5 tidy`: clang-tidy over the library. Sourced by ../../umlx5, which sets `top`.

# Bazel's flags are not needed: everything is found from the top, or is installed.
run_tidy() {
  set_up test
  cd -- "$top"
  local files=("$@")
  if [ ${#files[@]} -eq 0 ]; then
    mapfile -t files < <(git ls-files 'wqe/*.cc' 'doorbell/*.cc' 'uapi/*.cc' 'driver/*.cc')
  fi
  printf '%s\0' "${files[@]}" |
    xargs -0 -n 1 -P "$(nproc)" sh -c 'clang-tidy-19 --quiet "$0" -- -std=c++23 -I. 2>/dev/null' &&
    echo "umlx5 tidy: nothing to say about ${#files[@]} files"
}
