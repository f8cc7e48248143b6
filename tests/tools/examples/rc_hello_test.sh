#!/usr/bin/env bash
# The example runs, and says what it should.
set -euo pipefail
want=$'received: hello by send\nwritten: hello by write'
got=$(tools/examples/rc_hello)
[[ $got == *"$want" ]] || { echo "got: $got"; exit 1; }
for wr_id in 1 2 3; do
  [[ $(grep -c "wr_id $wr_id\$" <<<"$got") == 1 ]] || { echo "got: $got"; exit 1; }
done
if got=$(tools/examples/rc_hello nosuch 2>&1); then
  echo "a device that does not exist was opened: $got"
  exit 1
fi
[[ $got == "rc_hello: "*nosuch* ]] || { echo "got: $got"; exit 1; }
