# Parts of the launcher; sourced by ../../umlx5, which sets `top`.

# Installs what is missing for `run` or `test`; costs one dpkg-query when nothing is.
set_up() {
  bash "$top/tools/setup.sh" --quiet "$1"
}

# Builds one target. Silent when it is up to date; on a terminal the build shows its progress.
build_target() {
  local options=(--noshow_loading_progress)
  if [ -t 2 ]; then
    options+=(--show_progress)
  fi
  cd -- "$top"
  if ! bazel build "${options[@]}" --ui_event_filters=-info,-stdout --show_result=0 "$1" >&2; then
    echo "umlx5: the build failed; the errors are above" >&2
    exit 1
  fi
}
