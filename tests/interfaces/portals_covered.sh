#!/usr/bin/env bash
# Every code that the table says a call of Portals may give is given to a program of this directory, which checks it with
# REFUSED or GIVES; exceptions are named here with the test that has them instead.
set -u
python3 - "${ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}" <<'EOF'
import pathlib, re, sys

root = pathlib.Path(sys.argv[1])
functions = (root / "api/portals3.toml").read_text().split("[[function]]")[1:]
programs = "\n".join(path.read_text() for path in sorted(root.glob("tests/interfaces/portals_*.c")))
seen = set(re.findall(r"(?:REFUSED|GIVES)\(\s*(PTL_\w+),[^;]*?\b(Ptl\w+)\(", programs))

# What a program cannot bring about when it wants to: where it is tested.
ROOM = "operations_without_room in crates/portals/src/library/tests/codes.rs"
BUSY = "unlinking_until_it_works in crates/portals/tests/interface_life.rs, unlink_while_an_operation_is_in_flight in the library's tests"
ELSEWHERE = {
    ("PTL_NO_SPACE", "PtlPut"): ROOM,
    ("PTL_NO_SPACE", "PtlPutRegion"): ROOM,
    ("PTL_NO_SPACE", "PtlGet"): ROOM,
    ("PTL_NO_SPACE", "PtlGetRegion"): ROOM,
    ("PTL_NO_SPACE", "PtlGetPut"): ROOM,
    ("PTL_MD_IN_USE", "PtlMDUnlink"): BUSY,
    ("PTL_ME_IN_USE", "PtlMEUnlink"): BUSY,
    ("PTL_FAIL", "PtlNIInit"): "the job cannot be joined: tests of farpost-job",
    ("PTL_FAIL", "PtlJobFence"): "the job is ending: tests of farpost-job",
}

missing = []
for function in functions:
    name = re.search(r'^name = "(\w+)"', function, re.M).group(1)
    for code in re.findall(r'code = "(\w+)"', function):
        pair = (code, name)
        if pair not in seen and pair not in ELSEWHERE:
            missing.append("{1} gives {0}".format(*pair))
        if pair in seen and pair in ELSEWHERE:
            missing.append("{1} gives {0} to a program: it is no exception".format(*pair))
for line in missing:
    print(f"portals: {line}: no test")
print("FAIL interfaces/portals_covered" if missing else "ok   interfaces/portals_covered")
sys.exit(bool(missing))
EOF
