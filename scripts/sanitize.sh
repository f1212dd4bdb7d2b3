#!/usr/bin/env bash
# Runs the tests of everything that holds unsafe code under a sanitizer: scripts/sanitize.sh thread|address
# A stable toolchain takes the flags with RUSTC_BOOTSTRAP.
set -euo pipefail
cd "$(dirname "$0")/.."
kind="${1:-thread}"
target="$(rustc -vV | sed -n 's/^host: //p')"
export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/$kind-sanitizer"
case "$kind" in
thread) export RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" ;;
address) export RUSTFLAGS="-Zsanitizer=address" ;;
*)
    echo "sanitize.sh: unknown sanitizer '$kind': use thread or address" >&2
    exit 2
    ;;
esac
cargo test --locked --target "$target" --test 'channel_*' --test 'state_*' --test 'snapshot_*'
