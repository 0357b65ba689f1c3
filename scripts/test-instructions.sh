#!/usr/bin/env bash
# Counts the instructions of short messages over postboxes by callgrind, and compares them with tests/instructions/expected.txt:
#
#   PREFIX=dir scripts/test-instructions.sh      PREFIX: an installed tree, default build/install
#   UPDATE=1 ...                                 write what was counted to the file and to the table in ARCHITECTURE.md
#
# Nothing is timed. Judged is the ratio to tests/instructions/reference.rs, the bare work in the same language, which is built by the
# same compiler in the same run: it may be 5 % above what is expected. More than 5 % below asks for an update. The file is about a build
# as `make build` makes it, on x86-64.
set -u
cd "$(dirname "$0")/.."
prefix=$(cd "${PREFIX:-build/install}" && pwd) || exit 1
[ "$(uname -m)" = x86_64 ] || { echo "ok   instructions: expected counts are of x86-64"; exit 0; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
mkdir "$work/meet"
"${RUSTC:-rustc}" --edition 2024 --crate-type staticlib -C opt-level=3 -C codegen-units=1 -C panic=abort \
    -o "$work/libreference.a" tests/instructions/reference.rs &&
    "$prefix/bin/mpicc" -O2 tests/instructions/calls.c "$work/libreference.a" -o "$work/calls" || exit 1
# A waiting rank would sleep, and be rung by the other, if it waited in a call.
# shellcheck disable=SC2016
timeout 120 "$prefix/bin/mpiexec" -n 2 valgrind --tool=callgrind --collect-atstart=no \
    --callgrind-out-file="$work/out.%q{FARPOST_RANK}" "$work/calls" "$work/meet" >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; exit 1; }
UPDATE=${UPDATE:-0} python3 - "$work" <<'END'
import glob, os, re, sys

EXPECTED, PAGE, MARGIN = "tests/instructions/expected.txt", "ARCHITECTURE.md", 0.05
HEAD = """# Instructions of a call, counted by scripts/test-instructions.sh (UPDATE=1 writes them), and their ratio to those of
# tests/instructions/reference.rs, which is what is judged.
"""
totals = {}
for path in glob.glob(sys.argv[1] + "/out.*"):
    text = open(path, encoding="utf-8", errors="replace").read()
    name = re.search(r"^desc: Trigger: Client Request: (.+) (\d+)$", text, re.M)
    total = re.search(r"^(?:totals|summary): (\d+)", text, re.M)
    if name and total and name[1] != "-":
        totals.setdefault(name[1], {})[int(name[2])] = int(total[1])
each = {name: (counts[22] - counts[2]) / 20 for name, counts in totals.items()}
nothing = [each.pop("nothing"), each.pop("nothing.1")]
counted = {name: round(count - nothing["Recv" in name or "Irecv" in name]) for name, count in each.items()}
reference = counted.pop("reference")
found = {name: (count, count / reference) for name, count in sorted(counted.items())}
page = open(PAGE, encoding="utf-8").read()
# In the page a count stands before the name of its call in a comment.
marks = re.compile(r"\d+(<!-- (MPI_\S+) -->)")
if os.environ["UPDATE"] == "1":
    with open(EXPECTED, "w", encoding="utf-8") as file:
        file.write(HEAD)
        file.writelines(f"{name} {count} {ratio:.3f}\n" for name, (count, ratio) in found.items())
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(marks.sub(lambda m: f"{found[m[2]][0]}{m[1]}", page))
lines = [line.split() for line in open(EXPECTED, encoding="utf-8") if not line.startswith("#")]
expected = {name: (int(count), float(ratio)) for name, count, ratio in lines}
failed = expected.keys() ^ found.keys()
for name in failed:
    print(f"FAIL {name}: {'not counted' if name in expected else 'not in ' + EXPECTED}")
for name in sorted(expected.keys() & found.keys()):
    (count, ratio), (_, before) = found[name], expected[name]
    change = ratio / before - 1
    line = f"{name}: {count} instructions, {ratio:.2f} times the reference's {reference}, expected {before:.2f}"
    if abs(change) > MARGIN:
        failed = True
        print(f"FAIL {line}: {change:+.0%}" + ("" if change > 0 else "; UPDATE=1 scripts/test-instructions.sh writes what is better now"))
    else:
        print(f"ok   {line}")
shown = {m[2]: int(m[0].split("<")[0]) for m in marks.finditer(page if os.environ["UPDATE"] != "1" else open(PAGE, encoding="utf-8").read())}
for name, (count, _) in expected.items():
    if name in ("MPI_Send", "MPI_Recv") and shown.get(name) != count:
        failed = True
        print(f"FAIL {PAGE} says {shown.get(name)} of {name}, {EXPECTED} {count}")
sys.exit(1 if failed else 0)
END
