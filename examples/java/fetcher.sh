#!/bin/sh
# Starts the fetcher that is built beside this script.
here=$(dirname "$0")
exec java -cp "$here/toehold-fetcher.jar:$here/lib/*" toehold.examples.Fetcher "$@"
