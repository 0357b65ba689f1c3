#!/usr/bin/env bash
# coverage.md against the tree: every file and every test that it names exists and cites the section of the standard ("MPI-5.0
# section 3.5", "MPI-5.0 sections 3.7.1, 3.7.5"), each requirement has a test, and each section that a file cites has a row. Run by
# scripts/test-programs.sh.
set -u
python3 - "${ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}" <<'PY'
import functools, pathlib, re, sys

root = pathlib.Path(sys.argv[1])
folders = ["tests/mpi", "tests/badinput", "tests/programs", "crates/mpi/tests", "crates/mpi/src", "crates/rma/tests", "crates/rma/src"]
files = {}
for folder in folders:
    for path in (root / folder).rglob("*") if folder.startswith("crates") else (root / folder).glob("*"):
        if path.suffix in (".c", ".h", ".rs", ".sh") and path.is_file():
            files.setdefault(path.name, []).append(path)
wrong, sections = [], set()


@functools.lru_cache(None)
def cited(path):
    """Sections of the standard that comments of a file name; lists may go on in the next line."""
    text = re.sub(r"\n\s*(//[/!]?|#) ?", " ", path.read_text())
    number = r"\d+(?:\.\d+)*"
    lists = re.findall(rf"MPI-5\.0 (?:sections?|chapters?) ({number}(?:(?:,| and|, and)(?: chapter)? {number})*)", text)
    return {section for found in lists for section in re.findall(number, found)}


rows = [line for line in (root / "tests/mpi/coverage.md").read_text().splitlines() if re.match(r"\| \d", line)]
for line in rows:
    cells = [cell.strip() for cell in line.strip("|").split(" | ")]
    if len(cells) != 4:
        wrong.append(f"not four cells: {line}")
        continue
    section, what, code, tests = cells
    sections.add(section)
    code = code.strip("`")
    crate, _, file = code.partition("/")
    place = root / (f"crates/{crate}/src/{file}" if crate in ("capi", "rma") else "crates/mpi/src/" + code)
    if not place.is_file():
        wrong.append(f"{section}: there is no {place.relative_to(root)}")
    elif section not in cited(place):
        wrong.append(f"{section}: {place.relative_to(root)} does not cite it")
    for test in tests.split(";"):
        name, _, case = (part.strip() for part in test.strip().partition(":"))
        has = rf"TEST\({case}\)|\bfn {case}\(|\b{case}\b.*\bin\b"
        there = [path for path in files.get(name, []) if not case or re.search(has, path.read_text())]
        if not there:
            wrong.append(f"{section}, {what}: there is no test {test.strip()}")
        elif not any(section in cited(path) for path in there):
            wrong.append(f"{section}: {there[0].relative_to(root)} does not cite it")
for folder in ("crates/mpi/src", "crates/capi/src", "crates/rma/src", "crates/rma/tests", "crates/mpi/tests", "tests/mpi", "tests/badinput", "tests/programs"):
    for path in (root / folder).rglob("*"):
        if path.suffix not in (".c", ".h", ".rs", ".sh") or not path.is_file():
            continue
        for section in cited(path):
            if not any(row == section or row.startswith(section + ".") or section.startswith(row + ".") for row in sections):
                wrong.append(f"{path.relative_to(root)} cites section {section}, which has no row")
if len(rows) < 100:
    wrong.append(f"{len(rows)} rows: the table cannot be read")
for line in wrong:
    print(f"coverage: {line}")
if wrong:
    print(f"FAIL mpi/coverage: {len(wrong)} entries")
else:
    print(f"ok   mpi/coverage: {len(rows)} requirements with code and tests that cite them")
sys.exit(bool(wrong))
PY
