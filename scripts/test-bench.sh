#!/bin/sh
# Run the benchmarks of layers once with tiny sizes: scripts/test-bench.sh. PREFIX is the install tree (build/install).
#
# Figures are not judged; every layer must have some, and products of matrices are checked by the benchmark itself. Instructions of
# short messages are counted and judged (scripts/test-instructions.sh).
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
cd "$root"
farpost=${PREFIX:-build/install}/bin/farpost
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
failed=0

# judge NAME LAYERS OPTIONS...: the command's JSON has no missing layer, and as many different layers as expected.
judge() {
    name=$1 layers=$2
    shift 2
    if ! timeout 240 "$farpost" bench "$name" "$@" --json "$work/$name.json" --plot "$work/$name.png" >"$work/log" 2>&1; then
        echo "FAIL $name:"
        cat "$work/log"
        failed=1
    elif ! python3 - "$work/$name.json" "$layers" <<'END'
import json, sys
result = json.load(open(sys.argv[1], encoding="utf-8"))
if result.get("missing"):
    sys.exit("; ".join(f"{m['layer']}: {m['why']}" for m in result["missing"]))
rows = result.get("rows") or result["points"]
found = len({row.get("layer") or row.get("what") or row["n"] for row in rows})
if found != int(sys.argv[2]):
    sys.exit(f"{found} rows of different layers, expected {sys.argv[2]}")
END
    then
        echo "FAIL $name"
        failed=1
    elif ! [ -s "$work/$name.png" ]; then
        echo "FAIL $name: no plot"
        failed=1
    else
        echo "ok $name"
    fi
}

few="--rounds 1 --trials 1 --trial-us 20"
# shellcheck disable=SC2086
{
    judge layers 27 $few --sizes 8,16,56,64,88,128
    judge logp 6 $few
    judge rsm 3 $few --sizes 8,56,64,4096
    judge fm 6 $few --sizes 8,16,128,4096
    judge jam 7 $few --sizes 8,88,4096
    judge portals 21 $few --sizes 1,8,64,4096,300000 --figures "$work/figures"
    judge interfaces 8 $few --skip-memory
}
# The figures of the paper that Portals is measured like: each is drawn.
for figure in 4 5 6 7; do
    [ -s "$work/figures/figure$figure.png" ] || { echo "FAIL portals: no figure $figure"; failed=1; }
done
# The papers' numbers on this machine: its column has them, and no layer is missing.
if ! timeout 240 "$farpost" paper xt3 --here >"$work/log" 2>&1 || grep -q "not measured here" "$work/log" ||
    ! grep -qE '^P1 .* [0-9.]+ us$' "$work/log" || ! grep -qE '^P5 .* -$' "$work/log"; then
    echo "FAIL paper --here:"
    cat "$work/log"
    failed=1
else
    echo "ok paper --here"
fi
# judge_points NAME CONDITION OPTIONS...: what is true of the points of the command's JSON, and what arrived is checked by the benchmark.
judge_points() {
    name=$1 condition=$2
    shift 2
    if ! timeout 120 "$farpost" bench "$name" "$@" --trials 2 --trial-ms 1 --json "$work/points.json" --plot "$work/points.png" >"$work/log" 2>&1; then
        echo "FAIL $name:"
        cat "$work/log"
        failed=1
    elif ! python3 -c 'import json, sys; p = json.load(open(sys.argv[1], encoding="utf-8"))["points"]; assert eval(sys.argv[2]), p' \
        "$work/points.json" "$condition" || ! [ -s "$work/points.png" ]; then
        echo "FAIL $name: $condition"
        failed=1
    else
        echo "ok $name $*"
    fi
}
shape='[(x["pairs"], x["bytes"]) for x in p] == [(1, 8), (2, 8), (1, 4096), (2, 4096)]'
sums='all(len(x["each_megabytes_per_s"]) == x["pairs"] and x["all_megabytes_per_s"]["median"] > 0 for x in p)'
judge_points pairs "$shape and $sums" -n 4 --sizes 8,4k
judge_points pairs "$shape and $sums" -n 4 --sizes 8,4k --bidirectional
judge_points pairs "$shape and $sums" -n 4 --sizes 8,4k --pingpong
judge_points pairs 'len(p) == 4 and {x["layer"] for x in p} == {"rsm-put", "fm-send"}' --layers rsm-put,fm-send --pairs 2 --sizes 8,64
others='[(x["bytes"], x["others"]) for x in p] == [(8, 0), (8, 1), (8, 2)] and all((x["others_megabytes_per_s"] > 0) == (x["others"] > 0) for x in p)'
judge_points load "$others" -n 6 --sizes 8
judge_points load "$others" -n 6 --sizes 8 --stream 16k
# All collectives, as many bytes as the definitions of bandwidth say.
judge_points collectives 'len(p) == 15 and all((x["megabytes_per_s"] > 0) == (x["op"] != "barrier") for x in p)' -n 3 --sizes 1k
judge matmul 3 --trials 1 -n 3 --sizes 1,65,200
# Results are checked by the benchmark; how many pieces there are follows from the problem, and of each at most one was stolen.
pieces='[(x["what"], x["spawned"]) for x in p] == [("8 queens", 50), ("fib(20)", 7)] and all(0 <= x["stolen"] <= x["spawned"] and x["speed_up"] > 0 for x in p)'
judge_points cilk "$pieces" -n 3 --queens 8 --fibonacci 20
PREFIX=${PREFIX:-build/install} scripts/test-instructions.sh || failed=1
exit $failed
