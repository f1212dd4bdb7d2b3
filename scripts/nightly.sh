#!/usr/bin/env bash
# What takes longer than a change should wait: model checking, sanitizers, long crash loops.
set -euo pipefail
cd "$(dirname "$0")/.."
step() { printf '\n== %s\n' "$*"; "$@"; }
step scripts/loom.sh
step scripts/sanitize.sh thread
step scripts/sanitize.sh address
step scripts/crash_loop.sh 200
step scripts/crash_loop.sh 50 at-least-once
