#!/usr/bin/env bash
# interface: portals3
# The module of NetPIPE for Portals (examples/netpipe), called as NetPIPE calls it, with the data looked at: put and get, to and fro, in streams,
# both ways at once, with one buffer and with pools. NETPIPE=DIR, NetPIPE's src: run by NetPIPE itself, too. Run by scripts/test-programs.sh.
set -u
work=$(mktemp -d "$BIN/netpipe.XXXXXX")
trap 'rm -rf "$work"' EXIT
export PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig
flags=$(pkg-config --cflags --libs farpost-portals3)
module=$ROOT/examples/netpipe/portals3.c here=$ROOT/tests/interfaces/netpipe
# shellcheck disable=SC2086
cc -std=c99 -D_GNU_SOURCE -O1 -Wall -Wextra -I "$here" -o "$work/driver" "$module" "$here/driver.c" $flags ||
    { echo "FAIL portals_netpipe: does not compile"; exit 1; }
# run NAME SETTING WANTED COMMAND...: the command says WANTED under the setting
run() {
    local name=$1 setting=$2 wanted=$3 said
    shift 3
    said=$(cd "$work" && env $setting timeout -k 5 120 "$MPIEXEC" -n 2 "$@" 2>&1 </dev/null)
    if [ $? = 0 ] && grep -q "$wanted" <<<"$said"; then
        echo "ok   portals_netpipe $name"
    else
        echo "FAIL portals_netpipe $name: $(tail -c 400 <<<"$said")"
    fi
}
for move in put get; do
    for way in pingpong stream both; do
        for memory in "cache 0 0" "cache 3 8" "pool 0 0" "pool 5 5"; do
            # shellcheck disable=SC2086
            run "$move $way $memory" A=1 'all went well' ./driver $move $way $memory
        done
        run "$move $way accelerated" FARPOST_PORTALS=accelerated 'all went well' ./driver $move $way cache 0 0
        run "$move $way generic" FARPOST_PORTALS=generic 'all went well' ./driver $move $way pool 0 0
    done
done
if [ -n "${NETPIPE:-}" ]; then
    # shellcheck disable=SC2086
    cc -O2 -w -fcommon -DMPI -DMPI2 -I "$NETPIPE" -o "$work/NPportals" "$module" "$NETPIPE/netpipe.c" $flags ||
        { echo "FAIL portals_netpipe: NetPIPE does not compile"; exit 1; }
    for options in "" -s -2 -g "-g -s" "-g -2" -I "-I -g" -i; do
        # shellcheck disable=SC2086
        run "NetPIPE $options" A=1 '52428[89] bytes.*\(Mbps\|passed\)' ./NPportals -u 600000 -n 20 $options
    done
fi
