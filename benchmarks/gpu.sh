#!/usr/bin/env bash
# Builds with CUDA, runs the CUDA tests, measures ours and PyTorch alternately, prints the ratios and writes
# benchmarks/results/<date>-<card>.json.
# usage: benchmarks/gpu.sh [--no-build] [--no-tests] [WORK …]    works: benchmarks/compare_gpu.py --list
#        benchmarks/gpu.sh [--no-build] --sanitize                own kernels under compute-sanitizer's memcheck and racecheck
# Needs nvcc, cuDNN 9, a card, PyTorch with torchvision in python3, and what scripts/test.sh installs.
# JOBS: build jobs. CMAKE_PREFIX_PATH: where the libraries are, if not in the system's folders.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/common.sh"
build=1 tests=1 sanitize=0
while [[ "${1:-}" == --* ]]; do
  case $1 in
    --no-build) build=0 ;;
    --no-tests) tests=0 ;;
    --sanitize) sanitize=1 ;;
    *) sed -n '4,7s/^# //p' "$0" >&2; exit 2 ;;
  esac
  shift
done
folder=$root/build/cuda-release
[ $build -eq 0 ] || build cuda-release
# Runs the tests of filter $1 under the rest of the arguments, in several processes: most of their time is the host's.
run_shards() {
  local filter=$1 shards=$(( ($(nproc) + 1) / 2 )) shard failed=0 pids=()
  shift
  for ((shard = 0; shard < shards; ++shard)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard OMP_NUM_THREADS=2 \
      "$@" "$folder/tests/renaissance_tests" --gtest_filter="$filter" --gtest_brief=1 >"$folder/cuda-tests-$shard.log" 2>&1 &
    pids+=($!)
  done
  for ((shard = 0; shard < shards; ++shard)); do
    wait "${pids[$shard]}" || { failed=1; cat "$folder/cuda-tests-$shard.log"; }
  done
  grep -h 'PASSED' "$folder"/cuda-tests-*.log
  ! grep -h 'SKIPPED' "$folder"/cuda-tests-*.log || failed=1
  return $failed
}
# Operators of small shapes. A first run without a tool times the algorithms, whose kernels the tools slow down
# a thousandfold.
if [ $sanitize -eq 1 ]; then
  TR_TEST_ALGORITHMS=$(mktemp -d)/algorithms.json
  export TR_TEST_ALGORITHMS
  small='*CudaOp.*:*CudaLoss*:*CudaBnStatistics*:*CudaRange.*:-*many_pixels*:*EverySixteenBit*:*EverySchedule*'
  run_shards "$small" env || exit 1
  for tool in memcheck racecheck; do
    echo "$tool"
    run_shards "$small" compute-sanitizer --tool $tool --error-exitcode 1 || exit 1
  done
  exit
fi
run_tests() {
  local failed=0
  run_shards '*Cuda*' env || failed=1
  "$folder/tests/renaissance_allocation_tests" --gtest_filter='*Cuda*' --gtest_brief=1 || failed=1
  return $failed
}
[ $tests -eq 0 ] || run_tests
exec python3 "$root/benchmarks/compare_gpu.py" "$folder/cli/renaissance" "$root/benchmarks/results" "$@"
