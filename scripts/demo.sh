#!/usr/bin/env bash
# Installs what is missing, builds, shows the memory plan and trains a convolutional network on Fashion-MNIST.
# usage: scripts/demo.sh [key=value …]    recipe overrides, e.g. train.epochs=2
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
install_missing
build cpu-release renaissance_cli
program=$root/build/cpu-release/cli/renaissance
recipe=$root/recipes/fashion_mnist_cnn.yaml
"$program" plan "$recipe" "$@" | sed -n 1,24p
echo
exec "$program" train "$recipe" --run-dir "$root/runs/demo" --overwrite "$@"
