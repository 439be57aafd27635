#!/usr/bin/env bash
# wrk.sh URL CONNECTIONS SECONDS CORE: microseconds of processor time that wrk takes for a request, on that core.
set -eu
TIMEFORMAT='%U %S'
used=$( { time taskset -c "$4" wrk -t1 -c"$2" -d"$3" "$1" > /tmp/wrk.$$ 2>&1; } 2>&1 )
requests=$(awk '/ requests in /{print $1}' /tmp/wrk.$$)
rm /tmp/wrk.$$
echo "$used $requests" | awk '{print ($1 + $2) * 1e6 / $3}'
