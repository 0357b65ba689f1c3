"""Which part of the tests runs where not all do: made from the content of the commit."""

import os
import subprocess

from hosts import ROOT


def turn_of_tree():
    """The number that scripts/tree.sh makes from the tree; the environment variable TREE repeats another one's."""
    return int(subprocess.run([os.path.join(ROOT, "scripts", "tree.sh"), "--number"], capture_output=True, text=True, check=True).stdout)
