# `umlx5 run`: starts any verbs program on software devices. Sourced by ../../umlx5, which sets `top` and `here`.

run_usage() {
  cat <<'TEXT'
usage: ./umlx5 run [OPTION...] [--] PROGRAM [ARGUMENT...]

Runs an unmodified verbs program on software devices.

  --driver umlx5|stock  with this driver's libibverbs and libmlx5 (umlx5), or
                  with the installed ones
  --devices N     how many devices the program sees (1)
  --address A     the first device's IPv4 address, one of this machine's (the first free 127.0.0.N)
  --pcap FILE     capture its packets; %p in FILE becomes the process id
  --faults TEXT   faults of the wire: seed=7,loss=0.02,dup=0.01,reorder=0.01,corrupt=0.005
TEXT
}

run_fail() {
  echo "umlx5 run: $1; ./umlx5 run --help tells more" >&2
  exit 2
}

run_program() {
  local driver=umlx5
  while [ $# -gt 0 ]; do
    case $1 in
      --driver | --devices | --address | --pcap | --faults)
        [ $# -ge 2 ] || run_fail "$1 wants a value"
        case $1 in
          --driver) driver=$2 ;;
          --devices) export UMLX5_SOFT_DEVICES=$2 ;;
          --address) export UMLX5_SOFT_ADDR=$2 ;;
          --pcap) export UMLX5_SOFT_PCAP=$2 ;;
          --faults) export UMLX5_SOFT_FAULTS=$2 ;;
        esac
        shift 2
        ;;
      -h | --help)
        run_usage
        exit 0
        ;;
      --)
        shift
        break
        ;;
      -*) run_fail "there is no option '$1'" ;;
      *) break ;;
    esac
  done
  [ $# -gt 0 ] || run_fail "no program is named"
  case $driver in
    stock | umlx5) ;;
    *) run_fail "there is no driver '$driver'; there are umlx5 and stock" ;;
  esac
  set_up run
  build_target //tools/softhca/preload:libumlx5_preload.so
  if [ "$driver" = umlx5 ]; then
    build_target //driver/verbs:libraries
    export LD_LIBRARY_PATH="$top/bazel-bin/driver/verbs/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  fi
  cd -- "$here"
  command -v -- "$1" >/dev/null || run_fail "there is no program '$1'"
  # UCX's memory hooks ask the kernel for mappings themselves, past the shim: a device's pages would not be found.
  export UCX_MEM_EVENTS=${UCX_MEM_EVENTS:-n}
  # Without them it would take one region on demand for all memory, whose end crashes UCX 1.13 (uct_ib_md_close() gives
  # it to the wrong function).
  export UCX_IB_REG_METHODS=${UCX_IB_REG_METHODS:-direct}
  export LD_PRELOAD="$top/bazel-bin/tools/softhca/preload/libumlx5_preload.so${LD_PRELOAD:+:$LD_PRELOAD}"
  exec -- "$@"
}
