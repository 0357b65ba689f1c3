"""farpost paper, run as a user runs it: every row of the four papers, and their figures."""

import os
import re
import subprocess
import tempfile
import unittest

FARPOST = os.path.join(os.environ["PREFIX"], "bin", "farpost")
# Figures of each paper that are drawn.
FIGURES = {"sun": 2, "fm": 10, "startx": 3, "xt3": 4}


def paper(*arguments):
    command = [FARPOST, "paper", *arguments]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)


class Papers(unittest.TestCase):
    def test_no_row_is_off_and_the_figures_are_drawn(self):
        with tempfile.TemporaryDirectory(prefix="farpost-paper.") as directory:
            # What takes longer than a minute is for `make test-full`.
            full = ["--full"] if os.environ.get("FULL") == "1" else []
            done = paper(*full, "--figures", directory)
            self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr)
            sums = re.findall(r"^\d+ rows, .*, (\d+) off$", done.stdout, re.MULTILINE)
            self.assertEqual(sums, ["0"] * 4, done.stdout)
            for name, least in FIGURES.items():
                drawn = [file for file in os.listdir(directory) if file.startswith(name)]
                for kind, magic in [(".svg", b"</svg>"), (".png", b"\x89PNG")]:
                    files = [file for file in drawn if file.endswith(kind)]
                    self.assertGreaterEqual(len(files), least, drawn)
                    for file in files:
                        with open(os.path.join(directory, file), "rb") as content:
                            self.assertIn(magic, content.read(), file)

    def test_an_unknown_paper_is_one_line(self):
        done = paper("t3e")
        self.assertEqual(done.returncode, 2)
        self.assertIn("allowed are sun, fm, startx, xt3", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
