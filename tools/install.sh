#!/bin/sh
# Installs the programs that tests start, where they are missing, from Debian's packages, without starting their services, now or at boot.
#
#   tools/install.sh PACKAGE...
set -e

# missing tells whether a package, or the programs of it that the tests use, must be installed.
missing() {
	case $1 in
	iproute2) ! command -v ip ;;
	opus-tools) ! { command -v opusinfo && command -v opusdec && command -v opusenc; } ;;
	prometheus) ! { command -v promtool && command -v prometheus; } ;;
	# Debian installs the module for its own interpreter, which need not be the first python3 on PATH.
	python3-websockets) ! { python3 -c 'import websockets' || /usr/bin/python3 -c 'import websockets'; } 2>&1 ;;
	*) ! command -v "$1" ;;
	esac >/dev/null
}

wanted=
for package in "$@"; do
	if missing "$package"; then wanted="$wanted $package"; fi
done

if [ -n "$wanted" ]; then
	sudo=
	if [ "$(id -u)" != 0 ]; then sudo=sudo; fi
	if ! command -v apt-get >/dev/null || { [ -n "$sudo" ] && ! command -v sudo >/dev/null; }; then
		echo "missing:$wanted. This machine has no apt-get (or no sudo) to install them with: install them and put their programs on PATH." >&2
		exit 1
	fi
	echo "installing$wanted with apt-get"
	# A policy-rc.d that refuses keeps a package from starting a daemon at once; disabling services keeps them from starting at boot.
	policy=/usr/sbin/policy-rc.d
	if [ ! -e $policy ]; then
		trap '$sudo rm -f $policy' EXIT
		printf '#!/bin/sh\nexit 101\n' | $sudo tee $policy >/dev/null
		$sudo chmod 755 $policy
	fi
	$sudo apt-get update -qq
	# shellcheck disable=SC2086 # a list of packages
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $wanted >/dev/null
	if [ -d /run/systemd/system ]; then
		for service in redis-server haproxy prometheus; do
			case $wanted in *" $service"*) $sudo systemctl disable --quiet --now "$service" ;; esac
		done
	fi
fi

case " $* " in *" redis-server "*)
	redis-server --version | grep -qE 'v=([7-9]|[1-9][0-9]+)\.' || {
		echo "the tests need Redis 7.0 or newer; this is: $(redis-server --version)" >&2
		exit 1
	}
	;;
esac
