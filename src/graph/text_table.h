/// Columns of text, each as wide as its widest cell.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tr {

class TextTable {
 public:
  /// One character per column: 'l' or 'r', the side its cells lean on.
  explicit TextTable(std::string alignment) : alignment_(std::move(alignment)) {}

  /// A row may have fewer cells than there are columns.
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// Lines indented by two spaces, columns two spaces apart, no space at a line's end.
  std::string str() const;

 private:
  std::string alignment_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tr
