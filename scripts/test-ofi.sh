#!/usr/bin/env bash
# The libfabric fabric's tests with newer libraries than the system's: those inside other MPI libraries' packages, where these
# are there or can be had (scripts/fetch-peers.sh); the system's is `cargo test`'s matter. Without any it says so, and this is no
# failure.
#
#   scripts/test-ofi.sh [LIBRARY...]     default: those of the packages openmpi and impi-rt
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
if [ $# = 0 ]; then
    seen=
    while read -r _ directory; do
        while IFS= read -r library; do
            # The same file in two packages is tested once.
            sum=$(sha256sum <"$library")
            case $seen in *"$sum"*) continue ;; esac
            seen="$seen $sum"
            set -- "$@" "$library"
        done < <(find "$directory" -name libfabric.so.1)
    done < <("$here/scripts/fetch-peers.sh" openmpi impi-rt)
fi
if [ $# = 0 ]; then
    echo "*** SKIPPED: newer versions of libfabric: the packages that have them could not be had"
    exit 0
fi
list=
for library in "$@"; do
    library=$(realpath "$library") || exit 1
    echo "tested with $library"
    list=$list${list:+:}$library
done
cd "$here" && FARPOST_TEST_OFI_LIBRARIES=$list timeout -k 30 900 "${CARGO:-cargo}" test -q -p farpost-ofi --test ofi --test ofi_shim -- --nocapture 2>&1 |
    grep -v ': skipped, '
exit "${PIPESTATUS[0]}"
