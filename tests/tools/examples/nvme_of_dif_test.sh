#!/usr/bin/env bash
# The example runs, and finds the two faults that it makes where it makes them; also through a wire that corrupts and
# loses packets, which the packets' checksums and retransmission hide.
set -euo pipefail
expect() {
  grep -qE "^$1\$" <<<"$got" || { echo "no line '$1' in: $got"; exit 1; }
}
for faults in '' 'seed=3,corrupt=0.2,loss=0.1'; do
  got=$(UMLX5_SOFT_FAULTS=$faults tools/examples/nvme_of_dif)
  expect 'read: good'
  expect 'read of a flipped bit: bad guard in block 2 of the transfer: 0x[0-9a-f]+ came, 0x[0-9a-f]+ is right'
  expect 'read of other blocks: bad reference tag in block 0 of the transfer: 0x9 came, 0x8 is right'
  [[ $(wc -l <<<"$got") == 3 ]] || { echo "got: $got"; exit 1; }
done
