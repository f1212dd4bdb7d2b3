#!/usr/bin/env bash
# Model-checks what is concurrent (rings, the freeze protocol): every interleaving that loom's bounds allow.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUSTFLAGS="--cfg isobar_loom" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom"
export LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-3}"
exec cargo test --locked --profile loom --test 'loom_*' "$@"
