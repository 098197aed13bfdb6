# Sourced by the other scripts: where we are, and what Debian packages are missing.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=${JOBS:-$(nproc)}

# ocl-icd-opencl-dev: oneDNN's CMake package looks for OpenCL.
packages=(g++ cmake ninja-build python3 libdnnl-dev ocl-icd-opencl-dev libyaml-cpp-dev libcli11-dev
          nlohmann-json3-dev zlib1g-dev libjpeg-dev libpng-dev libprotobuf-dev protobuf-compiler libonnx-dev libgtest-dev libbenchmark-dev dataset-fashion-mnist)

install_missing() {
  local missing=() package
  for package in "${packages[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "missing packages: ${missing[*]}; install them as root" >&2; exit 1; }
    as_root=(sudo)
  fi
  echo "installing: ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# The optimized build: with CUDA where it can be compiled.
release_preset() {
  local nvcc
  nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null) || { echo cpu-release; return; }
  local version
  version=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
  [ "$(printf '%s\n' 12.8 "$version" | sort -V | head -1)" = 12.8 ] || { echo cpu-release; return; }
  if compgen -G "$(dirname "$nvcc")/../include/cudnn_graph.h" >/dev/null || [ -e /usr/include/cudnn_graph.h ] ||
     [ -e /usr/include/x86_64-linux-gnu/cudnn_graph.h ]; then
    echo cuda-release
  else
    echo cpu-release
  fi
}

# build PRESET [TARGET …]
build() {
  local preset=$1
  shift
  local launcher=()
  command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  cmake -S "$root" --preset "$preset" "${launcher[@]}" >"$root/build/$preset-configure.log" || {
    cat "$root/build/$preset-configure.log"
    return 1
  }
  cmake --build "$root/build/$preset" --parallel "$jobs" ${@:+--target "$@"}
}
mkdir -p "$root/build"
