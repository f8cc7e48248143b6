# `umlx5 pyverbs`: rdma-core's own tests on software devices. Sourced by ../../umlx5, which sets `top` and `here`.

run_pyverbs() {
  local driver=stock arguments=("$@")
  while [ $# -gt 0 ]; do
    case $1 in
      --driver) driver=${2:-} ;;
      --driver=*) driver=${1#--driver=} ;;
    esac
    shift
  done
  set_up test
  build_target //tools/softhca/preload:libumlx5_preload.so
  local options=(--preload "$top/bazel-bin/tools/softhca/preload/libumlx5_preload.so")
  if [ "$driver" = umlx5 ]; then
    build_target //driver/verbs:all
    options+=(--library-path "$top/bazel-bin/driver/verbs/lib")
  fi
  cd -- "$here"
  exec python3 "$top/tools/pyverbs/run_pyverbs.py" "${options[@]}" "${arguments[@]}"
}
