#!/usr/bin/env bash
# `farpost top` looks at jobs whose interfaces exchange and refuse: traffic of Portals by peer, by the process itself and by way of an
# agent, and refusals and status registers. Run by scripts/test-programs.sh.
set -um
[ "$FARPOST" = 1 ] || { echo "skip watched: farpost top is Farpost's"; exit 0; }
work=$(mktemp -d "$BIN/watched.XXXXXX")
trap 'rm -rf "$work"' EXIT
top=$PREFIX/bin/farpost
# shellcheck disable=SC2046
cc -std=c99 -D_GNU_SOURCE -O1 -Wall -Wextra -o "$work/refused" "$ROOT/tests/interfaces/watched/refused.c" \
    $(PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig pkg-config --cflags --libs farpost-portals3 farpost-rsm) || exit 1
check() { if [ "$2" = yes ]; then echo "ok   watched $1"; else echo "FAIL watched $1: $3"; fi; }
# judge PLACE: the tables of a job that has done everything. Of an agent's client the agent drops, if it matches in its place.
judge() {
    timeout 100 python3 - "$1" "$work" <<'END'
import json, sys
place, work = sys.argv[1:]
peers, status, rails = (json.load(open(f"{work}/{name}.json", encoding="utf-8"))["ranks"] for name in ("peers", "status", "rails"))

def check(what, holds, seen):
    print(f"ok   watched {place}: {what}" if holds else f"FAIL watched {place}: {what}: {seen}")

def about(rank, peer):
    return next((p for p in peers[rank]["peers"] if p["peer"] == peer), {})

def sums(rank, key, peers_of):
    return sum(about(rank, peer).get(key, 0) for peer in peers_of)

agents = [r["rank"] for r in peers if r["service"]]
check("agents are there where they are wanted", (len(agents) > 0) == (place != "inline"), agents)
sent = about(0, 1)
check("what was sent to a peer", sent.get("sent", 0) >= 104 and 100824 <= sent.get("sent_bytes", 0) < 110000, peers[0])
if place == "accelerated":  # Its client is shown events, and the agent says what it has matched for it.
    got, got_bytes = (sum(about(a, 1).get(key, 0) for a in agents) for key in ("sent", "sent_bytes"))
else:
    got, got_bytes = about(1, 0).get("received", 0), about(1, 0).get("received_bytes", 0)
check("what came from a peer", got >= 104 and 100824 <= got_bytes < 110000, [peers[1], [peers[a] for a in agents]])
ours, theirs = status[0]["status"], status[1]["status"]
dropped = theirs["portals_agent_dropped" if place == "accelerated" else "portals_no_match"]
check("drops by reason", dropped == 3, theirs)
check("the status register", theirs["ptl_sr_drop_count"] == 3 and ours["ptl_sr_drop_count"] == 0, [theirs, ours])
check("refusals of RSMAPI", ours["rsm_controllers"] == 1 and ours["rsm_segments"] == 2 and theirs["rsm_segments"] == 0, ours)
check("no rails on one host", all(r["rails"] == [] for r in rails), rails)
END
}

for place in inline generic accelerated; do
    mkfifo "$work/input"
    FARPOST_PORTALS=$place timeout -k 5 100 "$MPIEXEC" -n 2 "$work/refused" <"$work/input" >"$work/out" 2>&1 &
    job=$!
    exec 3>"$work/input"
    for _ in $(seq 600); do
        grep -q ready "$work/out" && break
        kill -0 $job 2>/dev/null || break
        sleep 0.05
    done
    launcher=$(pgrep -P $job -x mpiexec || echo $job)
    # A process adds to its counters when it is idle, which it is soon.
    for _ in $(seq 100); do
        for what in peers status rails; do
            "$top" top --$what --json "$launcher" >"$work/$what.json" 2>"$work/$what.error" || echo '{"ranks":[]}' >"$work/$what.json"
        done
        judge "$place" >"$work/judged" 2>&1
        grep -q '^FAIL\|Traceback' "$work/judged" || break
        sleep 0.05
    done
    if grep -q Traceback "$work/judged"; then
        echo "FAIL watched $place: $(tail -c 600 "$work/judged") $(cat "$work"/*.error "$work/out")"
    else
        cat "$work/judged"
    fi
    if [ $place = inline ]; then
        said=$("$top" top --status "$launcher" 2>&1)
        check 'a table of what was refused' "$(echo "$said" | grep -q '^ *1 *portals *3  PTL_SR_DROP_COUNT$' && echo yes)" "$said"
        said=$("$top" top --rails "$launcher" 2>&1)
        check 'a table without rails' "$(echo "$said" | grep -q 'no rank here has sent anything to another host' && echo yes)" "$said"
    fi
    echo go >&3
    exec 3>&-
    wait $job
    code=$?
    check "$place: the job ends well" "$([ $code = 0 ] && echo yes)" "exit code $code, $(cat "$work/out")"
    rm -f "$work/input"
done
