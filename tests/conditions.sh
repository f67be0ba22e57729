#!/usr/bin/env bash
# Runs the tests under five conditions, each of which has once made a test fail that passed elsewhere, and prints one line for each:
#
#   new machine    a fresh clone of HEAD, with an empty home and an empty temporary folder
#   second run     the same clone, home and temporary folder once more
#   another user   as `nobody`, if root runs this script
#   busy machine   at nice 10, beside two loops that keep two cores busy
#   odd names      a home and a temporary folder with spaces and letters that are not ASCII
#
# Usage: tests/conditions.sh [ARGUMENTS OF cargo test]    (without any: --workspace --no-fail-fast)
#        BECKET_CONDITIONS="busy odd" tests/conditions.sh -p becket-types --lib
#
# It builds in the clone, so the first condition takes as long as a cold build. CI does not run it. The exit code is 1 if a test
# failed under any condition; the logs of these conditions stay in the folder that the line names.
set -uo pipefail
cd "$(dirname "$0")/.."

arguments=("$@")
[ ${#arguments[@]} -gt 0 ] || arguments=(--workspace --no-fail-fast)
wanted=${BECKET_CONDITIONS:-new second user busy odd}

root=$(mktemp -d /var/tmp/becket-conditions.XXXXXX)
chmod 755 "$root"
loops=()
failed=0
finish() {
  [ ${#loops[@]} -eq 0 ] || kill "${loops[@]}" 2>/dev/null
  [ "$failed" -ne 0 ] || rm -rf "$root"
}
trap finish EXIT

git clone --quiet --no-hardlinks . "$root/clone" || exit 2
# The toolchain and the registry are those of this machine. A new home has neither.
export CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}
export CARGO_TARGET_DIR="$root/target" CARGO_TERM_COLOR=never
host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')

# Cargo starts each test program through this file, so that cargo itself keeps its user and its folders.
runner() {
  cat >"$root/runner" <<RUN
#!/bin/sh
export HOME='$1' TMPDIR='$2'
unset XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_CACHE_HOME
exec $3 "\$@"
RUN
  chmod 755 "$root/runner"
  export "CARGO_TARGET_${host}_RUNNER=$root/runner"
}

# Runs the tests once. $1: the short name, $2: the name in the line.
condition() {
  local short=$1 name=$2 log="$root/$1.log" from=$SECONDS status=0 passed lost
  (cd "$root/clone" && cargo test "${arguments[@]}") >"$log" 2>&1 || status=$?
  passed=$(sed -n 's/^test result: .* \([0-9]*\) passed; .*/\1/p' "$log" | awk '{ sum += $1 } END { print sum + 0 }')
  lost=$(sed -n 's/^test result: .* \([0-9]*\) failed; .*/\1/p' "$log" | awk '{ sum += $1 } END { print sum + 0 }')
  if [ "$status" -eq 0 ] && [ "$passed" -gt 0 ]; then
    printf '%-14s %s passed, 0 failed, %s s\n' "$name" "$passed" "$((SECONDS - from))"
  else
    failed=1
    printf '%-14s %s passed, %s failed, exit %s, %s s: %s\n' "$name" "$passed" "$lost" "$status" "$((SECONDS - from))" "$log"
  fi
}

has() { case " $wanted " in *" $1 "*) true ;; *) false ;; esac; }

home="$root/home" temp="$root/tmp"
mkdir "$home" "$temp"
runner "$home" "$temp" env
has new && condition new "new machine"
has second && condition second "second run"

if has user; then
  if [ "$(id -u)" -ne 0 ]; then
    echo "another user   skipped: only root can become another user, and this run is not root's"
  else
    mkdir "$root/home of nobody" "$root/tmp of nobody"
    chown nobody "$root/home of nobody" "$root/tmp of nobody"
    # Cargo makes this folder for the tests, with root's rights.
    mkdir -p "$CARGO_TARGET_DIR/tmp"
    chmod -R a+rwX "$CARGO_TARGET_DIR/tmp"
    runner "$root/home of nobody" "$root/tmp of nobody" "setpriv --reuid=nobody --regid=nogroup --clear-groups"
    condition user "another user"
  fi
fi

if has busy; then
  for _ in 1 2; do
    (while :; do :; done) &
    loops+=($!)
  done
  runner "$home" "$temp" "nice -n 10"
  condition busy "busy machine"
  kill "${loops[@]}"
  wait "${loops[@]}" 2>/dev/null
  loops=()
fi

if has odd; then
  odd="$root/ein Ordner – mit Ümläuten 测试"
  mkdir "$odd" "$odd/home" "$odd/tmp"
  runner "$odd/home" "$odd/tmp" env
  condition odd "odd names"
fi
exit "$failed"
