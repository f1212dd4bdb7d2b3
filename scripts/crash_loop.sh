#!/usr/bin/env bash
# Kills the real process again and again and compares with a run that was left alone:
#   scripts/crash_loop.sh [ROUNDS] [exactly-once|at-least-once]
# Each round kills with SIGKILL at a random moment; then each named failpoint (before and after append, fdatasync,
# rename, sink commit, during restore) kills once; a point that was never hit is a failure. After each kill the run is
# resumed, until one finishes. Exactly-once: the summary is equal byte for byte, and the output line by line per symbol.
# At-least-once: no line and no symbol is missing. SEED fixes the moments.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds="${1:-50}"
mode="${2:-exactly-once}"
seed="${SEED:-$$}"
RANDOM=$((seed % 32768))
echo "crash_loop: $rounds rounds, $mode, SEED=$seed"

cargo build --release --locked --quiet
isobar="${CARGO_TARGET_DIR:-target}/release/isobar"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

common=(run orderbook --messages 200000 --symbols 100 --rate 400000/s --checkpoint-interval 5ms --output-roll 50ms
    --mode "$mode" --quiet)

# Lines of all parts in order of checkpoint (as numbers), a file for each symbol.
by_symbol() {
    mkdir -p "$2"
    find "$1" -name 'part-*.csv' | awk -F'[-.]' '{ print $(NF - 1), $0 }' | sort -n | cut -d' ' -f2- |
        xargs -r cat | awk -F, -v dir="$2" '{ print > (dir "/" $2) }'
}

fail() {
    echo "crash_loop: $*" >&2
    exit 1
}

# Runs with the given words; true if it finished, false if it was killed. Anything else ends the loop.
attempt() {
    local status=0
    # In a shell of its own, so that this one does not announce each kill.
    (exec "$isobar" "${common[@]}" --store "$work/store" --output "$work/out" --summary "$work/summary.csv" --resume \
        >"$work/log" 2>&1) 2>/dev/null || status=$?
    case "$status" in
    0) return 0 ;;
    137) return 1 ;;
    *) fail "exit code $status: $(tail -n 3 "$work/log")" ;;
    esac
}

check() {
    by_symbol "$work/out" "$work/lines"
    if [ "$mode" = exactly-once ]; then
        cmp -s "$work/summary.csv" "$work/expected.csv" || fail "$1: another summary"
        diff -rq "$work/lines" "$work/expected" >"$work/log" || fail "$1: other output: $(head -n 1 "$work/log")"
    else
        diff <(cut -d, -f1 "$work/summary.csv") <(cut -d, -f1 "$work/expected.csv") >/dev/null || fail "$1: a symbol is missing"
    fi
    rm -rf "$work/store" "$work/out" "$work/lines" "$work/summary.csv"
}

"$isobar" "${common[@]}" --store "$work/store" --output "$work/out" --summary "$work/expected.csv" >"$work/log" 2>&1 ||
    fail "the run that is left alone: $(tail -n 1 "$work/log")"
by_symbol "$work/out" "$work/expected"
rm -rf "$work/store" "$work/out"

kills=0
for ((round = 1; round <= rounds; round++)); do
    for ((try = 0; try < 4; try++)); do
        "$isobar" "${common[@]}" --store "$work/store" --output "$work/out" --summary "$work/summary.csv" --resume \
            >"$work/log" 2>&1 &
        pid=$!
        sleep "0.$(printf '%03d' $((RANDOM % 500)))"
        kill -KILL "$pid" 2>/dev/null && kills=$((kills + 1))
        status=0
        wait "$pid" 2>/dev/null || status=$?
        [ "$status" = 0 ] && break
        [ "$status" = 137 ] || fail "round $round: exit code $status: $(tail -n 3 "$work/log")"
    done
    [ -e "$work/summary.csv" ] || attempt || fail "round $round: killed by nobody"
    check "round $round"
done
echo "crash_loop: $kills kills at random moments"

for point in before_append after_append before_fdatasync after_fdatasync before_rename after_rename \
    sink_before_sync sink_after_sync sink_before_rename sink_after_rename during_restore; do
    # A busy machine completes few checkpoints and publishes fewer parts: only the first one is sure to come.
    case "$point" in *rename) nth=1 ;; *) nth=3 ;; esac
    if [ "$point" = during_restore ]; then
        # Something to restore: a run that is killed on the way.
        ISOBAR_FAILPOINT=after_fdatasync:4 attempt && fail "$point: nothing to restore"
        nth=1
    fi
    if ISOBAR_FAILPOINT="$point:$nth" attempt; then fail "failpoint $point was never hit"; fi
    attempt || fail "failpoint $point: killed by nobody"
    check "failpoint $point"
done
echo "crash_loop: every failpoint was hit, and every run gave the answer of the run that was left alone"
