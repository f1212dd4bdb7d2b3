#!/usr/bin/env bash
# Kills a running pipeline with SIGKILL, at random moments and at every failpoint, resumes it until it finishes, and
# compares summary and output with those of a run that nobody disturbed.
#
#   scripts/crash_loop.sh [KILLS] [exactly-once|at-least-once]      default: 50 exactly-once
#
# SEED=n repeats a loop (as far as the clock allows), KEEP=1 keeps the folder. ISOBAR names a built program.
set -euo pipefail
cd "$(dirname "$0")/.."

kills=${1:-50}
mode=${2:-exactly-once}
seed=${SEED:-$RANDOM}
RANDOM=$seed

case $mode in exactly-once | at-least-once) ;; *) echo "crash_loop: unknown mode $mode" >&2; exit 2 ;; esac
echo "crash_loop: $kills kills, $mode, SEED=$seed"

if [ -z "${ISOBAR:-}" ]; then
    cargo build --release --locked --quiet --bin isobar
    ISOBAR=${CARGO_TARGET_DIR:-target}/release/isobar
fi
isobar=$(cd "$(dirname "$ISOBAR")" && pwd)/$(basename "$ISOBAR")
work=$(mktemp -d)
[ -n "${KEEP:-}" ] && echo "crash_loop: in $work" || trap 'rm -rf "$work"' EXIT
cd "$work"

fail() { echo "crash_loop: FAILED: $* (SEED=$seed)" >&2; exit 1; }

# The lines of each symbol, in order of the parts' checkpoints: one file, symbol after symbol.
output() {
    local part
    for part in $(ls "$1" | grep '^part-' | sort -t- -k3,3n -k2,2n); do cat "$1/$part"; done | LC_ALL=C sort -s -t, -k2,2
}

# Two to three seconds of input, so that a kill can come at any stage.
messages=400000
"$isobar" generate itch50 --out input.itch --messages "$messages" --symbols 100 --seed "$seed" > /dev/null
"$isobar" run orderbook --input input.itch --checkpoint-interval off --summary reference.csv --output reference --quiet \
    > /dev/null 2> reference.log
output reference > reference.lines
echo "crash_loop: the undisturbed run gives $(($(wc -l < reference.csv) - 1)) symbols, $(wc -l < reference.lines) lines"

# Runs or resumes with random settings; killed after $1 seconds unless that is "never". Further words go into the
# environment. The exit code is the program's, 137 where it was killed.
attempt() {
    local seconds=$1 parallelism=$((1 + RANDOM % 3)) roll=$((RANDOM % 4 * 20)) code=0 pid
    shift
    # Env becomes the program, so the kill meets nobody else, and the wait ends when it is dead.
    env "$@" "$isobar" run orderbook --input input.itch --store ck --output out --resume --mode "$mode" \
        --checkpoint-interval 5ms --output-roll "${roll}ms" --parallelism "$parallelism" --rate 200000/s \
        --summary summary.csv --quiet > run.log 2> error.log &
    pid=$!
    if [ "$seconds" != never ]; then
        sleep "$seconds"
        kill -KILL "$pid" 2> /dev/null || true
    fi
    # The shell would announce each kill.
    { wait "$pid" || code=$?; } 2> /dev/null
    return "$code"
}

fresh() { rm -rf ck out summary.csv; }

# The sum of column $2 (a header's name) of summary $1.
column() {
    awk -F, -v name="$2" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) c = i } NR > 1 { s += $c } END { printf "%.0f\n", s }' "$1"
}

compare() {
    if [ "$mode" = exactly-once ]; then
        cmp summary.csv reference.csv || fail "the summary differs after $*"
        output out > out.lines
        cmp out.lines reference.lines || fail "the output differs after $*"
        [ -z "$(find out -name '.*' -type f)" ] || fail "hidden files are left after $*"
        return
    fi
    # What is processed twice may be rejected the second time (a live order added again) or change what follows, but
    # every message is counted at least once, and what depends on no state is counted under its symbol.
    [ "$(cut -d, -f1 summary.csv)" = "$(cut -d, -f1 reference.csv)" ] || fail "a symbol is missing after $*"
    paste -d, <(cut -d, -f1,9 summary.csv) <(cut -d, -f9 reference.csv) |
        awk -F, 'NR > 1 && $2 < $3 { bad = 1; print "trades of " $1 ": " $2 " of " $3 } END { exit bad }' ||
        fail "trades are missing after $*"
    local name here=0 there=0 rejected
    for name in orders_added orders_executed orders_cancelled orders_deleted orders_replaced trades; do
        here=$((here + $(column summary.csv $name)))
        there=$((there + $(column reference.csv $name)))
    done
    rejected=$(awk '/messages? rejected$/ { n = $1 } END { print n + 0 }' error.log)
    [ $((here + rejected)) -ge "$there" ] || fail "$here counted and $rejected rejected of $there after $*"
}

# Resumes until the end of the input, undisturbed.
finish() {
    attempt never || { cat error.log >&2; fail "the run could not be resumed after $*"; }
    compare "$@"
}

fresh
killed=0 finished=0
while [ "$killed" -lt "$kills" ]; do
    milliseconds=$((RANDOM % 900 + 20))
    code=0
    attempt "$(printf '0.%03d' "$milliseconds")" || code=$?
    case $code in
        0) compare "random kills"; finished=$((finished + 1)); fresh ;;
        137) killed=$((killed + 1)) ;;
        *) cat error.log >&2; fail "exit code $code instead of an end or a kill" ;;
    esac
done
finish "random kills"
finished=$((finished + 1))
echo "crash_loop: killed $killed times at random, finished $finished times with the same answer"

# Every failpoint: on a fresh run, then on resumed ones, at a random hit.
for point in $("$isobar" failpoints); do
    hits=0
    fresh
    for round in 1 2 3 4; do
        nth=1
        [ "$round" -lt 3 ] || nth=$((1 + RANDOM % 20))
        code=0
        attempt never "ISOBAR_FAILPOINT=$point:$nth" || code=$?
        case $code in
            0) compare "$point"; fresh ;;
            137) hits=$((hits + 1)) ;;
            *) cat error.log >&2; fail "exit code $code at failpoint $point" ;;
        esac
        # Something must be there to be restored, and the next run must differ from the one before.
        [ "$round" -ne 1 ] || attempt 0.400 || true
    done
    [ "$hits" -gt 0 ] || fail "failpoint $point was never hit"
    finish "$point"
    echo "crash_loop: $point killed $hits times, the same answer"
done
echo "crash_loop: passed"
