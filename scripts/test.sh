#!/usr/bin/env bash
# Installs what is missing, builds and runs the tests: optimized, then under the address and undefined-behaviour
# sanitizers. Where nvcc and cuDNN are found, the optimized build has the CUDA backend too; its tests skip without a card.
# usage: scripts/test.sh [release|sanitize]    one of the two only
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
packages+=(chromium chromium-driver python3-selenium)  # for the page of `renaissance plan --html`
install_missing
case "${1:-all}" in
  all) presets=("$(release_preset)" cpu-asan) ;;
  release) presets=("$(release_preset)") ;;
  sanitize) presets=(cpu-asan) ;;
  *) sed -n '2,5s/^# //p' "$0" >&2; exit 2 ;;
esac
for preset in "${presets[@]}"; do
  echo "== $preset: build"
  build "$preset"
  echo "== $preset: test"
  ctest --test-dir "$root/build/$preset" --output-on-failure --parallel "$jobs" --progress
done
