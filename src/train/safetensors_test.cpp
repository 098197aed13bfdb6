#include <gtest/gtest.h>

#include <cstring>

#include "renaissance/train/checkpoint.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace tr {
namespace {

using test::expect_error;
using test::read_file;
using test::TempFolder;
using test::write_file;
namespace fs = std::filesystem;

template <typename T>
StateTensor tensor(const std::string& dtype, const std::vector<int64_t>& shape,
                   const std::vector<T>& values) {
  StateTensor result{dtype, shape, std::vector<std::byte>(values.size() * sizeof(T))};
  if (!values.empty()) std::memcpy(result.data.data(), values.data(), result.data.size());
  return result;
}

template <typename T>
std::vector<T> values_of(const StateTensor& tensor) {
  std::vector<T> values(tensor.data.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

StateDict small_state() {
  return {{{"fc.weight", tensor<float>("F32", {2, 3}, {1, 2, 3, 4, 5, 6})},
           {"fc.bias", tensor<float>("F32", {2}, {7, 8})}},
          {}};
}

/// The 8-byte length, the header, the data.
std::string file_of(const std::string& header, const std::string& data) {
  std::string length(8, '\0');
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  return length + header + data;
}

void expect_equal(const StateDict& got, const StateDict& want) {
  EXPECT_EQ(got.metadata, want.metadata);
  ASSERT_EQ(got.tensors.size(), want.tensors.size());
  for (size_t i = 0; i < got.tensors.size(); ++i) {
    EXPECT_EQ(got.tensors[i].first, want.tensors[i].first);
    EXPECT_EQ(got.tensors[i].second.dtype, want.tensors[i].second.dtype);
    EXPECT_EQ(got.tensors[i].second.shape, want.tensors[i].second.shape);
    EXPECT_EQ(got.tensors[i].second.data, want.tensors[i].second.data);
  }
}

class Safetensors : public ::testing::Test {
 protected:
  /// Reading a file of this header and data is a DataError with the file's name and `part`.
  void refuse(const std::string& header, const std::string& data, const std::string& part) {
    refuse_file(file_of(header, data), part);
  }
  void refuse_file(const std::string& bytes, const std::string& part) {
    const fs::path file = write_file(folder_ / "damaged.safetensors", bytes);
    expect_error(ErrorKind::DataError, {file.string(), part}, [&] { read_safetensors(file); });
  }
  /// No temporary is left in the folder.
  void expect_only(const std::vector<fs::path>& files) {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder_.path())) ++count;
    EXPECT_EQ(count, files.size());
    for (const fs::path& file : files) EXPECT_TRUE(fs::exists(file)) << file;
  }

  TempFolder folder_;
};

TEST_F(Safetensors, RoundTrip) {
  StateDict state = small_state();
  state.tensors.emplace_back("scalar", tensor<float>("F32", {}, {9}));
  state.tensors.emplace_back("empty", tensor<float>("F32", {0, 4}, {}));
  state.tensors.emplace_back("name with \"quotes\", ünïcode",
                             tensor<uint16_t>("BF16", {1, 1, 1, 1}, {0x3f80}));
  state.metadata = {{"epoch", "3"}, {"note", "größer\n"}};
  const fs::path file = folder_ / "state.safetensors";
  write_safetensors(file, state);
  expect_equal(read_safetensors(file), state);
  expect_only({file});
}

TEST_F(Safetensors, AnEmptyStateRoundTrips) {
  write_safetensors(folder_ / "empty", {});
  expect_equal(read_safetensors(folder_ / "empty"), {});
}

TEST_F(Safetensors, WritesTheDocumentedBytes) {
  StateDict state{{{"b", tensor<uint8_t>("U8", {3}, {1, 2, 3})}, {"a", tensor<float>("F32", {1, 1}, {1.0f})}},
                  {{"k", "v"}}};
  write_safetensors(folder_ / "file", state);
  // The wider dtype comes first, so that both are aligned; spaces pad the header to 8 bytes.
  const std::string header =
      R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},)"
      R"("b":{"dtype":"U8","shape":[3],"data_offsets":[4,7]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(read_file(folder_ / "file"), file_of(padded, std::string("\x00\x00\x80\x3f\x01\x02\x03", 7)));
}

TEST_F(Safetensors, EveryTensorIsAlignedToItsElement) {
  const StateDict state{{{"a", tensor<uint8_t>("I8", {1}, {1})},
                         {"b", tensor<uint16_t>("F16", {1}, {1})},
                         {"c", tensor<float>("F32", {1}, {1})},
                         {"d", tensor<int64_t>("I64", {1}, {1})}},
                        {}};
  write_safetensors(folder_ / "file", state);
  const StateDict read = read_safetensors(folder_ / "file");
  std::string names;
  for (const auto& [name, ignored] : read.tensors) names += name;
  EXPECT_EQ(names, "dcba");
  EXPECT_EQ(static_cast<unsigned char>(read_file(folder_ / "file")[0]) % 8, 0);
}

