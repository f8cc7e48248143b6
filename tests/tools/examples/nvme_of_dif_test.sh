#!/usr/bin/env bash
# The example runs, and finds the two faults that it makes where it makes them.
set -euo pipefail
got=$(tools/examples/nvme_of_dif)
expect() {
  grep -qE "^$1\$" <<<"$got" || { echo "no line '$1' in: $got"; exit 1; }
}
expect 'read: good'
expect 'read of a flipped bit: bad guard in block 2 of the transfer: 0x[0-9a-f]+ came, 0x[0-9a-f]+ is right'
expect 'read of other blocks: bad reference tag in block 0 of the transfer: 0x9 came, 0x8 is right'
[[ $(wc -l <<<"$got") == 3 ]] || { echo "got: $got"; exit 1; }
