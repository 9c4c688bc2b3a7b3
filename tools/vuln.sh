#!/bin/sh
# Checks what the binary uses against the vulnerability database of Go, with govulncheck at the version that tools/go.mod pins.
#
#   tools/vuln.sh [DATABASE]
#
# Exit codes: 0 nothing was found, 3 vulnerabilities that the code reaches were found, 4 the database could not be reached, so that nothing is
# known; others are errors of govulncheck. Without the network, give a copy of the database as a file:// URL.
set -u

cd "$(dirname "$0")/.."
output=$(${GO:-go} -C tools run golang.org/x/vuln/cmd/govulncheck -C "$PWD" ${1:+-db "$1"} ./... 2>&1)
code=$?
printf '%s\n' "$output"
case $code in
0) exit 0 ;;
esac
if printf '%s' "$output" | grep -qE 'fetching vulnerabilities|HTTP GET|dial tcp|no such host|status code|proxyconnect'; then
  cat >&2 <<'TEXT'
The vulnerability database could not be reached: nothing was checked, and nothing is known about the dependencies.
Run this where it can be reached, or give a copy of it: tools/vuln.sh file:///path/to/vulndb
TEXT
  exit 4
fi
if printf '%s' "$output" | grep -q 'Your code is affected by'; then exit 3; fi
exit $code
