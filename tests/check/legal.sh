# Legal programs run under FARPOST_CHECK without a finding and as they do without: those of tests/mpi, tests/programs and
# examples, with 2 and 3 ranks. Run by scripts/test-programs.sh, which sets PREFIX, MPIEXEC, CC, BIN, LOGS, ROOT, FARPOST.
set -u
[ "$FARPOST" = 1 ] || { echo "skip check/legal: is about Farpost only"; exit 0; }

# Not run: pingpong, which measures for long; buffers that overlap on purpose (conformance). Gigabytes of messages take a minute each when
# they are compared: with FULL only.
skipped=' conformance pingpong '
[ -n "${FULL:-}" ] || skipped+='p2p_large p2p_overrun '
for source in "$ROOT"/tests/mpi/*.c "$ROOT"/tests/programs/*.c "$ROOT"/examples/*.c; do
    name=$(basename "$source" .c)
    case $skipped in *" $name "*) continue ;; esac
    ! head -12 "$source" | grep -q '^// interface:' || continue
    exe=$BIN/legal_$name
    "$CC" -std=gnu11 -O1 -g -DFARPOST -I"$ROOT/tests/mpi" -o "$exe" "$source" -lm -lpthread || { echo "FAIL check/legal $name: does not compile"; continue; }
    ranks=$(sed -n '1,12s|^// *ranks: *||p' "$source" | head -1)
    for n in 2 3; do
        case " ${ranks:-2 3} " in *" $n "*) ;; *) continue ;; esac
        text=$BIN/legal.txt
        CHECK_SECONDS=100 timeout -k 5 110 "$MPIEXEC" --check=all,error -n $n "$exe" </dev/null >"$text" 2>&1
        code=$?
        if [ $code -eq 0 ] && ! grep -aq 'farpost: check' "$text"; then
            echo "ok   check/legal $name -n $n"
        else
            echo "FAIL check/legal $name -n $n: exit code $code; $(grep -am1 'farpost: check' "$text" | cut -c1-300)"
            cp "$text" "$LOGS/check_legal_$name-$n.log"
        fi
    done
    rm -f "$exe"
done
