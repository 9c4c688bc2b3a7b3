#!/bin/sh
# Makes the keys that compose.yaml shares among its services, once, in deploy/secrets (or in the directory given).
# Each is random and is nowhere else. Run it again with --force to change all of them at once.
#
# The directory is for its owner only. The files in it can be read by anybody who is let in, because a container
# gets the single file it needs and reads it as a user of its own.
set -eu

force=
if [ "${1:-}" = --force ]; then
  force=yes
  shift
fi
dir=${1:-$(dirname "$0")/secrets}
if [ -e "$dir/lingua.toml" ] && [ -z "$force" ]; then
  echo "$dir has keys already; they were left as they are (--force changes them)" >&2
  exit 0
fi

random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }

operator=$(random) metrics=$(random) node=$(random) session=$(random) callback=$(random) redis=$(random)

umask 022
mkdir -p "$dir"
chmod 700 "$dir"

# Every scheduler reads this file, so all of them have the same keys.
cat >"$dir/lingua.toml" <<TOML
[auth]
operator_keys = ["$operator", "$metrics"]
node_tokens = ["sim-*=$node"]
session_secret = "$session"

[callback]
secret = "$callback"

[scheduler.phase2.redis]
password = "$redis"
TOML
printf 'requirepass %s\n' "$redis" >"$dir/redis.conf"
printf 'LINGUA_TOKEN=%s\n' "$node" >"$dir/node.env"
printf '%s' "$operator" >"$dir/operator.key"
printf '%s' "$metrics" >"$dir/metrics.key"
echo "keys are in $dir; yours is operator.key: export LINGUA_TOKEN=\$(cat $dir/operator.key)" >&2
