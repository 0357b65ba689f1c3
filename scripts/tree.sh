#!/usr/bin/env bash
# What the choice of tests that do not always run is made from: the content of the commit, so that a commit's verdict is
# a property of the commit and of nothing else.
#
#   scripts/tree.sh            the tree: TREE if it is set, else that of git's index, else (no git) a constant; 40 hexadecimal digits
#   scripts/tree.sh --number   a number made from it, below 2^31: turns and seeds
#
# TREE=... repeats a choice: any word of hexadecimal digits.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd -P)
without_git=5fbe1e3c41d3a3aa7fa4e1ea11d4e9ad12a1e59a

tree=${TREE:-}
if [ -z "$tree" ]; then
    # Of this checkout, not of one that it was unpacked in.
    top=$(git -C "$root" rev-parse --show-toplevel 2>/dev/null) || top=
    if [ -n "$top" ] && [ "$(cd "$top" && pwd -P)" = "$root" ]; then
        # An index in the middle of a merge has no tree.
        tree=$(git -C "$root" write-tree 2>/dev/null) || tree=$(git -C "$root" rev-parse 'HEAD^{tree}' 2>/dev/null) || tree=
    fi
fi
tree=${tree:-$without_git}
case $tree in
*[!0-9a-f]*) echo "tree.sh: TREE=$tree: must be hexadecimal digits (0-9, a-f), as git write-tree prints" >&2; exit 2 ;;
esac
case ${1:-} in
'') echo "$tree" ;;
--number) echo $((16#${tree:0:8} & 0x7fffffff)) ;;
*) echo "usage: tree.sh [--number]" >&2; exit 2 ;;
esac
