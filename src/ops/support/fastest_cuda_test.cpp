// How algorithms are chosen on a card: what does not run is left out, what was chosen is chosen again.
#include <gtest/gtest.h>

#include "ops/support/fastest.h"
#include "support/cuda_rig.h"
#include "support/expect_error.h"

namespace tr {
namespace {

using test::expect_error;

class CudaFastest : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::has_cuda_device()) GTEST_SKIP() << "no CUDA device";
    mirror_ = test::make_device_mirror(default_target(BackendKind::CUDA));
    context_ = cuda(mirror_->context());
    context_.algorithms = &algorithms_;
    context_.debug = [this](const std::string& line) { lines_.push_back(line); };
    context_.before_timing = [this] { ++times_timed_; };
    memory_ = mirror_->allocate(MOST_BYTES);
  }

  /// Takes longer the more it clears.
  Call clear(int64_t bytes) {
    return [memory = memory_, bytes, stream = context_.stream] {
      check_cuda(cudaMemsetAsync(memory, 0, static_cast<size_t>(bytes), stream), "clear");
    };
  }
  Way way(const std::string& name, Call call) {
    return {"ways", name, [this, name, call] {
              built_.push_back(name);
              return call;
            }};
  }
  /// Runs by itself, but not in a graph.
  Call waits() {
    return [this] { check_cuda(cudaStreamSynchronize(context_.stream), "a wait"); };
  }
  static Call throws() {
    return [] { throw Error(ErrorKind::DeviceError, "out of luck"); };
  }

  static constexpr int64_t MOST_BYTES = int64_t{1} << 28;
  std::unique_ptr<test::DeviceMirror> mirror_;
  CudaContext context_;
  AlgorithmCache algorithms_{{}, "test"};
  std::byte* memory_ = nullptr;
  std::vector<std::string> lines_, built_;
  int times_timed_ = 0;
};

TEST_F(CudaFastest, LeavesOutWhatDoesNotRun) {
  const std::vector<Way> ways{
      way("cannot", nullptr),
      way("slow", clear(MOST_BYTES)),
      way("throws", throws()),
      way("waits", waits()),
      {"ways", "unbuilt", []() -> Call { throw Error(ErrorKind::DeviceError, "no plan"); }},
      way("fast", clear(256))};
  const Call chosen = fastest(context_, "conv 'a': forward", "some work", ways);
  mirror_->run(chosen, true, "the chosen way");
  EXPECT_EQ(algorithms_.find("some work"), "ways: fast");
  ASSERT_EQ(lines_.size(), 3u) << "one for each that does not run";
  const char* reasons[] = {"throws: out of luck", "waits: ", "unbuilt: no plan"};
  for (size_t i = 0; i < lines_.size(); ++i) {
    EXPECT_NE(lines_[i].find("conv 'a': forward"), std::string::npos) << lines_[i];
    EXPECT_NE(lines_[i].find(reasons[i]), std::string::npos) << lines_[i];
  }
}

TEST_F(CudaFastest, ChoosesTheSameAgainWithoutTiming) {
  algorithms_.store("some work", "ways: slow");
  const std::vector<Way> ways{way("fast", clear(256)), way("slow", clear(MOST_BYTES))};
  ASSERT_TRUE(fastest(context_, "node", "some work", ways));
  EXPECT_EQ(built_, std::vector<std::string>{"slow"});
  EXPECT_EQ(times_timed_, 0);
  EXPECT_EQ(chosen_of_family(context_, "some work", "ways"), "slow");
  EXPECT_EQ(chosen_of_family(context_, "some work", "way"), std::nullopt);

  algorithms_.store("some work", "ways: of an older library");
  ASSERT_TRUE(fastest(context_, "node", "some work", ways));
  EXPECT_EQ(times_timed_, 1);
  EXPECT_EQ(algorithms_.find("some work"), "ways: fast");
}

TEST_F(CudaFastest, ALastResortIsForWhereNothingElseRuns) {
  Way last = way("last", clear(256));
  last.last_resort = true;
  ASSERT_TRUE(fastest(context_, "node", "one", {way("slow", clear(MOST_BYTES)), last}));
  EXPECT_EQ(algorithms_.find("one"), "ways: slow");
  ASSERT_TRUE(fastest(context_, "node", "two", {way("throws", throws()), last}));
  EXPECT_EQ(algorithms_.find("two"), "ways: last");
}

TEST_F(CudaFastest, NoneRuns) {
  expect_error(ErrorKind::NotSupportedError, {"fc 'b': backward", "none of 2 ways", "waits: "}, [&] {
    fastest(context_, "fc 'b': backward", "other work", {way("throws", throws()), way("waits", waits())});
  });
  EXPECT_EQ(algorithms_.find("other work"), std::nullopt);
  mirror_->run(clear(256), true, "the stream after all that");
}

}  // namespace
}  // namespace tr
