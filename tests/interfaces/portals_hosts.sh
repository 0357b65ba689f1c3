#!/usr/bin/env bash
# The interface of a host beside jobs: two interfaces of a process, chosen pids, processes of several jobs and of none, who is who by the
# host's word, who may come, and what becomes of everybody when a service, a client or the agent ends. Run by scripts/test-programs.sh.
set -u
work=$(mktemp -d "$BIN/hosts.XXXXXX")
# Everything that is started here, the agent included, has this in its environment, and nothing else has.
mark=OF_TEST=portals-hosts-$$
export "${mark?}"
ours() { grep -lasF "$mark" /proc/[0-9]*/environ 2>/dev/null | sed 's|/proc/\([0-9]*\)/.*|\1|' | while read -r p; do
    # Not this script and what it is made of at the moment.
    case $(cat "/proc/$p/cmdline" 2>/dev/null | tr "\0" " ") in *portals-host*--while* | "$work"/* | *"farpost portals-host"*) echo "$p" ;; esac
done; }
trap 'for p in $(ours); do kill -9 "$p" 2>/dev/null; done; rm -rf "$work"' EXIT
export PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig
flags=$(pkg-config --cflags --libs farpost-portals3)
for program in "$ROOT"/tests/interfaces/hosts/{both,words} "$ROOT/examples/portals_files"; do
    # shellcheck disable=SC2086
    cc -std=c99 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -o "$work/$(basename "$program")" "$program.c" $flags -lpthread ||
        { echo "FAIL hosts: $program.c does not compile"; exit 1; }
done
failed=0
ok() { echo "ok   hosts, $1"; }
flunk() { failed=1; echo "FAIL hosts, $1: $2; said: $(tail -qc 500 "$work"/*.out | tr '\n' '|')"; }
# Nothing is left, the agent included, which ends by itself.
nothing_left() {
    for _ in $(seq 150); do
        [ -z "$(ours)" ] && return 0
        sleep 0.05
    done
    flunk "$1" "left: $(for p in $(ours); do tr '\0' ' ' <"/proc/$p/cmdline"; done)"
    for p in $(ours); do kill -9 "$p"; done
    return 1
}
# until_said FILE WORDS: what was said there, within a time
until_said() {
    for _ in $(seq 600); do
        grep -aqF -- "$2" "$work/$1.out" 2>/dev/null && return 0
        sleep 0.05
    done
    return 1
}
# expect NAME CODE WORDS FILE COMMAND...
expect() {
    local name=$1 wanted=$2 words=$3 file=$4 code
    shift 4
    timeout -k 5 60 "$@" </dev/null >"$work/$file.out" 2>&1
    code=$?
    if [ $code != "$wanted" ]; then
        flunk "$name" "exit code $code, not $wanted"
    elif [ -n "$words" ] && ! grep -aqF -- "$words" "$work/$file.out"; then
        flunk "$name" "\"$words\" is missing"
    else
        ok "$name"
    fi
}
in_background() {
    local file=$1
    shift
    timeout -k 5 100 "$@" </dev/null >"$work/$file.out" 2>&1 &
}

# A job finds no agent, and says what to do; a program without a launcher starts one, which ends with it.
expect "a job without an agent" 4 "farpost portals-host" a "$MPIEXEC" -n 1 "$work/words" wait 9
expect "a process without a job, two interfaces" 0 "both interfaces of 1 processes" a "$work/both" 200
nothing_left "an agent that is not used"

# The agent of the service serves jobs: inline ones, and those whose own interface has an agent of the job's.
in_background service "$work/words" hold 9
service=$!
until_said service held || flunk "a service" "it does not begin"
expect "two interfaces of three processes" 0 "both interfaces of 3 processes" a "$MPIEXEC" -n 3 "$work/both" 200
for kind in generic accelerated; do
    expect "two interfaces, the job's by way of its agent, $kind" 0 "both interfaces of 2 processes" a env FARPOST_PORTALS=$kind "$MPIEXEC" -n 2 "$work/both" 300
done
expect "a pid that a service has" 4 "PTL_PID_INUSE: PtlNIInit: pid=9" a "$MPIEXEC" -n 1 "$work/words" hold 9
# A client that is killed leaves its pid; so does the service; and the agent goes when all have.
in_background client "$MPIEXEC" -n 1 "$work/words" hold 11
until_said client held || flunk "a client" "it does not begin"
expect "the pid of a client that is there" 4 PTL_PID_INUSE a "$work/words" hold 11
victim=$(for p in $(ours); do tr '\0' ' ' <"/proc/$p/cmdline" | grep -q "words hold 11" && [ "$(cat "/proc/$p/comm")" = words ] && echo "$p"; done)
kill -9 $victim
for _ in $(seq 100); do
    [ -n "$(ls -d "/proc/$victim" 2>/dev/null)" ] || break
    sleep 0.05
done
expect "a message to a client that was killed" 0 "sent: PTL_NI_UNDELIVERABLE" a "$work/words" stranger 11
expect "a message to the service" 0 "sent: PTL_NI_OK" a "$work/words" stranger 9
kill $service
wait $service 2>/dev/null
nothing_left "a service that was ended"

# Two jobs at once, and who is of which by the kernel's word.
in_background service "$work/words" serve 9
service=$!
until_said service ready || flunk "the host's word" "the service does not begin"
in_background one "$MPIEXEC" -n 2 "$work/words" say 9 1
one=$!
expect "the host's word, the other job" 0 "" two "$MPIEXEC" -n 1 "$work/words" say 9 2
wait $one || flunk "the host's word" "the first job failed"
if wait $service && grep -q "the host's word" "$work/service.out"; then ok "the host's word"; else flunk "the host's word" "the service says no"; fi
nothing_left "the host's word"

# The file service: two servers, two jobs that write and read at the same time, each other's files too.
for n in 0 1; do in_background "server$n" "$work/portals_files" serve $n 2; done
for n in 0 1; do until_said "server$n" "server $n of 2" || flunk "files" "server $n does not begin"; done
in_background one "$MPIEXEC" -n 3 "$work/portals_files" write 2 alpha 3000001
one=$!
expect "files, a job of two" 0 "wrote beta: 2000000 bytes in 31 stripes, as they should be" two "$MPIEXEC" -n 2 "$work/portals_files" write 2 beta 2000000
if wait $one && grep -q "wrote alpha: 3000001 bytes in 46 stripes, as they should be" "$work/one.out"; then ok "files, a job of three"; else flunk "files, a job of three" "it fails"; fi
expect "files, another job reads" 0 "read alpha: 3000001 bytes in 46 stripes, as they should be" two "$MPIEXEC" -n 2 "$work/portals_files" read 2 alpha 3000001
expect "files, another job may not write" 4 "the file is another job's" two "$MPIEXEC" -n 2 "$work/portals_files" write 2 alpha 5
# Server 1 is killed: who reads is told, and does not wait.
for p in $(ours); do tr '\0' ' ' <"/proc/$p/cmdline" | grep -q "serve 1 2" && kill -9 "$p"; done
expect "files, a server has ended" 3 "a server is not there" two "$MPIEXEC" -n 2 "$work/portals_files" read 2 alpha 3000001
for p in $(ours); do tr '\0' ' ' <"/proc/$p/cmdline" | grep -q "serve 0 2" && kill "$p"; done
wait
nothing_left "files"

# The same interface in Rust: a service, a process without a job, a job of two.
cp "${CARGO_TARGET_DIR:-$ROOT/target}/debug/examples/portals_tally" "$work/tally" || { echo "FAIL hosts: portals_tally was not built"; exit 1; }
in_background service env PATH="$PREFIX/bin:$PATH" "$work/tally" serve 20 3
service=$!
until_said service "at 20" || flunk "a tally in Rust" "the service does not begin"
expect "a tally in Rust, a process without a job" 0 "the sum is 5 now" one "$work/tally" add 20 5
expect "a tally in Rust, a job" 0 "the sum is 19 now" two "$MPIEXEC" -n 2 "$work/tally" add 20 7
if wait $service && grep -Eq "3 numbers of [23] jobs, together 19" "$work/service.out"; then ok "a tally in Rust"; else flunk "a tally in Rust" "the sum is another"; fi
nothing_left "a tally in Rust"

# An agent that is killed: who waits is told.
in_background one "$work/words" wait 9
one=$!
until_said one waits || flunk "an agent that is killed" "the client does not begin"
for p in $(ours); do tr '\0' ' ' <"/proc/$p/cmdline" | grep -q "portals-host --while-used" && kill -9 "$p"; done
if wait $one && grep -q "PTL_FAIL: PtlEQWait(.*agent has ended" "$work/one.out"; then ok "an agent that is killed"; else flunk "an agent that is killed" "the client is not told"; fi
nothing_left "an agent that is killed"

# An agent that is stopped: who waits is told, and who comes; nobody waits for ever. It goes when it goes on, since nobody is left.
in_background one env FARPOST_PORTALS_HOST_PATIENCE=1500 "$work/words" wait 9
one=$!
until_said one waits || flunk "an agent that is stopped" "the client does not begin"
for p in $(ours); do tr '\0' ' ' <"/proc/$p/cmdline" | grep -q "portals-host --while-used" && kill -STOP "$p" && agent=$p; done
in_background two env FARPOST_PORTALS_HOST_PATIENCE=1500 "$work/words" hold 11
two=$!
if wait $one && grep -q "has not answered for 2 s: it is stopped" "$work/one.out" && grep -q "for 3 s: it is stopped: it is given up" "$work/one.out" &&
    grep -q "PTL_FAIL: PtlEQWait(.*does not serve this process any longer" "$work/one.out"; then ok "an agent that is stopped"; else flunk "an agent that is stopped" "the client is not told"; fi
wait $two
if [ $? = 4 ] && grep -q "PTL_FAIL: PtlNIInit: .*has not answered for 3 s: it is stopped" "$work/two.out"; then ok "an agent that is stopped, another client"; else flunk "an agent that is stopped, another client" "it is not told"; fi
kill -CONT "$agent"
nothing_left "an agent that is stopped"

# Another user: refused, unless the agent allows it; then the service sees who it is.
if [ "$(id -u)" != 0 ] || ! command -v setpriv >/dev/null; then
    echo "skip hosts, another user: only root can be one"
else
    open=$(mktemp -d /tmp/farpost-hosts.XXXXXX)
    trap 'for p in $(ours); do kill -9 "$p" 2>/dev/null; done; rm -rf "$work" "$open"' EXIT
    chmod 755 "$open"
    cp "$work/words" "$PREFIX/bin/farpost" "$open"
    cp -L "$PREFIX/lib/libmpi_abi.so.1" "$open"
    chmod -R a+rX "$open"
    stranger=(setpriv --reuid 65534 --regid 65534 --clear-groups env LD_LIBRARY_PATH="$open" FARPOST_PORTALS_HOST=0 "$open/words" stranger 9)
    in_background agent "$PREFIX/bin/farpost" portals-host
    agent=$!
    until_said agent ready || flunk "another user" "the agent does not begin"
    expect "an agent beside another" 1 "has a Portals agent on this host already" two "$PREFIX/bin/farpost" portals-host
    expect "another user is refused" 4 "user 65534 may not use the Portals agent of user 0" two "${stranger[@]}"
    kill $agent
    wait $agent 2>/dev/null
    in_background agent "$PREFIX/bin/farpost" portals-host --allow 65534
    agent=$!
    until_said agent ready || flunk "another user" "the agent does not begin"
    in_background service "$work/words" hold 9
    service=$!
    until_said service held || flunk "another user" "the service does not begin"
    expect "another user is allowed" 0 "sent: PTL_NI_OK" two "${stranger[@]}"
    kill $service $agent
    wait
    nothing_left "another user"
fi
exit $failed