TEST_F(Safetensors, ReadsAFileOfThePythonPackage) {
  const StateDict state = read_safetensors(TR_SOURCE_DIR "/tests/reference/safetensors/python.safetensors");
  EXPECT_EQ(state.metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"note", "größer"}}));
  ASSERT_EQ(state.tensors.size(), 7u);

  const auto find = [&](const char* name, const std::string& dtype, const std::vector<int64_t>& shape) {
    const StateTensor* found = state.find(name);
    if (found == nullptr) throw Error(ErrorKind::ValueError, name);
    EXPECT_EQ(found->dtype, dtype) << name;
    EXPECT_EQ(found->shape, shape) << name;
    return *found;
  };
  const std::vector<float> weight = values_of<float>(find("conv.weight", "F32", {2, 3, 2, 2}));
  ASSERT_EQ(weight.size(), 24u);
  for (size_t i = 0; i < weight.size(); ++i) EXPECT_EQ(weight[i], static_cast<float>(i) / 4 - 3);
  EXPECT_EQ(values_of<int64_t>(find("bn.num_batches_tracked", "I64", {})), std::vector<int64_t>{7});
  EXPECT_EQ(values_of<uint16_t>(find("half", "F16", {3})), (std::vector<uint16_t>{0x3e00, 0xc000, 0x7bff}));
  EXPECT_EQ(values_of<uint16_t>(find("brain", "BF16", {1, 2})), (std::vector<uint16_t>{0x3f80, 0xbf00}));
  EXPECT_TRUE(find("empty", "F32", {0, 3}).data.empty());
  EXPECT_EQ(values_of<uint8_t>(find("mask", "BOOL", {3})), (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_EQ(values_of<int8_t>(find("ünï \"quoted\"", "I8", {2})), (std::vector<int8_t>{1, -1}));
  EXPECT_EQ(state.find("absent"), nullptr);
}

TEST_F(Safetensors, WritesWhatThePythonPackageWrites) {
  // Apart from the order of equal-sized dtypes, which is the caller's, the bytes are the same.
  const fs::path reference = TR_SOURCE_DIR "/tests/reference/safetensors/python.safetensors";
  write_safetensors(folder_ / "copy", read_safetensors(reference));
  EXPECT_EQ(read_file(folder_ / "copy"), read_file(reference));
}

TEST_F(Safetensors, RefusesDamagedLengths) {
  refuse_file("", "0 bytes, too short");
  refuse_file("1234567", "7 bytes, too short");
  refuse_file(std::string("\x08\0\0\0\0\0\0\0{}", 10), "header takes 8 bytes but only 2 follow");
  refuse_file(std::string(8, '\xff') + "{}",
              "header takes 18446744073709551615 bytes, more than the 100000000");
  refuse_file("<!DOCTYPE html>", "not a safetensors file");
}

TEST_F(Safetensors, RefusesDamagedHeaders) {
  refuse("{", "", "not JSON");
  refuse("{}x", "", "not JSON");
  refuse("", "", "does not begin with '{'");
  refuse(std::string("{}\0x", 4), "", "zero byte");
  refuse("{\"\xff\":1}", "", "not JSON");
  refuse("[]", "", "does not begin with '{'");
  refuse(R"({"a":1})", "", "'a' is a JSON number");
  refuse(R"({"__metadata__":[]})", "", "__metadata__ is a JSON array");
  refuse(R"({"__metadata__":{"a":1}})", "", "'a' is a JSON number");
  refuse(R"({"a":{"x":[[[[]]]]}})", "", "nested too deeply");
  refuse(R"({"a":)" + std::string(100000, '['), "", "nested too deeply");
}

TEST_F(Safetensors, RefusesNamesThatAppearTwice) {
  const std::string entry = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  refuse(R"({"a":)" + entry + R"(,"b":)" + entry + R"(,"a":)" + entry + "}", "", "'a' appears twice");
  refuse(R"({"__metadata__":{},"__metadata__":{}})", "", "'__metadata__' appears twice");
  refuse(R"({"__metadata__":{"k":"1","k":"2"}})", "", "'k' appears twice");
  refuse(R"({"a":{"dtype":"U8","shape":[1],"shape":[0],"data_offsets":[0,0]}})", "", "'shape' appears twice");
}

TEST_F(Safetensors, RefusesDamagedTensors) {
  const auto one = [](const std::string& dtype, const std::string& shape, const std::string& range) {
    return R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + range + "}}";
  };
  const std::string data = "12345678";
  refuse(R"({"a":{"shape":[2],"data_offsets":[0,8]}})", data, "'a' has no dtype");
  refuse(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", data, "'a' has no shape");
  refuse(R"({"a":{"dtype":"F32","shape":[2]}})", data, "'a' has no data_offsets");
  refuse(one("32", "[2]", "[0,8]"), data, "dtype is a JSON number");
  refuse(one("\"F31\"", "[2]", "[0,8]"), data, "dtype 'F31' is not known");
  refuse(one("\"F32\"", "2", "[0,8]"), data, "shape is a JSON number");
  for (const char* dim : {"-2", "2.0", "\"2\"", "null", "9223372036854775808"})
    refuse(one("\"F32\"", cat('[', dim, ']'), "[0,8]"), data, cat("shape holds ", dim));
  refuse(one("\"F32\"", "[4294967296,4294967296,4294967296]", "[0,8]"), data, "no possible number of bytes");
  refuse(one("\"F32\"", "[2305843009213693954]", "[0,8]"), data, "no possible number of bytes");
  refuse(one("\"F4\"", "[3]", "[0,2]"), data, "no possible number of bytes");
  refuse(one("\"F32\"", "[2]", "[8,0]"), data, "data_offsets [8,0]");
  refuse(one("\"F32\"", "[2]", "[8]"), data, "data_offsets [8]");
  refuse(one("\"F32\"", "[2]", "[0,4,8]"), data, "data_offsets [0,4,8]");
  refuse(one("\"F32\"", "[2]", "[-1,7]"), data, "data_offsets holds -1");
  refuse(one("\"F32\"", "[3]", "[0,8]"), data, "span 8 bytes but F32 of shape [3] takes 12");
  refuse(one("\"F32\"", "[2]", "[0,8]"), "1234567", "end at 8 but the data has 7 bytes");
}

TEST_F(Safetensors, RefusesRangesThatDoNotCoverTheData) {
  const auto two = [](const std::string& a, const std::string& b) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}";
  };
  refuse(two("[0,4]", "[3,7]"), "1234567", "'b' begins at byte 3 of the data, inside");
  refuse(two("[0,4]", "[0,4]"), "1234", "inside the tensor before it");
  refuse(two("[0,4]", "[5,9]"), "123456789", "bytes 4 to 4 of the data, before tensor 'b'");
  refuse(two("[1,5]", "[5,9]"), "123456789", "bytes 0 to 0");
  refuse(two("[0,4]", "[4,8]"), "123456789", "the last 1 bytes");
  refuse("{}", "1", "the last 1 bytes");
}

