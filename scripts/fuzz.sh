#!/usr/bin/env bash
# Builds the fuzzers with clang and runs each for a while; what they find new is added to tests/fuzz/corpus.
# usage: scripts/fuzz.sh [seconds for each, default 180] [recipe|safetensors|idx …]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
packages+=(clang-14)
install_missing
launcher=()
command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
seconds=${1:-180}
[[ $seconds =~ ^[0-9]+$ ]] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(recipe safetensors idx)
folder=$root/build/fuzz
cmake -S "$root" -B "$folder" -G Ninja -DCMAKE_CXX_COMPILER=clang++-14 -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1" -DTR_CPU=OFF -DTR_TESTS=OFF -DTR_FUZZ=ON \
  "${launcher[@]}" -DTR_SANITIZE=fuzzer-no-link,address,undefined >/dev/null
cmake --build "$folder" --parallel "$jobs" --target "${targets[@]/#/fuzz_}"
for target in "${targets[@]}"; do
  found=$folder/found/$target corpus=$root/tests/fuzz/corpus/$target
  mkdir -p "$found" "$corpus"
  echo "== $target: $seconds s"
  # Memory: a damaged header must not make us ask for gigabytes.
  (cd "$folder" && "./tests/fuzz/fuzz_$target" -max_total_time="$seconds" -rss_limit_mb=2048 -malloc_limit_mb=1024 \
    -timeout=10 -max_len=65536 -print_final_stats=1 -artifact_prefix="$folder/$target-" \
    "$found" "$corpus" 2>&1 | tail -n 12)
  # The smallest set that reaches what all of it reaches; large inputs teach little more.
  "$folder/tests/fuzz/fuzz_$target" -merge=1 -max_len=1024 "$corpus" "$found" >/dev/null 2>&1
done
