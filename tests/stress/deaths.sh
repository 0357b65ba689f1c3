# Ranks and launchers that meet their end anywhere: deaths.py, with points drawn from the content of the commit. Run by
# scripts/test-programs.sh.
[ "$FARPOST" = 1 ] || { echo "skip stress/deaths: what is said and left behind is promised by Farpost only"; exit 0; }
"$CC" -O1 -Wall -o "$BIN/deaths" "$ROOT/tests/stress/cases/deaths.c" -lpthread || exit 1
chmod a+rx "$BIN" "$BIN/deaths"
exec python3 "$ROOT/tests/stress/deaths.py" --mpiexec "$MPIEXEC" --program "$BIN/deaths" --tree "$("$ROOT/scripts/tree.sh")" ${FULL:+--rounds 200}
