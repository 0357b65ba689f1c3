#!/bin/sh
# What `make build` runs: an optimised build that does not contain the paths of the machine it was built on.
#
# Messages of panics name source files. Those of this project are relative already; those of its dependencies lie in
# Cargo's home, and what build scripts write in the target directory. Only the release profile is built with these flags,
# and only here, so that nothing is built twice for them.
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
home=${CARGO_HOME:-$HOME/.cargo}
sysroot=$("${RUSTC:-rustc}" --print sysroot)

# The last of several that fit counts: the target directory is usually inside the checkout.
flag() { printf -- '--remap-path-prefix=%s=%s' "$1" "$2"; }
set -- "$(flag "$home" /cargo)" "$(flag "$sysroot/lib/rustlib/src/rust" /rust)" "$(flag "$PWD" .)"
case ${CARGO_TARGET_DIR:-} in /*) set -- "$@" "$(flag "$CARGO_TARGET_DIR" target)" ;; esac

# Added to the flags that Cargo would have taken: from the environment, else from its configuration for targets.
unit=$(printf '\037')
if [ -n "${CARGO_ENCODED_RUSTFLAGS:-}" ] || [ -n "${RUSTFLAGS:-}" ]; then
    # Without an encoded form, blanks separate flags.
    all=${CARGO_ENCODED_RUSTFLAGS:-$(printf '%s' "$RUSTFLAGS" | tr -s ' ' "$unit")}
    for flag in "$@"; do all=$all$unit$flag; done
    CARGO_ENCODED_RUSTFLAGS=$all exec "$cargo" build --release --workspace
fi
list=
for flag in "$@"; do list="$list'''$flag''', "; done
exec "$cargo" build --release --workspace --config "target.'cfg(all())'.rustflags=[$list]"
