#!/bin/sh
# Installs a Debian package without starting its services, now or at boot.
#
#   tools/apt-install.sh PACKAGE [SERVICE...]
#
# A policy-rc.d that refuses keeps the package from starting a daemon at once; disabling the services keeps them from
# starting at boot.
set -e

package=$1
shift

sudo=
if [ "$(id -u)" != 0 ]; then sudo=sudo; fi
if ! command -v apt-get >/dev/null || { [ -n "$sudo" ] && ! command -v sudo >/dev/null; }; then
	echo "$package is missing, and this machine has no apt-get (or no sudo) to install it with." >&2
	exit 1
fi
echo "$package is missing; installing it with apt-get"

policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
	trap '$sudo rm -f $policy' EXIT
	printf '#!/bin/sh\nexit 101\n' | $sudo tee $policy >/dev/null
	$sudo chmod 755 $policy
fi
$sudo apt-get update -qq
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$package"
if [ -d /run/systemd/system ]; then
	for service in "$@"; do $sudo systemctl disable --now "$service"; done
fi
