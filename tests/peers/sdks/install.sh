#!/usr/bin/env bash
# Installs the SDKs that drive becket in its tests into a cache folder outside of the tree: $BECKET_PEERS, or becket-peers in
# the user's cache. Prints the folder, or one line that says which tests will skip and why; that is no failure. Packages that
# are there already cost nothing.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
dir="${BECKET_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/becket-peers}/sdks"
mkdir -p "$dir"

if ! cmp -s "$here/package.json" "$dir/installed.json"; then
  cp "$here/package.json" "$dir/package.json"
  # The optional packages are the programs that becket stands in for, several hundred megabytes.
  if command -v npm >/dev/null &&
    (cd "$dir" && npm install --omit=optional --no-audit --no-fund --no-update-notifier) >"$dir/npm.log" 2>&1; then
    cp "$here/package.json" "$dir/installed.json"
  else
    echo "sdks: the npm packages cannot be installed (see $dir/npm.log); tests of the TypeScript and codex SDKs skip"
  fi
fi
if ! cmp -s "$here/requirements.txt" "$dir/installed.txt"; then
  # From the source package, which is without the program that becket stands in for.
  if python3 -m venv "$dir/python" >"$dir/pip.log" 2>&1 &&
    "$dir/python/bin/pip" install --no-binary claude-agent-sdk -r "$here/requirements.txt" >>"$dir/pip.log" 2>&1; then
    cp "$here/requirements.txt" "$dir/installed.txt"
  else
    rm -rf "$dir/python"
    echo "sdks: the Python package cannot be installed (see $dir/pip.log); tests of the Python SDK skip"
  fi
fi
echo "sdks: $dir"
