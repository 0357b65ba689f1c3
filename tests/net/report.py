"""Lines of results, as the other test scripts print them."""

import os
import time

LOGS = os.environ.get("LOGS", os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "build/test-logs"))


class Report:
    """Counts cases; `end()` prints the counts and gives the exit code."""

    def __init__(self):
        self.counts = {"ok": 0, "FAIL": 0, "skip": 0}
        self.began = time.monotonic()
        os.makedirs(LOGS, exist_ok=True)

    def _line(self, kind, name, text=""):
        self.counts[kind] += 1
        print(f"{kind:<4} {name}{': ' if text else ''}{text}", flush=True)

    def ok(self, name, text=""):
        self._line("ok", name, text)

    def skip(self, name, why):
        self._line("skip", name, why)

    def fail(self, name, why, log=""):
        """`log`: everything said, for a file."""
        if log:
            file = os.path.join(LOGS, "net-" + "".join(c if c.isalnum() or c in "-." else "_" for c in name) + ".log")
            with open(file, "w", encoding="utf-8") as f:
                f.write(log)
            why += f"; {file}"
        self._line("FAIL", name, why)
        for line in [line for line in log.splitlines() if any(w in line for w in ("FAIL", "rror", "farpost", "mpiexec"))][:6]:
            print("       " + line[:300], flush=True)

    def end(self):
        counts = self.counts
        took = time.monotonic() - self.began
        print(f"{counts['ok']} passed, {counts['FAIL']} failed, {counts['skip']} skipped ({took:.0f} s)", flush=True)
        return 1 if counts["FAIL"] else 0