TEST_F(Safetensors, RefusesEveryTruncation) {
  write_safetensors(folder_ / "whole", small_state());
  const std::string whole = read_file(folder_ / "whole");
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) refuse_file(whole.substr(0, bytes), "");
}

TEST_F(Safetensors, MissingFilesAndFoldersAreIoErrors) {
  expect_error(ErrorKind::IoError, {"absent", "No such file"}, [&] { read_safetensors(folder_ / "absent"); });
  expect_error(ErrorKind::IoError, {folder_.path().string()}, [&] { read_safetensors(folder_.path()); });
}

TEST_F(Safetensors, RefusesToWriteWhatCannotBeRead) {
  const auto refuse_state = [&](const StateDict& state, const std::string& part) {
    expect_error(ErrorKind::ValueError, {part}, [&] { write_safetensors(folder_ / "file", state); });
  };
  StateDict state = small_state();
  state.tensors.push_back(state.tensors[0]);
  refuse_state(state, "two tensors are named 'fc.weight'");
  state = small_state();
  state.tensors[0].second.data.pop_back();
  refuse_state(state, "does not take the 23 bytes");
  state = small_state();
  state.tensors[0].second.dtype = "fp32";
  refuse_state(state, "dtype 'fp32' is not known");
  state = small_state();
  state.tensors[0].first = "__metadata__";
  refuse_state(state, "cannot be named __metadata__");
  state.tensors[0].first = "\xff";
  refuse_state(state, "not UTF-8");
  expect_only({});
}

TEST_F(Safetensors, AFailedWriteKeepsTheOldFileAndLeavesNoTemporary) {
  const fs::path file = folder_ / "state.safetensors";
  write_safetensors(file, small_state());
  const std::string old = read_file(file);

  // A full disk: the temporary leads to a device that has no space.
  fs::create_symlink("/dev/full", folder_ / "state.safetensors.tmp");
  expect_error(ErrorKind::IoError, {file.string(), "No space left"},
               [&] { write_safetensors(file, small_state()); });
  EXPECT_EQ(read_file(file), old);
  expect_only({file});

  // A temporary that cannot be made.
  const fs::path blocked = folder_ / "state.safetensors.tmp";
  fs::create_directory(blocked);
  expect_error(ErrorKind::IoError, {file.string()}, [&] { write_safetensors(file, small_state()); });
  EXPECT_EQ(read_file(file), old);
  fs::remove(blocked);

  // A folder that is a file.
  expect_error(ErrorKind::IoError, {"inside", "Not a directory"},
               [&] { write_safetensors(file / "inside", small_state()); });
  EXPECT_EQ(read_file(file), old);

  // A target that cannot be replaced.
  const fs::path folder = folder_ / "folder";
  fs::create_directory(folder);
  expect_error(ErrorKind::IoError, {folder.string(), "directory"},
               [&] { write_safetensors(folder, small_state()); });
  expect_only({file, folder});
}

TEST_F(Safetensors, ReplacesTheOldFileAndALeftoverTemporary) {
  const fs::path file = folder_ / "state.safetensors";
  write_file(file, "old");
  write_file(folder_ / "state.safetensors.tmp", std::string(10000, 'x'));
  write_safetensors(file, small_state());
  expect_equal(read_safetensors(file), small_state());
  expect_only({file});
}

}  // namespace
}  // namespace tr
