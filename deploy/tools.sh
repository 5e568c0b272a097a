#!/bin/sh
# Installs the programs that the demonstration runs (Prometheus with promtool, Alertmanager with
# amtool) and, with the argument `test`, those that only the tests run (a C compiler for the stand-in
# of NVML, VictoriaMetrics with vmalert). Called by make; does nothing when they are there.
set -eu

missing=""
packages=""
# need PROGRAM PACKAGE [OTHER NAME OF THE PROGRAM]
need() {
    command -v "$1" >/dev/null 2>&1 && return
    [ -n "${3:-}" ] && command -v "$3" >/dev/null 2>&1 && return
    missing="$missing $1"
    case " $packages " in *" $2 "*) ;; *) packages="$packages $2" ;; esac
}
need prometheus prometheus
need promtool prometheus
need amtool prometheus-alertmanager
need alertmanager prometheus-alertmanager prometheus-alertmanager
if [ "${1:-}" = test ]; then
    need gcc gcc
    need victoria-metrics victoria-metrics
    need vmalert victoria-metrics
    # The compiler's package only recommends the C library's headers.
    case " $packages " in *" gcc "*) packages="$packages libc6-dev" ;; esac
fi
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "make tools: missing:$missing" >&2
    echo "On Debian or Ubuntu: sudo apt-get install$packages" >&2
    echo "Elsewhere: put the programs of the releases of prometheus/prometheus," >&2
    echo "prometheus/alertmanager and VictoriaMetrics/VictoriaMetrics on GitHub into a folder of PATH." >&2
    exit 1
fi

# The packages would start their services, which nobody asked for; this is Debian's way to say no.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' INT TERM HUP
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
echo "make tools: installing$packages"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086  # a list of packages
apt-get install -qq --yes --no-install-recommends $packages >/dev/null
