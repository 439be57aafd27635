#!/usr/bin/env bash
# timed.sh LOG COMMAND …: seconds that a command takes, which must succeed. What make and cargo set for the bench is taken away: it would
# make a make or cargo below behave differently, and build again what is built.
set -eu
log=$1
shift
kept=(HOME="$HOME" PATH="$PATH")
for name in CARGO_HOME CARGO_TARGET_DIR RUSTUP_HOME PYTHON; do
    [ -z "${!name-}" ] || kept+=("$name=${!name}")
done
TIMEFORMAT=%R
{ time env -i "${kept[@]}" "$@" >> "$log" 2>&1; } 2>&1
