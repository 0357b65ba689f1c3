#!/usr/bin/env bash
# coverage.md against the tree: every file and every test that it names exists, and each section of the standard that a test
# cites ("MPI-5.0 section 3.5") has a row. Run by scripts/test-programs.sh.
set -u
python3 - "${ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}" <<'PY'
import pathlib, re, sys

root = pathlib.Path(sys.argv[1])
folders = ["tests/mpi", "tests/badinput", "tests/programs", "crates/mpi/tests", "crates/mpi/src"]
files = {}
for folder in folders:
    for path in (root / folder).rglob("*") if folder.startswith("crates") else (root / folder).glob("*"):
        if path.suffix in (".c", ".h", ".rs", ".sh") and path.is_file():
            files.setdefault(path.name, []).append(path)
wrong, sections, without = [], set(), 0
rows = [line for line in (root / "tests/mpi/coverage.md").read_text().splitlines() if re.match(r"\| \d", line)]
for line in rows:
    cells = [cell.strip() for cell in line.strip("|").split(" | ")]
    if len(cells) != 4:
        wrong.append(f"not four cells: {line}")
        continue
    section, what, code, tests = cells
    sections.add(section)
    code = code.strip("`")
    place = root / ("crates/capi/src/" + code[len("capi/"):] if code.startswith("capi/") else "crates/mpi/src/" + code)
    if not place.is_file():
        wrong.append(f"{section}: there is no {place.relative_to(root)}")
    if tests == "**none**":
        without += 1
        continue
    for test in tests.split(";"):
        name, _, case = (part.strip() for part in test.strip().partition(":"))
        if name not in files:
            wrong.append(f"{section}: there is no test file {name}")
        elif case and not any(
            re.search(rf"TEST\({case}\)|\bfn {case}\(|\b{case}\b.*\bin\b", path.read_text()) for path in files[name]
        ):
            wrong.append(f"{section}: {name} has no test {case}")
for paths in files.values():
    for path in paths:
        if "src" in path.parts and "tests" not in path.parts and path.name != "tests.rs":
            continue
        for section in re.findall(r"MPI-5\.0 section (\d+(?:\.\d+)*)", path.read_text()):
            if not any(row == section or row.startswith(section + ".") for row in sections):
                wrong.append(f"{path.relative_to(root)} cites section {section}, which has no row")
if len(rows) < 100:
    wrong.append(f"{len(rows)} rows: the table cannot be read")
for line in wrong:
    print(f"coverage: {line}")
if wrong:
    print(f"FAIL mpi/coverage: {len(wrong)} entries")
else:
    print(f"ok   mpi/coverage: {len(rows)} requirements, {without} without a test")
sys.exit(bool(wrong))
PY
