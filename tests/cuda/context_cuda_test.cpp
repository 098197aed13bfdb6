// The CUDA context around a node of a test's own: what it finds while algorithms are timed, and what happens
// when it fails, while a step is captured and in a step that runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>

#include "renaissance/backend/backend.h"
#include "renaissance/train/checkpoint.h"
#include "support/cuda_rig.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "train/initialize.h"
#include "train/state_dict.h"

namespace tr::test {
namespace {

/// What an operator's kernels do, for a test to choose.
using Prepare = std::function<Call(const Binding&, KernelContext&)>;

/// A ReLU.
class ProbeSpec : public OpSpec {
 public:
  std::string_view name() const override { return "probe"; }
  Shape infer(const Attributes&, std::span<const Shape> x, const std::string&) const override { return x[0]; }
  std::vector<Pass> backward_passes(const OpQuery& query) const override {
    return query.needs_dx.at(0) ? std::vector<Pass>{Pass::BACKWARD} : std::vector<Pass>{};
  }
  std::vector<Use> uses(const OpQuery&, Pass pass) const override {
    if (pass == Pass::BACKWARD) return {reads(Port::Y), reads(Port::DY), writes(Port::DX)};
    return {reads(Port::X), writes(Port::Y)};
  }
};

class ProbeKernels : public OpKernels {
 public:
  explicit ProbeKernels(Prepare prepare) : prepare_(std::move(prepare)) {}
  Offer offer(const OpQuery&, Pass) const override { return {}; }
  Call prepare(const Binding& binding, KernelContext& context) const override {
    return prepare_(binding, context);
  }

 private:
  Prepare prepare_;
};

/// The card's own ReLU kernels.
Call prepare_relu(const Binding& binding, KernelContext& context) {
  const Catalog catalog = make_catalog();
  return catalog.find("relu").kernels[static_cast<size_t>(BackendKind::CUDA)]->prepare(binding, context);
}

/// A context for a network with the operator "probe"; nothing was written to its arena yet.
std::unique_ptr<Context> make_probed(BluePrint net, const Shape& input, Precision precision,
                                     Prepare prepare) {
  Catalog catalog = make_catalog();
  CatalogEntry probe;
  probe.spec = std::make_unique<ProbeSpec>();
  probe.kernels[static_cast<size_t>(BackendKind::CUDA)] = std::make_unique<ProbeKernels>(std::move(prepare));
  catalog.add(std::move(probe));
  CompileRequest request;
  request.model = std::move(net);
  request.inputs = {input, input, input, input, input, input};
  request.classes = 3;
  request.config.precision = precision;
  request.target = default_target(BackendKind::CUDA);
  request.schedule.base = 0.1;
  return make_context(std::make_shared<const CompiledModel>(
      compile(request, std::make_shared<const Catalog>(std::move(catalog)))));
}

/// The probe on the network's input.
std::unique_ptr<Context> make_faulty(Prepare prepare) {
  return make_probed(seq(named("probe", op("probe")), flatten(), named("fc", fc(3))), Shape(4, 6, 6, 1),
                     Precision::FP32, std::move(prepare));
}

std::unique_ptr<CapturedStep> capture_training(Context& context) {
  return context.capture(Variant::TRAIN_BASE, InputBuffer::A);
}

std::vector<std::byte> read_bytes(Context& context, int64_t offset, int64_t bytes) {
  std::vector<std::byte> all(static_cast<size_t>(bytes));
  context.read(0, offset, all.data(), bytes);
  return all;
}

bool all_zeros(const std::vector<std::byte>& bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

/// Points the memory of chosen algorithms at an empty folder.
class CudaTiming : public testing::TestWithParam<Precision> {
 protected:
  void SetUp() override {
    if (const char* folder = std::getenv("XDG_CACHE_HOME")) before_ = folder;
    if (!has_cuda_device()) GTEST_SKIP() << "no CUDA device";
    setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
  }
  void TearDown() override {
    if (before_)
      setenv("XDG_CACHE_HOME", before_->c_str(), 1);
    else
      unsetenv("XDG_CACHE_HOME");
  }
  std::string remembered() const {
    std::string all;
    for (const auto& file : std::filesystem::directory_iterator(folder_ / "renaissance"))
      if (file.path().extension() == ".json") all += read_file(file.path());
    return all;
  }

  TempFolder folder_;
  std::optional<std::string> before_;
};

/// The first time on random values, of which nothing is left; the second time not at all.
TEST_P(CudaTiming, IsOnRandomValuesAndRemembered) {
  const BluePrint net = seq(named("conv", conv(8, 3, 1, 1)), named("probe", op("probe")), flatten(), fc(3));
  std::string choices;
  for (const bool timed : {true, false}) {
    Context* running = nullptr;
    bool found_zeros = false;
    const auto context = make_probed(
        net, Shape(4, 6, 6, 3), GetParam(), [&](const Binding& binding, KernelContext& kernel_context) {
          if (binding.pass == Pass::FORWARD) {
            const DTensor& x = binding.tensor(Port::X);
            found_zeros = all_zeros(read_bytes(*running, x.offset, x.data_bytes()));
          }
          return prepare_relu(binding, kernel_context);
        });
    running = context.get();
    const auto step = capture_training(*context);
    EXPECT_EQ(found_zeros, !timed) << "in what the convolution before it wrote";
    EXPECT_TRUE(all_zeros(read_bytes(*context, 0, context->arenas().bytes())));
    if (timed) choices = remembered();
    EXPECT_NE(choices.find("conv forward"), std::string::npos) << choices;
    EXPECT_EQ(remembered(), choices);
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaTiming, testing::Values(Precision::FP32, Precision::FP16, Precision::BF16),
                         [](const auto& tested) { return std::string(precision_name(tested.param)); });

class CudaCaptureFault : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_cuda_device()) GTEST_SKIP() << "no CUDA device";
    context_ = make_faulty([this](const Binding& binding, KernelContext& context) {
      return fault_ ? Call([this] { fault_(); }) : prepare_relu(binding, context);
    });
  }
  void expect_refused(const std::string& reason) {
    expect_error(ErrorKind::DeviceError, {"step train_base A", "'probe forward'", reason},
                 [&] { capture_training(*context_); });
  }

