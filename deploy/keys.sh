#!/bin/sh
# Makes the keys and the certificate that compose.yaml shares among its services, once, in deploy/secrets (or in the directory given).
# Each is random and is nowhere else. Run it again with --force to change all of them at once; docs/credentials.md says how to change
# one after the other without an interruption.
#
# The directory is for its owner only, and so are the files that hold secrets of the schedulers and that docker compose itself reads.
# Those that a container mounts can be read by all users, because it reads them as a user of its own and gets only the file that it
# needs: the certificate and the key of Redis, its users, and the key of Prometheus.
set -eu

force=
if [ "${1:-}" = --force ]; then
  force=yes
  shift
fi
here=$(dirname "$0")
dir=${1:-$here/secrets}

random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
hash() { printf '%s' "$1" | sha256sum | cut -d' ' -f1; }
grafana() { printf 'GF_SECURITY_ADMIN_PASSWORD=%s\n' "$(random)" >"$dir/grafana.env"; }

umask 077
if [ -e "$dir/lingua.toml" ] && [ -z "$force" ]; then
  [ -e "$dir/grafana.env" ] || grafana # it was added later
  echo "$dir has keys already; they were left as they are (--force changes them)" >&2
  exit 0
fi
for program in openssl sha256sum od; do
  command -v "$program" >/dev/null || { echo "keys.sh needs $program" >&2; exit 1; }
done

operator=$(random) metrics=$(random) node=$(random) session=$(random) cluster=$(random) callback=$(random)
redis=$(random) redis_admin=$(random)

mkdir -p "$dir"
chmod 700 "$dir"

# Every scheduler reads this file, so all of them have the same keys. It has hashes only.
cat >"$dir/lingua.toml" <<TOML
[[auth.keys]]
name = "operator"
role = "operator"
sha256 = ["$(hash "$operator")"]

[[auth.keys]]
name = "prometheus"
role = "metrics"
sha256 = ["$(hash "$metrics")"]

[[auth.keys]]
name = "sim-nodes"
role = "node"
nodes = "sim-*"
sha256 = ["$(hash "$node")"]

[callback]
allowed_targets = []
TOML

# Their secrets.
cat >"$dir/lingua.env" <<ENV
LINGUA_AUTH_SESSION_SECRET=$session
LINGUA_AUTH_CLUSTER_SECRET=$cluster
LINGUA_CALLBACK_SECRET=$callback
LINGUA_SCHEDULER_PHASE2_REDIS_PASSWORD=$redis
ENV

# The users of Redis: one for operators and the health check, and one for schedulers, which may run only the commands that they use, on
# their own keys.
commands=$(sed -e '/^#/d' -e 's/^/+/' "$here/redis/commands" | tr '\n' ' ')
cat >"$dir/redis.conf" <<REDIS
requirepass $redis_admin
user lingua on #$(hash "$redis") ~lingua:* resetchannels -@all $commands
REDIS
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 -subj /CN=redis \
  -addext 'subjectAltName=DNS:redis,DNS:localhost,IP:127.0.0.1' -addext 'basicConstraints=critical,CA:FALSE' \
  -keyout "$dir/redis.key" -out "$dir/redis.crt" 2>/dev/null

printf 'LINGUA_TOKEN=%s\n' "$node" >"$dir/node.env"
grafana
printf '%s' "$operator" >"$dir/operator.key"
printf '%s' "$metrics" >"$dir/metrics.key"
chmod 644 "$dir/lingua.toml" "$dir/redis.conf" "$dir/redis.crt" "$dir/redis.key" "$dir/metrics.key"
echo "keys are in $dir; yours is operator.key: export LINGUA_TOKEN=\$(cat $dir/operator.key)" >&2
