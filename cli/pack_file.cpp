#include "pack_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iostream>
#include <sstream>
#include <unordered_map>

#include "output_file.h"
#include "renaissance/core/error.h"

namespace tr::cli {

namespace {

enum Column : size_t { ID, LOWER, UPPER, SIZE };
constexpr std::array<const char*, 4> COLUMN_NAMES{"id", "lower", "upper", "size"};

std::string trimmed(const std::string& text) {
  constexpr const char* BLANKS = " \t\r";
  const size_t begin = text.find_first_not_of(BLANKS);
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(BLANKS) - begin + 1);
}

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> fields;
  for (size_t begin = 0;;) {
    const size_t comma = std::min(line.find(',', begin), line.size());
    fields.push_back(trimmed(line.substr(begin, comma - begin)));
    if (comma == line.size()) return fields;
    begin = comma + 1;
  }
}

class Reader {
 public:
  Reader(std::istream& in, std::string name) : in_(in), name_(std::move(name)) {}

  PackingProblem read() {
    read_header();
    PackingProblem problem;
    for (std::string line; next(line);) {
      problem.items.push_back(item(split(line)));
      const auto [earlier, is_new] = lines_.emplace(problem.items.back().name, line_);
      check(is_new,
            cat("id '", earlier->first, "' is that of line ", earlier->second, " too; give each its own"));
    }
    TR_CHECK(!in_.bad(), IoError, cat(name_, ": cannot be read"));
    return problem;
  }

 private:
  /// The next line that is not blank.
  bool next(std::string& line) {
    while (std::getline(in_, line)) {
      ++line_;
      if (!trimmed(line).empty()) return true;
    }
    return false;
  }

  void check(bool condition, const std::string& message) const {
    TR_CHECK(condition, DataError, cat(name_, ":", line_, ": ", message));
  }

  void read_header() {
    std::string line;
    TR_CHECK(next(line), DataError, cat(name_, ": is empty; expected a header line 'id,lower,upper,size'"));
    const std::vector<std::string> names = split(line);
    columns_ = names.size();
    for (size_t c = 0; c < COLUMN_NAMES.size(); ++c) {
      const auto count = std::count(names.begin(), names.end(), COLUMN_NAMES[c]);
      check(count == 1, cat("the header has ", count, " columns '", COLUMN_NAMES[c],
                            "'; expected one each of id, lower, upper, size"));
      place_[c] = static_cast<size_t>(std::find(names.begin(), names.end(), COLUMN_NAMES[c]) - names.begin());
    }
  }

  int64_t number(const std::vector<std::string>& fields, Column column) const {
    const std::string& text = fields[place_[column]];
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    check(error == std::errc() && end == text.data() + text.size(),
          cat(COLUMN_NAMES[column], " is '", text, "'; expected an integer of 64 bits"));
    return value;
  }

  PackingItem item(const std::vector<std::string>& fields) {
    check(fields.size() == columns_, cat("has ", fields.size(), " fields; the header has ", columns_));
    const PackingItem item{fields[place_[ID]], number(fields, LOWER), number(fields, UPPER),
                           number(fields, SIZE)};
    check(item.size >= 1,
          cat("size is ", item.size, "; expected at least 1; leave tensors without bytes out"));
    check(item.lower < item.upper,
          cat("lower is ", item.lower, " and upper ", item.upper, "; expected lower < upper"));
    constexpr int64_t TOO_MANY = int64_t{1} << 62;
    check(item.size < TOO_MANY - bytes_, "the sizes up to here add up to 2^62 bytes or more; expected less");
    bytes_ += item.size;
    return item;
  }

  std::istream& in_;
  std::string name_;
  int64_t line_ = 0, bytes_ = 0;
  size_t columns_ = 0;
  std::array<size_t, 4> place_{};
  std::unordered_map<std::string, int64_t> lines_;  // of an id
};

}  // namespace

PackingProblem read_packing_problem(const std::string& path) {
  if (path == "-") return Reader(std::cin, "standard input").read();
  std::ifstream in(path);
  TR_CHECK(in.is_open(), IoError, cat(path, ": cannot be opened"));
  return Reader(in, path).read();
}

void write_packing(const std::string& path, const PackingProblem& problem, const Packing& packing) {
  std::ostringstream out;
  out << "id,lower,upper,size,offset\n";
  for (size_t i = 0; i < problem.items.size(); ++i) {
    const PackingItem& item = problem.items[i];
    out << item.name << ',' << item.lower << ',' << item.upper << ',' << item.size << ','
        << packing.offsets[i] << '\n';
  }
  write_output(path, out.str());
}

}  // namespace tr::cli
