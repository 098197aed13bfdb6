/// Where the package dataset-fashion-mnist puts its files.
#pragma once

namespace tr::test {

inline constexpr const char* FASHION_MNIST_FOLDER = "/usr/share/datasets/fashion-mnist";

}  // namespace tr::test
