#!/bin/bash
# Repeats the tests of packages under the race detector, in random order, beside a process that takes processor time from
# them, until each package has passed ROUNDS times. Usage: tools/flake.sh PACKAGE... (see `make flake`).
#
# Passed rounds are recorded by test binary, so that a run that was interrupted, or that failed for a reason outside the
# package, resumes; a package whose code has changed starts again. The first failure ends the run; its log has the seed of
# the order.
set -euo pipefail

rounds=${ROUNDS:-20}         # how often each package must pass
neighbours=${NEIGHBOURS:-1}  # processes that are busy beside it
timeout=${TIMEOUT:-10m}      # of one round, and of the neighbours beside it
dir=${STATE:-bin/flake}
go=${GO:-go}

busy=()
quiet() {
  for pid in ${busy[@]+"${busy[@]}"}; do kill "$pid" 2>/dev/null || true; done
  for pid in ${busy[@]+"${busy[@]}"}; do wait "$pid" 2>/dev/null || true; done
  busy=()
}
trap quiet EXIT
trap 'exit 130' INT TERM

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
packages=$("$go" list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}' "$@")
while read -r package where; do
  [ -n "$package" ] || continue
  state=$dir/${package//\//_}
  mkdir -p "$state"
  "$go" test -race -c -o "$state/test" "$package"
  build=$(sha256sum <"$state/test" | cut -c1-16)
  passed=$state/passed.$build
  touch "$passed"
  for ((round = $(wc -l <"$passed") + 1; round <= rounds; round++)); do
    log=$state/round.log
    for ((i = 0; i < neighbours; i++)); do
      timeout "$timeout" bash -c 'while :; do :; done' &
      busy+=($!)
    done
    began=$SECONDS
    if ! (cd "$where" && "$state/test" -test.shuffle=on -test.timeout="$timeout" ${ARGS:-}) >"$log" 2>&1 </dev/null; then
      quiet
      cp "$log" "$state/failed.$build.log"
      tail -n 60 "$log"
      echo "FAIL $package, round $round of $rounds: $state/failed.$build.log" >&2
      exit 1
    fi
    quiet
    echo "$round" >>"$passed"
    echo "ok   $package, round $round of $rounds, $((SECONDS - began))s"
  done
done <<<"$packages"
