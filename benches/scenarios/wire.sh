#!/usr/bin/env bash
# wire.sh SEED MILLPOND: a practice server behind a link of 2 x SEED Mbit/s, in a network namespace that goes when it ends.
set -eu
name=mp$$
clean() { ip netns del "$name" 2> /dev/null || true; ip link del "${name}o" 2> /dev/null || true; }
trap 'kill "$server"; wait "$server" || true' TERM INT
trap clean EXIT
ip netns add "$name"
ip link add "${name}o" type veth peer name "${name}i" netns "$name"
ip addr add 10.123.0.1/24 dev "${name}o"
ip link set "${name}o" up
ip -n "$name" addr add 10.123.0.2/24 dev "${name}i"
ip -n "$name" link set "${name}i" up
tc qdisc add dev "${name}o" root tbf rate "$((2 * $1))mbit" burst 4kb latency 400ms
ip netns exec "$name" "$2" press practice --listen 10.123.0.2:7070 --seed "$1" --request-bytes 4000 &
server=$!
wait "$server"
