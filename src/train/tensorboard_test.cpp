#include "renaissance/train/tensorboard.h"

#include <gtest/gtest.h>

#include <cstring>

#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace tr {
namespace {

using test::TempFolder;

template <typename Number>
Number number_at(const std::string& bytes, size_t place) {
  Number number{};
  std::memcpy(&number, bytes.data() + place, sizeof number);
  return number;
}

/// The data of every record.
std::vector<std::string> records(const std::string& bytes) {
  std::vector<std::string> found;
  for (size_t at = 0; at < bytes.size();) {
    const auto length = number_at<uint64_t>(bytes, at);
    found.push_back(bytes.substr(at + 12, length));
    at += 12 + length + 4;
  }
  return found;
}

TEST(TensorBoardFile, StartsWithTheRecordThatReadersExpect) {
  const TempFolder folder;
  const TensorBoardFile file(folder.path());
  EXPECT_TRUE(is_tensorboard_file(file.path()));
  const std::string bytes = test::read_file(file.path());
  ASSERT_GT(bytes.size(), 12u);
  // wall_time: 9 bytes; file_version: tag, length, 13 bytes. The CRC of this length is known.
  EXPECT_EQ(number_at<uint64_t>(bytes, 0), 24u);
  EXPECT_EQ(number_at<uint32_t>(bytes, 8), 0x224b7fa3u);
  EXPECT_EQ(records(bytes).at(0).substr(9),
            "\x1a\x0d"
            "brain.Event:2");
}

TEST(TensorBoardFile, WritesScalarsAtTheirStep) {
  const TempFolder folder;
  TensorBoardFile file(folder.path());
  Progress progress;
  progress.epoch = 3;
  progress.step = 5;
  progress.steps = 10;
  progress.train.loss = 0.5;
  file.append(progress);
  const std::vector<std::string> found = records(test::read_file(file.path()));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].substr(9, 2), std::string("\x10\x19")) << "step 25 of the training";
  EXPECT_NE(found[1].find(std::string("\x0a\x0atrain/loss\x15\x00\x00\x00\x3f", 17)), std::string::npos);
}

TEST(TensorBoardFile, HasNothingOfAnEpochThatWasInterrupted) {
  const TempFolder folder;
  TensorBoardFile file(folder.path());
  EpochReport report;
  report.interrupted = true;
  file.append(report);
  EXPECT_EQ(records(test::read_file(file.path())).size(), 1u);
  report.interrupted = false;
  report.batches = 25;  // the axis of Progress, whatever the number of updates
  report.steps = 7;
  file.append(report);
  const std::vector<std::string> found = records(test::read_file(file.path()));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].substr(9, 2), std::string("\x10\x19"));
}

TEST(TensorBoardFile, TwoOfOneSecondAreTwoFiles) {
  const TempFolder folder;
  const TensorBoardFile first(folder.path()), second(folder.path());
  EXPECT_NE(first.path(), second.path());
}

TEST(TensorBoardFile, AFolderThatIsNotThereIsRefused) {
  test::expect_error(ErrorKind::IoError, {"/no/such/folder/events.out.tfevents.", "No such file"},
                     [] { const TensorBoardFile file("/no/such/folder"); });
}

}  // namespace
}  // namespace tr
