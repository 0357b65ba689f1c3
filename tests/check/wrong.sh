# What FARPOST_CHECK and mpiexec --check say about programs with one mistake each. Run by scripts/test-programs.sh, which sets
# PREFIX, MPIEXEC, CC, BIN, LOGS, ROOT, FARPOST. CASES="function root": these only (scripts/test-devices.sh).
set -u
[ "$FARPOST" = 1 ] || { echo "skip check/wrong: is about Farpost only"; exit 0; }
exe=$BIN/wrong
"$CC" -O1 -g -Wall -Wextra -o "$exe" "$ROOT/tests/check/cases/wrong.c" || exit 1
text=$BIN/wrong.txt

# line PATTERN: the number of the first line of wrong.c that has it, for what the sentences name.
line() { grep -nF "$1" "$ROOT/tests/check/cases/wrong.c" | head -1 | cut -d: -f1; }

# told CASE RANKS CODE PATTERN...: exit code (a number or "any"), every extended pattern is told; options in $check.
told() {
    local name=$1 ranks=$2 code=$3 got bad=
    shift 3
    case " ${CASES:-$name} " in *" $name "*) ;; *) return 0 ;; esac
    timeout -k 5 60 "$MPIEXEC" ${check:---check=all} -n "$ranks" "$exe" "$name" </dev/null >"$text" 2>&1
    got=$?
    [ $got -ne 124 ] && [ $got -ne 137 ] || bad="hung"
    [ "$code" = any ] || [ $got -eq "$code" ] || bad="$bad exit code $got, not $code"
    for pattern in "$@"; do
        grep -aqE "$pattern" "$text" || bad="$bad; nothing matches '$pattern'"
    done
    ! grep -aq panicked "$text" || bad="$bad; a Rust panic shows"
    if [ -z "$bad" ]; then
        echo "ok   check/wrong $name -n $ranks ${check:-}"
    else
        echo "FAIL check/wrong $name -n $ranks ${check:-}: $bad"
        sed 's/^/       /' "$text" | head -8 | cut -c1-300
    fi
}

at() { echo "at [^ ]*wrong\\.c:$1, in $2"; }

# Those that hang end by the finding: it is told before.
check=--check=error
told function 2 1 "check: .*collective calls of MPI_COMM_WORLD differ: .*MPI_Barrier \($(at "$(line 'if (rank == 0) MPI_Barrier')" do_differ_function)\)" \
    "rank 1 (is )?in MPI_Bcast"
told inter 2 1 'collective calls of both halves differ: .*MPI_Allreduce .*MPI_Barrier|collective calls of both halves differ: .*MPI_Barrier .*MPI_Allreduce'
told inter 4 1 'call of both halves differs between ranks: .*gives root MPI_ROOT in MPI_Bcast.*gives root 1 in|call of both halves differs between ranks: .*gives root 1 in MPI_Bcast.*gives root MPI_ROOT in'
check=
told root 3 any 'call of MPI_COMM_WORLD differs between ranks: rank [0-2] gives root [01] in MPI_Bcast' 'all members must name the same root'
told op 2 any 'reduces by MPI_SUM in MPI_Allreduce' 'reduces by MPI_MAX in MPI_Allreduce'
told count 2 any 'brings 8 MPI_DOUBLE in MPI_Reduce' 'brings 7 MPI_DOUBLE in MPI_Reduce'
told types 2 any 'rank 0 sends 4 MPI_FLOAT to rank 1 in MPI_Bcast' 'rank 1 expects 2 MPI_DOUBLE from rank 0 in MPI_Bcast'
told gatherv 3 any 'rank 1 sends 2 MPI_INT to rank 0 in MPI_Gatherv' 'rank 0 expects 3 MPI_INT from rank 1'
told nonblocking 2 any 'collective calls of MPI_COMM_WORLD differ: .*MPI_I(all)?reduce .*MPI_I(all)?reduce '
told never-called 3 any 'collective calls of MPI_COMM_WORLD differ: .*MPI_Bcast .*MPI_Finalize|collective calls of MPI_COMM_WORLD differ: .*MPI_Finalize .*MPI_Bcast'
told never-joined 2 0 'rank 0: rank 1 of the communicator of MPI_Comm_dup never called MPI_Bcast, which rank 0 \(at .*wrong\.c:[0-9]+'
told message-types 2 0 "check: rank 1: the types of a message differ: rank 0 of MPI_COMM_WORLD sent 2 MPI_INT, 1 MPI_DOUBLE with tag 5 by MPI_Send \($(at "$(line 'MPI_Send(&a, 1, t')" do_message_types)\), and MPI_Recv \($(at "$(line 'MPI_Recv(in, 2, MPI_DOUBLE')" do_message_types)\) has room for 2 MPI_DOUBLE"
told bytes 2 0 'sent 1 MPI_INT with tag 5 by MPI_Send .*MPI_Irecv .* has room for 4 MPI_BYTE'
told truncated 2 15 'MPI_Recv: count=2: the message has 16 bytes, the buffer holds 8: rank 0 of MPI_COMM_WORLD sent 4 MPI_INT with tag 5 by MPI_Send \(at .*\), and MPI_Recv \(at .*\) has room for 2 MPI_INT'
told overlap 2 0 'MPI_Irecv \(at .*\) is not complete, and MPI_Irecv \(at .*\) uses a part of the same buffer: both write the byte at 0x'
told overlap-send 2 0 'MPI_Isend \(at .*\) is not complete, and MPI_Recv \(at .*\) uses a part of the same buffer: the first reads and the second writes'
told overlap-blocks 2 any 'two buffers of MPI_Allgatherv \(at .*\) overlap: the byte at 0x[0-9a-f]+ is written twice'
told overlap-type 2 any 'the receive buffer of MPI_Sendrecv \(at .*\) has the byte at 0x[0-9a-f]+ twice'
told changed 2 0 'the program changed the send buffer of 16 bytes of MPI_Isend \(at .*\) before the operation was complete, as MPI_Wait \(at .*\) told'
told changed-coll 2 0 'the program changed the send buffer of 4 bytes of MPI_Iallreduce'
told left 2 0 'ranks 0, 1: the communicator forgotten made by MPI_Comm_dup \(at .*wrong\.c' 'the datatype made by MPI_Type_contiguous' \
    'the group made by MPI_Comm_group' 'the operation made by MPI_Op_create' 'the error handler made by MPI_Comm_create_errhandler' \
    'the info object made by MPI_Info_create' 'the attribute key made by MPI_Comm_create_keyval .* never freed'
