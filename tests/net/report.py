"""Lines of results, as the other test scripts print them."""

import os
import time

LOGS = os.environ.get("LOGS", os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "build/test-logs"))


class Report:
    """Counts cases; `end()` prints the counts and gives the exit code. A case may belong to a cell of a table, (row, column)."""

    def __init__(self):
        self.counts = {"ok": 0, "FAIL": 0, "skip": 0}
        self.began = self.latest = time.monotonic()
        self.cells = {}
        os.makedirs(LOGS, exist_ok=True)

    def _line(self, kind, name, text="", cell=None):
        self.counts[kind] += 1
        now = time.monotonic()
        if cell:
            counted = self.cells.setdefault(cell, [0, 0, 0.0])
            counted[kind == "FAIL"] += 1
            counted[2] += now - self.latest
        self.latest = now
        print(f"{kind:<4} {name}{': ' if text else ''}{text}", flush=True)

    def resume(self):
        """The time until now belongs to no case."""
        self.latest = time.monotonic()

    def ok(self, name, text="", cell=None):
        self._line("ok", name, text, cell)

    def skip(self, name, why):
        self._line("skip", name, why)

    def fail(self, name, why, log="", cell=None):
        """`log`: everything said, for a file."""
        if log:
            file = os.path.join(LOGS, "net-" + "".join(c if c.isalnum() or c in "-." else "_" for c in name) + ".log")
            with open(file, "w", encoding="utf-8") as f:
                f.write(log)
            why += f"; {file}"
        self._line("FAIL", name, why, cell)
        for line in [line for line in log.splitlines() if any(w in line for w in ("FAIL", "rror", "farpost", "mpiexec"))][:6]:
            print("       " + line[:300], flush=True)

    def table(self):
        """What was counted by cells: passed, failed if any, seconds."""
        columns = list(dict.fromkeys(column for _, column in self.cells))
        rows = list(dict.fromkeys(row for row, _ in self.cells))
        text = lambda cell: f"{cell[0]} ok{f', {cell[1]} FAILED' if cell[1] else ''}, {cell[2]:.0f} s" if cell else "-"
        lines = [["", *columns], *[[row, *[text(self.cells.get((row, column))) for column in columns]] for row in rows]]
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        return "\n".join("  ".join(word.ljust(width) for word, width in zip(line, widths)).rstrip() for line in lines)

    def end(self):
        counts = self.counts
        if self.cells:
            print(self.table(), flush=True)
        took = time.monotonic() - self.began
        print(f"{counts['ok']} passed, {counts['FAIL']} failed, {counts['skip']} skipped ({took:.0f} s)", flush=True)
        return 1 if counts["FAIL"] else 0
