#!/usr/bin/env bash
# Installs what is missing, builds and runs the tests: optimized, then under the address and undefined-behaviour
# sanitizers.
# usage: scripts/test.sh [release|sanitize]    one of the two only
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
install_missing
case "${1:-all}" in
  all) presets=(cpu-release cpu-asan) ;;
  release) presets=(cpu-release) ;;
  sanitize) presets=(cpu-asan) ;;
  *) sed -n '2,4s/^# //p' "$0" >&2; exit 2 ;;
esac
for preset in "${presets[@]}"; do
  echo "== $preset: build"
  build "$preset"
  echo "== $preset: test"
  ctest --test-dir "$root/build/$preset" --output-on-failure --parallel "$jobs" --progress
done
