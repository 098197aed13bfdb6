// docs/ops.md describes the operators that there are, with their attributes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "renaissance/graph/op_spec.h"
#include "support/temp_folder.h"

namespace tr {
namespace {

enum Column : size_t { OPERATOR, FORMULA, ATTRIBUTES, KEPT, CPU_NOTES, SOURCE, NUM_COLUMNS };

std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells;
  std::stringstream text(row.substr(1));
  for (std::string cell; std::getline(text, cell, '|');) cells.push_back(cell);
  return cells;
}

/// The rows of the table by operator, backticks removed.
std::map<std::string, std::vector<std::string>> documented() {
  std::map<std::string, std::vector<std::string>> rows;
  std::stringstream text(test::read_file(cat(TR_SOURCE_DIR, "/docs/ops.md")));
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with("| `")) continue;
    const std::vector<std::string> cells = cells_of(line);
    const std::string name = cells[OPERATOR].substr(2, cells[OPERATOR].size() - 4);
    EXPECT_EQ(cells.size(), NUM_COLUMNS) << name;
    EXPECT_TRUE(rows.emplace(name, cells).second) << name << " has two rows";
  }
  return rows;
}

std::string description(const AttrSpec& attr) {
  if (!attr.default_value) return cat("`", attr.name, "` required");
  const std::string value = str(*attr.default_value);
  return cat("`", attr.name, "` = `", value.empty() ? "''" : value, "`");
}

/// Attributes that a cell describes: entries are parted by semicolons.
std::ptrdiff_t entries(const std::string& cell) {
  return cell == " none " ? 0 : 1 + std::ranges::count(cell, ';');
}

TEST(CatalogDocument, HasEveryOperatorAndNoOther) {
  std::vector<std::string> names = make_catalog().names(), rows;
  for (const auto& [name, cells] : documented()) rows.push_back(name);
  std::ranges::sort(names);
  EXPECT_EQ(rows, names);
}

TEST(CatalogDocument, HasEveryAttributeInOrderWithItsDefault) {
  const Catalog catalog = make_catalog();
  for (const auto& [name, cells] : documented()) {
    if (!catalog.has(name)) continue;
    const std::vector<AttrSpec> schema = catalog.find(name).spec->schema();
    size_t from = 0;
    for (const AttrSpec& attr : schema) {
      const size_t at = cells[ATTRIBUTES].find(description(attr), from);
      EXPECT_NE(at, std::string::npos) << name << ": docs/ops.md lacks " << description(attr);
      if (at != std::string::npos) from = at;
      EXPECT_FALSE(attr.help.empty()) << name << '.' << attr.name;
    }
    EXPECT_EQ(entries(cells[ATTRIBUTES]), std::ssize(schema)) << name << ':' << cells[ATTRIBUTES];
  }
}

TEST(CatalogDocument, LeavesNoCellEmpty) {
  for (const auto& [name, cells] : documented())
    for (const std::string& cell : cells) EXPECT_GT(cell.size(), 2u) << name;
}

}  // namespace
}  // namespace tr