  std::unique_ptr<Context> context_;
  std::function<void()> fault_;  ///< instead of the probe's kernel
};

TEST_F(CudaCaptureFault, NamesItsNode) {
  fault_ = [] { throw Error(ErrorKind::DeviceError, "no such engine"); };
  expect_refused("no such engine");
  // To wait is what a capture does not survive, whether or not the node says so itself.
  fault_ = [this] { context_->synchronize(); };
  expect_refused("not permitted");
  fault_ = [this] {
    try {
      context_->synchronize();
    } catch (const Error&) {
    }
  };
  expect_refused("not permitted");
}

TEST_F(CudaCaptureFault, LeavesTheContextAsItWas) {
  fault_ = [this] { context_->synchronize(); };
  expect_refused("not permitted");
  fault_ = nullptr;
  const auto step = capture_training(*context_);
  context_->load_input(Variant::TRAIN_BASE, InputBuffer::A);
  step->launch();
  context_->synchronize();
  int32_t steps = 0;
  context_->read(0, context_->model().plan(Variant::TRAIN_BASE).tensor(STEP).offset, &steps, sizeof steps);
  EXPECT_EQ(steps, 1);
}

/// Trains a step, saves, and trains one whose node reads where there is no memory. Exit code 1, as the
/// program has for a device's failure, where that is reported and what was saved is whole.
int train_into_a_fault() {
  const TempFolder folder;
  bool faulty = false;
  StateDict saved;
  try {
    const auto context = make_faulty([&](const Binding& binding, KernelContext& kernel_context) {
      Binding bound = binding;
      if (faulty) bound.operands.at(0).data = reinterpret_cast<std::byte*>(ARENA_ALIGNMENT_BYTES);
      return prepare_relu(bound, kernel_context);
    });
    initialize(*context, Recipe{});
    context->load_input(Variant::TRAIN_BASE, InputBuffer::A);
    capture_training(*context)->launch();
    saved = read_state_dict(*context);
    write_safetensors(folder / "weights.safetensors", saved);
    faulty = true;
    const auto step = capture_training(*context);
    step->launch();
    context->synchronize();
  } catch (const Error& error) {
    std::cerr << error.what() << std::endl;
    const StateDict whole = read_safetensors(folder / "weights.safetensors");
    const bool intact = std::ranges::equal(whole.tensors, saved.tensors, [](const auto& a, const auto& b) {
      return a.first == b.first && a.second.data == b.second.data;
    });
    return intact ? EXIT_FAILURE : 3;
  }
  return EXIT_SUCCESS;
}

/// In a process of its own: nothing on the card works in one after that.
TEST(CudaFaultDeathTest, AStickyErrorNamesTheLastNodeAndLeavesWhatWasSaved) {
  if (!has_cuda_device()) GTEST_SKIP() << "no CUDA device";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::exit(train_into_a_fault()), testing::ExitedWithCode(EXIT_FAILURE),
              "device 'cuda': .*illegal memory access.*'RANGE_.*' was the last node enqueued.*"
              "saved before is intact");
}

}  // namespace
}  // namespace tr::test
