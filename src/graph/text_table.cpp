#include "graph/text_table.h"

#include <algorithm>
#include <cstdint>

#include "renaissance/core/error.h"

namespace tr {

namespace {

/// Characters, not bytes, of UTF-8 text.
size_t width(const std::string& text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u; }));
}

}  // namespace

std::string TextTable::str() const {
  std::vector<size_t> widths(alignment_.size(), 0);
  for (const auto& cells : rows_)
    for (size_t c = 0; c < cells.size(); ++c) widths.at(c) = std::max(widths[c], width(cells[c]));
  std::string text;
  for (const auto& cells : rows_) {
    std::string line;
    for (size_t c = 0; c < cells.size(); ++c) {
      const std::string space(widths[c] - width(cells[c]), ' ');
      line += "  " + (alignment_[c] == 'r' ? space + cells[c] : cells[c] + space);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

}  // namespace tr
