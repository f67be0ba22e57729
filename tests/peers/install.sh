#!/usr/bin/env bash
# Installs the packages of other projects that the end-to-end tests talk to, into a cache folder outside of the tree.
# The folder: $BECKET_PEERS, or becket-peers in the user's cache. Prints the folder, or one line that says why the tests that
# need the packages will skip; that is no failure. A list that is installed already costs nothing.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
dir="${BECKET_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/becket-peers}"

if ! command -v npm >/dev/null; then
  echo "peers: npm is not installed; tests against real packages skip"
  exit 0
fi
mkdir -p "$dir"
if ! cmp -s "$here/package.json" "$dir/installed.json"; then
  cp "$here/package.json" "$dir/package.json"
  if ! (cd "$dir" && npm install --silent --no-audit --no-fund --no-update-notifier >install.log 2>&1); then
    echo "peers: the packages cannot be installed (see $dir/install.log); tests against real packages skip"
    exit 0
  fi
  cp "$here/package.json" "$dir/installed.json"
fi
echo "peers: $dir"
