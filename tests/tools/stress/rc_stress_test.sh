#!/usr/bin/env bash
# Random traffic of two processes, every byte checked: on a good wire and on a bad one.
set -euo pipefail
stress() {
  local got
  got=$(tests/tools/stress/rc_stress --timeout 280 "$@")
  echo "$got"
  [[ $got == *"all bytes right"* ]]
}
case $1 in
  clean) stress --messages 20000 ;;
  faults)
    stress --messages 3000 --faults seed=7,loss=0.02,dup=0.01,reorder=0.01,corrupt=0.005
    stress --messages 500 --seed 2 --faults seed=8,delay=0.02,delay_us=300,loss=0.1
    ;;
  *) echo "usage: $0 clean|faults" >&2; exit 2 ;;
esac
