#!/bin/sh
# install_test.sh CMAKE BUILD_TREE EXAMPLES COMPILER
# Installs the build tree into a folder of its own, builds the examples against it, and runs them.
set -eu
cmake=$1 build_tree=$2 examples=$3 compiler=$4

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
prefix=$folder/prefix

"$cmake" --install "$build_tree" --prefix "$prefix" >"$folder/install.log"

# Nothing of the build tree may shine through.
if grep -rlF "$build_tree" "$prefix" --include='*.cmake'; then
  echo "the installed package names the build tree" >&2
  exit 1
fi

# Nor may a library of this machine: they are looked for where the package is used.
if grep -rnE '[";]/[^";]*\.(so|a)[".;]' "$prefix" --include='*.cmake'; then
  echo "the installed package names libraries by their place on this machine" >&2
  exit 1
fi

"$cmake" -S "$examples" -B "$folder/examples" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_BUILD_TYPE=Release >"$folder/configure.log"
"$cmake" --build "$folder/examples"
"$folder/examples/train_mlp" | tee "$folder/output"
# Made-up images are learnable; guessing would give 0.1.
awk '/^val accuracy/ { found = 1; if ($3 < 0.5) exit 1 } END { exit !found }' "$folder/output"

"$prefix/bin/renaissance" --version
"$prefix/bin/renaissance" plan "$prefix/share/renaissance/recipes/fashion_mnist_mlp.yaml" >"$folder/plan.txt"
grep -q '^Memory plan' "$folder/plan.txt"
