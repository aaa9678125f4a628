#!/bin/sh
# Makes the certificates and callers of compose.yaml, and hands them out: a directory for each program.
#
# Makes only what is missing. Arguments are a command of `toehold` that changes certificates or callers:
# `credentials.sh certs create node --renew`. DIRECTORY is where the volumes are mounted.
set -eu
umask 077
cd "${DIRECTORY:-/credentials}"

certificate() {
    test -e "authority/certs/$1.crt" || (cd authority && toehold certs create "$@")
}

caller() {
    grep -qs "^\[callers\.$1\]" authority/callers.toml || (cd authority && toehold callers set "$@")
}

# Programs read a file again when it changes, so it is replaced at once.
hand_out() {
    if ! cmp -s "$1" "$2"; then
        cp "$1" "$2.new"
        mv "$2.new" "$2"
    fi
}

certificate frontier --host frontier --host localhost --host 127.0.0.1
certificate node --host node-1 --host node-2 --host node-3 --host localhost --host 127.0.0.1
certificate operator
certificate console
caller node --role fetch --node 'node-*'
caller operator --role admin

if test $# -gt 0; then
    (cd authority && toehold "$@")
fi

for program in frontier node operator console; do
    hand_out authority/certs/ca.crt "$program/ca.crt"
    # The key first: a program that reads both in between finds that they differ, and keeps the former ones.
    hand_out "authority/certs/$program.key" "$program/tls.key"
    hand_out "authority/certs/$program.crt" "$program/tls.crt"
done
hand_out authority/callers.toml frontier/callers.toml
hand_out authority/callers.toml node/callers.toml
