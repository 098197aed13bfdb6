#!/usr/bin/env bash
# Builds with CUDA, runs the CUDA tests, measures ours and PyTorch alternately, prints the ratios and writes
# benchmarks/results/<date>-<card>.json.
# usage: benchmarks/gpu.sh [--no-build] [--no-tests] [WORK …]    works: benchmarks/compare_gpu.py --list
# Needs nvcc, cuDNN 9, a card, PyTorch with torchvision in python3, and what scripts/test.sh installs.
# JOBS: build jobs. CMAKE_PREFIX_PATH: where the libraries are, if not in the system's folders.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/common.sh"
build=1 tests=1
while [[ "${1:-}" == --no-* ]]; do
  case $1 in
    --no-build) build=0 ;;
    --no-tests) tests=0 ;;
    *) sed -n '4,6s/^# //p' "$0" >&2; exit 2 ;;
  esac
  shift
done
folder=$root/build/cuda-release
[ $build -eq 0 ] || build cuda-release
[ $tests -eq 0 ] || "$folder/tests/renaissance_tests" --gtest_filter='Cuda*' --gtest_brief=1
exec python3 "$root/benchmarks/compare_gpu.py" "$folder/cli/renaissance" "$root/benchmarks/results" "$@"
