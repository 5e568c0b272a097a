#!/bin/sh
# Installs the servers that the tests and the demonstration run: Prometheus with promtool, and
# Alertmanager with amtool. Called by `make tools`; does nothing when they are there.
set -eu

missing=""
for program in prometheus promtool amtool; do
    command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
done
command -v prometheus-alertmanager >/dev/null 2>&1 || command -v alertmanager >/dev/null 2>&1 ||
    missing="$missing alertmanager"
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "make tools: missing:$missing" >&2
    echo "On Debian or Ubuntu: sudo apt-get install prometheus prometheus-alertmanager" >&2
    echo "Elsewhere: put the programs of the releases of prometheus/prometheus and" >&2
    echo "prometheus/alertmanager on GitHub into a folder of PATH." >&2
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
echo "make tools: installing$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq --yes --no-install-recommends prometheus prometheus-alertmanager >/dev/null