told requests 2 0 'rank 0: the request of MPI_Isend \(at .*\) was never completed' 'ranks 0, 1|rank 1: the request of MPI_Recv_init .* was never freed'
told unreceived 2 0 'rank 1: a message of 12 bytes from rank 0 of MPI_COMM_WORLD with tag 42 was never received, sent by MPI_Send \(at '
told twice 2 7 'MPI_Wait: request=.*already freed; it was completed or freed by MPI_Wait \(at .*wrong\.c.* \(called at .*wrong\.c'
told uncommitted 2 3 'MPI_Send: datatype=.*must be committed first.*\(called at .*wrong\.c'
told after 2 16 'MPI_Barrier: called after MPI_Finalize.*\(called at .*wrong\.c'

[ -z "${CASES:-}" ] || exit 0

check=--check
told many 2 0 'check: rank 1: the types of a message differ' 'rank 1: 4 more findings were counted and not told'
[ "$(grep -ac 'the types of a message differ' "$text")" -eq 1 ] && echo "ok   check/wrong one is told" || echo "FAIL check/wrong one is told: $(cat "$text")"
check=--check=error
told many 2 1 'the types of a message differ' 'FARPOST_CHECK=error'
told left 2 1 'never freed' 'FARPOST_CHECK=error'
told nothing 3 0 'to the end'
! grep -aq 'farpost: check' "$text" && echo "ok   check/wrong nothing is told" || echo "FAIL check/wrong nothing is told: $(cat "$text")"

# Without line numbers, and from a library: function and place.
"$CC" -O1 -o "$exe" "$ROOT/tests/check/cases/wrong.c" && check=--check told bytes 2 0 'MPI_Send \(in do_bytes, at \+0x[0-9a-f]+ of [^ ]*wrong\)'
"$CC" -O1 -s -o "$exe" "$ROOT/tests/check/cases/wrong.c" && check=--check told bytes 2 0 'MPI_Send \(at \+0x[0-9a-f]+ of [^ ]*wrong\)'

# Ranks that do not agree about it are told so, and a value that is none.
timeout -k 5 60 "$MPIEXEC" -n 1 -env FARPOST_CHECK 1 "$exe" nothing : -n 1 "$exe" nothing </dev/null >"$text" 2>&1
grep -aq 'rank 0 has FARPOST_CHECK set and rank 1 has not' "$text" && echo "ok   check/wrong ranks that differ" || echo "FAIL check/wrong ranks that differ: $(head -3 "$text")"
FARPOST_CHECK=maybe timeout -k 5 60 "$MPIEXEC" -n 1 "$exe" nothing </dev/null >"$text" 2>&1
grep -aq 'FARPOST_CHECK=maybe: allowed are 0, 1, all, error' "$text" && echo "ok   check/wrong a value" || echo "FAIL check/wrong a value: $(head -3 "$text")"
rm -f "$exe" "$text"
