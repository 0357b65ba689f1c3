# Another process reads the counters of a running job: `farpost top`. Run by scripts/test-programs.sh.
set -um
[ "$FARPOST" = 1 ] || { echo "skip stress/top: farpost top is Farpost's"; exit 0; }
exe=$BIN/chatter top=$PREFIX/bin/farpost
"$CC" -O1 -Wall -o "$exe" "$ROOT/tests/stress/cases/chatter.c" || exit 1
check() { if [ "$2" = yes ]; then echo "ok   stress/top $1"; else echo "FAIL stress/top $1: $3"; fi; }

mkfifo "$BIN/input"
"$MPIEXEC" -n 2 "$exe" <"$BIN/input" >"$BIN/top.out" 2>&1 &
launcher=$!
exec 3>"$BIN/input"
for _ in $(seq 400); do
    grep -q ready "$BIN/top.out" && break
    sleep 0.05
done
# A rank adds to its counters when it is idle: rank 1 is, in its barrier; its 100 postboxes are there soon.
# By another device the barrier is messages, too.
most=100
[ "${FARPOST_DEVICE:-postbox}" = postbox ] || most=104
seen=
for _ in $(seq 200); do
    seen=$("$top" top $launcher 2>&1)
    echo "$seen" | awk -v most=$most '$1 == 1 && $4 >= 100 && $4 <= most { found = 1 } END { exit !found }' && break
    sleep 0.05
done
check 'counts what a rank sent' "$(echo "$seen" | awk -v most=$most '$1 == 1 && $3 == "running" && $4 >= 100 && $4 <= most { print "yes" }')" "$seen"
json=$("$top" top --json 2>&1)
check 'finds the job by itself, as JSON' "$(echo "$json" | grep -q "\"launcher\":$launcher," && echo yes)" "$json"
peers=$("$top" top --peers $launcher 2>&1)
check 'counts by peer' "$(echo "$peers" | awk -v most=$most '$1 == 1 && $2 == 0 && $3 >= 100 && $3 <= most { print "yes" }')" "$peers"
json=$("$top" top --peers --json $launcher 2>&1)
check 'counts by peer, as JSON' "$(echo "$json" | grep -q '"peers":\[.*"peer":0,' && echo yes)" "$json"
echo go >&3
exec 3>&-
wait $launcher
code=$?
check 'does not disturb the job' "$([ $code = 0 ] && echo yes)" "exit code $code, $(cat "$BIN/top.out")"
said=$("$top" top $$ 2>&1)
check 'a process without a job is one line' "$([ $? != 0 ] && [ "$(echo "$said" | wc -l)" = 1 ] && echo yes)" "$said"
