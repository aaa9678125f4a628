#!/bin/sh
# Makes the certificates and callers of compose.yaml, and hands them out: a directory for each program.
#
# With a directory `bucket`, which machines.yaml mounts, it also makes the password of the S3 server there. It makes
# only what is missing. Arguments are a command of `toehold` that changes certificates or callers:
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

certificate frontier --host frontier --host frontier-1 --host frontier-2 --host frontier-3 --host localhost \
    --host 127.0.0.1
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

if test -d bucket; then
    if ! test -e authority/bucket.env; then
        secret=$(python3 -c 'import secrets; print(secrets.token_urlsafe(30))')
        printf 'AWS_ACCESS_KEY_ID=toehold\nAWS_SECRET_ACCESS_KEY=%s\n' "$secret" >authority/bucket.new
        mv authority/bucket.new authority/bucket.env
    fi
    hand_out authority/bucket.env frontier/bucket.env
    sed 's/AWS_ACCESS_KEY_ID/MINIO_ROOT_USER/; s/AWS_SECRET_ACCESS_KEY/MINIO_ROOT_PASSWORD/' authority/bucket.env \
        >authority/server.env
    hand_out authority/server.env bucket/server.env
fi
