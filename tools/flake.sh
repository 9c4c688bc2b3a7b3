#!/bin/bash
# Repeats a command until it has passed ROUNDS times on one state of the code, beside BUSY processes that take processor time from it.
# Usage: tools/flake.sh COMMAND... (see `make flake`).
#
# Passed rounds are recorded outside the repository, by the content of the files other than documents, so that a run that was interrupted resumes,
# also in another clone. The first failure ends the run; its log has the seeds of the order of tests.
set -euo pipefail

rounds=${ROUNDS:-20}
busy=${BUSY:-0}
code=$(git ls-files -co --exclude-standard -- . ':!*.md' | xargs -d '\n' sha256sum 2>/dev/null | sha256sum | cut -c1-16)
state=${XDG_CACHE_HOME:-$HOME/.cache}/lingua-flake/$code-busy$busy-$(echo "$*" | tr -c 'A-Za-z0-9\n' _)
mkdir -p "$state"

neighbours=()
quiet() {
  for pid in ${neighbours[@]+"${neighbours[@]}"}; do kill "$pid" 2>/dev/null || true; done
  for pid in ${neighbours[@]+"${neighbours[@]}"}; do wait "$pid" 2>/dev/null || true; done
  neighbours=()
}
trap quiet EXIT
trap 'exit 130' INT TERM

for ((round = $(find "$state" -name 'passed-*' | wc -l) + 1; round <= rounds; round++)); do
  for ((i = 0; i < busy; i++)); do
    timeout 60m bash -c 'while :; do :; done' &
    neighbours+=($!)
  done
  began=$SECONDS
  if ! "$@" >"$state/log" 2>&1 </dev/null; then
    quiet
    mv "$state/log" "$state/failed-$round.log"
    tail -n 60 "$state/failed-$round.log"
    echo "FAIL round $round of $rounds: $state/failed-$round.log" >&2
    exit 1
  fi
  quiet
  mv "$state/log" "$state/passed-$round"
  echo "ok   round $round of $rounds, $((SECONDS - began)) s"
done
