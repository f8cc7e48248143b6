#!/usr/bin/env bash
# Installs the Debian packages that umlx5 needs and that are missing; does nothing if all are there.
# usage: tools/setup.sh [--quiet] [run|test]
#   run   what building and running the program needs
#   test  that, and what the tests, the fuzz targets and the comparison with UCX need (the default)
set -euo pipefail

run_packages=(
  bazel-bootstrap g++ libboost-dev libcli11-dev libfmt-dev libibverbs-dev libisal-dev libnl-3-dev libnl-route-3-dev
  libssl-dev linux-libc-dev nlohmann-json3-dev python3
)
test_packages=(
  abigail-tools clang-19 clang-format clang-tidy-19 g++-aarch64-linux-gnu git googletest ibverbs-providers ibverbs-utils
  iproute2 libbenchmark-dev libclang-rt-19-dev librdmacm-dev lld-19 perftest pkg-config python3-pyverbs
  python3-scapy qemu-user-static rdma-core spin tshark ucx-utils valgrind
)

quiet=false
if [ "${1:-}" = --quiet ]; then
  quiet=true
  shift
fi
case ${1:-test} in
  run) packages=("${run_packages[@]}") ;;
  test) packages=("${run_packages[@]}" "${test_packages[@]}") ;;
  *)
    echo "setup: '$1' is neither run nor test" >&2
    exit 2
    ;;
esac

installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null | sed -n 's/^installed //p' || true)
missing=()
for package in "${packages[@]}"; do
  grep -qx -- "$package" <<<"$installed" || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  $quiet || echo "setup: all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: these Debian packages are missing, and installing them takes root (there is no sudo here):" >&2
    echo "  apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "setup: installing ${#missing[@]} Debian packages: ${missing[*]}" >&2
log=$(mktemp)
trap 'rm -f -- "$log"' EXIT
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q "$@" >"$log" 2>&1
}
# The package lists may be missing or stale: they are fetched only if the installation fails without.
if ! apt install -y --no-install-recommends "${missing[@]}"; then
  echo "setup: fetching the package lists first" >&2
  if ! { apt update && apt install -y --no-install-recommends "${missing[@]}"; }; then
    tail -n 20 -- "$log" >&2
    echo "setup: apt-get failed; its last lines are above" >&2
    exit 1
  fi
fi
echo "setup: done" >&2
