#!/bin/bash
# Runs the benchmarks of `make bench` on two trees in alternating pairs, and compares them with benchstat: the median of each
# metric with its spread, the change, and whether the change is more than chance. Usage:
# tools/bench-compare.sh BASE, where BASE is a commit, or a directory with another copy of this repository.
#
# The order within a pair alternates, so that a machine that becomes slower or faster favours neither. Results are added to
# those of an earlier run with the same BASE. A benchmark that fails is reported and left out of the comparison, which exits with 1 if one
# failed on this tree.
set -euo pipefail

base=${1:?usage: tools/bench-compare.sh BASE}
pairs=${PAIRS:-10}  # how many pairs are run
only=${ONLY:-.}     # a pattern of the benchmarks that are run
go=${GO:-go}
dir=bin/bench-compare
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

if [ -d "$base" ]; then
  old=$(cd "$base" && pwd)
  name=$(basename "$old")
else
  name=$(git rev-parse --short "$base")
  old=$dir/tree-$name
  [ -d "$old" ] || { mkdir "$old" && git archive "$base" | tar -x -C "$old"; }
fi
new=$(pwd)

# Package, benchmarks and flags, as in `make bench`.
runs=(
  "bench Decision\$ -test.cpu=1"
  "bench DecisionGrowth -test.benchtime=1x -test.cpu=1"
  "bench DispatchHTTP|BesideHeartbeats -test.benchtime=1x"
  "bench Lifecycle"
  "bench/conversations Relay|SlowReaders -test.benchtime=1x"
)

for side in old new; do
  for package in bench bench/conversations; do
    (cd "${!side}" && "$go" test -c -o "$dir/$side-${package//\//-}.test" "./$package")
  done
done

failed_old=0
failed_new=0

# run runs every benchmark of one side once.
run() {
  local side=$1 package pattern flags
  local -n failed=failed_$side
  for line in "${runs[@]}"; do
    read -r package pattern flags <<<"$line"
    [[ $pattern =~ $only ]] || continue
    # shellcheck disable=SC2086 # the flags are words
    (cd "${!side}/$package" && "$dir/$side-${package//\//-}.test" -test.run '^$' -test.bench "$pattern" -test.timeout 20m $flags) >>"$dir/$name-$side.txt" || {
      failed=$((failed + 1))
      echo "$pattern failed on the $side tree; the output is in $dir/$name-$side.txt" >&2
    }
  done
}

for ((pair = 1; pair <= pairs; pair++)); do
  began=$SECONDS
  if ((pair % 2)); then run old; run new; else run new; run old; fi
  echo "pair $pair of $pairs, $((SECONDS - began)) s" >&2
done
"$go" -C tools tool benchstat "old=$dir/$name-old.txt" "new=$dir/$name-new.txt"
echo "failed: $failed_old on the old tree, $failed_new on the new one" >&2
((failed_new == 0))
