#!/usr/bin/env bash
# Fetches other MPI libraries (as Python packages) to compare and to exchange programs with.
#
#   scripts/fetch-peers.sh [mpich|openmpi|impi-rt]...      default: all three
#
# Each lands in build/cache/peers/NAME with its own bin/, lib/ and include/; the path is printed, one line a
# peer, `NAME PATH`. A peer already there in the pinned version is not fetched again. TEST_CACHE, if set,
# takes the place of build/cache. Exit code 1 when a peer could not be fetched (the others still are).
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
cache=${TEST_CACHE:-$here/build/cache}
python=${PYTHON:-python3}

version_of() {
    case $1 in
    mpich) echo 5.0.2 ;;
    openmpi) echo 5.0.11 ;;
    impi-rt) echo 2021.19.0 ;;
    *) return 1 ;;
    esac
}

[ $# -gt 0 ] || set -- mpich openmpi impi-rt
mkdir -p "$cache/peers" || exit 1
# Two scripts may want the same peer at the same time: the second waits for the first.
exec 9>"$cache/peers/.lock"
flock 9
failed=0
for name in "$@"; do
    version=$(version_of "$name") || {
        echo "fetch-peers.sh: unknown peer '$name'; known are mpich, openmpi, impi-rt" >&2
        failed=1
        continue
    }
    dir=$cache/peers/$name
    if [ "$(cat "$dir/.version" 2>/dev/null)" != "$version" ]; then
        rm -rf "$dir" "$dir.part"
        mkdir -p "$dir.part"
        # Download and unpack rather than install: no scheme of any Python moves the files elsewhere, and nothing
        # of the caller's Python environment changes.
        if ! "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
            --dest "$dir.part" "$name==$version" >"$cache/peers/$name.log" 2>&1; then
            echo "fetch-peers.sh: could not download $name==$version with pip; see $cache/peers/$name.log" >&2
            rm -rf "$dir.part"
            failed=1
            continue
        fi
        "$python" - "$dir.part" <<'PY' || { rm -rf "$dir.part"; failed=1; continue; }
import glob, os, sys, zipfile

root = sys.argv[1]
for wheel in glob.glob(os.path.join(root, "*.whl")):
    with zipfile.ZipFile(wheel) as z:
        for entry in z.infolist():
            head, mark, name = entry.filename.partition(".data/data/")
            if not mark or entry.is_dir():
                continue
            path = os.path.join(root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with z.open(entry) as src, open(path, "wb") as dst:
                while block := src.read(1 << 20):
                    dst.write(block)
            os.chmod(path, 0o755 if name.startswith("bin/") or ".so" in name else 0o644)
    os.remove(wheel)
PY
        echo "$version" >"$dir.part/.version"
        mv "$dir.part" "$dir"
    fi
    echo "$name $dir"
done
exit $failed
