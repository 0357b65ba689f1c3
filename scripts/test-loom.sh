#!/bin/sh
# Model-check the shared queues and flags, rendezvous slots, the rows of boards, and the job's fence: every interleaving, up to two preemptions, of small cases.
# Takes a few minutes at most; each model is bounded, and the whole is too where `timeout` exists.
set -eu
cd "$(dirname "$0")/.."
RUSTFLAGS="${RUSTFLAGS:-} --cfg loom"
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom"
LOOM_MAX_PREEMPTIONS=2
export RUSTFLAGS CARGO_TARGET_DIR LOOM_MAX_PREEMPTIONS
# The models run for seconds, optimised or not; compiling is what takes time.
export CARGO_PROFILE_DEV_DEBUG=0
if command -v timeout >/dev/null 2>&1; then
    within="timeout 600"
else
    within=""
fi
$within cargo test -p farpost-fabric --lib loom_
$within cargo test -p farpost-shm --lib loom_
$within cargo test -p farpost-rollcall --lib loom_
$within cargo test -p farpost-job --lib loom_
$within cargo test -p farpost-channel --test loom
$within cargo test -p farpost-fm --lib loom_
