#!/bin/sh
# kafkalog @VERSION@ with a Python of its own, for Linux on x86-64: unpacks itself once, and starts from there.
set -eu
fail() {
    echo "kafkalog: $1" >&2
    exit 4
}
if [ -n "${KAFKALOG_HOME:-}" ]; then
    parent=$KAFKALOG_HOME
elif [ -n "${XDG_CACHE_HOME:-${HOME:-}}" ]; then
    parent=${XDG_CACHE_HOME:-$HOME/.cache}/kafkalog
else
    fail "there is no home directory to unpack into: set KAFKALOG_HOME to a directory"
fi
place=$parent/@DIGEST@
if [ ! -d "$place" ]; then
    [ "$(uname -sm)" = "Linux x86_64" ] || fail "this file is for Linux on x86-64, and this is $(uname -sm)"
    mkdir -p "$parent" 2> /dev/null && new=$(mktemp -d "$parent/new.XXXXXX" 2> /dev/null) ||
        fail "cannot write to $parent: set KAFKALOG_HOME to a directory to unpack into"
    trap 'rm -rf "$new"' EXIT
    tail -n +@LINES@ "$0" | gzip -dc 2> /dev/null | tar -xf - -C "$new" 2> /dev/null ||
        fail "cannot unpack into $parent: this file is cut short, or the disk is full"
    chmod 755 "$new"
    mv -T "$new" "$place" 2> /dev/null || [ -d "$place" ] || fail "cannot unpack into $parent"
    rm -rf "$new"
    trap - EXIT
fi
# what another user could have put there is not run
[ -O "$place" ] || [ "$(stat -c %u "$place")" = 0 ] ||
    fail "$place belongs to another user: set KAFKALOG_HOME to a directory of your own"
exec "$place/bin/python3.11" -I -m kafkalog "$@"
