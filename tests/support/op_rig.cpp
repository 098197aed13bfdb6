#include "support/op_rig.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>

#include "ops/support/cpu.h"

namespace tr::test {

namespace {

constexpr int FIRST_POISON = 0xFF;   // NaN as FP32, -1 as INT32
constexpr int SECOND_POISON = 0x7F;  // 3.4e38 as FP32
constexpr int64_t GUARD_BYTES = ARENA_ALIGNMENT_BYTES;
constexpr std::byte GUARD{0x5A};

Shape flattened(const Shape& x) { return {x.n(), 1, 1, x.h() * x.w() * x.c()}; }

bool is_int_baseline(int id) {
  switch (id) {
    case INPUT_A_LABEL:
    case INPUT_B_LABEL:
    case LABEL:
    case PREDICTED_LABEL:
    case NAN_FLAG:
    case STEP:
    case CLEAN_STEPS:
    case SKIPPED_STEPS:
    case DROPOUT_SEED:
    case DROPOUT_COUNTER:
      return true;
    default:
      return false;
  }
}

bool is_per_sample(int id) { return id == LABEL || id == PREDICTED_LABEL; }

DType saved_dtype(Region region) {
  switch (region_traits(region).dtype) {
    case RegionDType::INT8:
      return DType::INT8;
    case RegionDType::INT32:
      return DType::INT32;
    default:
      return DType::FP32;
  }
}

std::unique_ptr<KernelContext> make_context(BackendKind backend) {
  TR_CHECK(backend == BackendKind::CPU, NotSupportedError,
           cat("the operator rig has no context for ", backend_name(backend)));
  return std::make_unique<CpuContext>();
}

}  // namespace

float fill_value(uint64_t i, uint32_t salt) {
  uint32_t u = static_cast<uint32_t>((i + 1) * 2654435761u + uint64_t{salt} * 40503u);
  u ^= u >> 15;
  u *= 2246822519u;
  u ^= u >> 13;
  return static_cast<float>(u >> 8) * 0x1p-24f - 0.5f;
}

void fill(std::span<float> values, uint32_t salt, double scale, double shift) {
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(scale * double{fill_value(i, salt)} + shift);
}

void OpRig::AlignedFree::operator()(std::byte* memory) const {
  ::operator delete[](memory, std::align_val_t{ARENA_ALIGNMENT_BYTES});
}

OpRig::Buffer OpRig::allocate(int64_t bytes) {
  auto* memory = static_cast<std::byte*>(
      ::operator new[](static_cast<size_t>(bytes), std::align_val_t{ARENA_ALIGNMENT_BYTES}));
  std::memset(memory, 0, static_cast<size_t>(bytes));
  return Buffer(memory);
}

OpRig::OpRig(const Catalog& catalog, const OpCase& c, BackendKind backend)
    : catalog_(catalog), entry_(catalog.find(c.op)), context_(make_context(backend)) {
  kernels_ = entry_.kernels[static_cast<size_t>(backend)].get();
  const std::string name = cat(c.op, " '", c.layer, "'");
  query_.layer = c.layer;
  query_.attrs = complete_attributes(*entry_.spec, c.attrs, name);
  entry_.spec->check(query_.attrs, name);
  query_.x = c.x;
  std::vector<Shape> seen = c.x;
  if (c.flatten_x) std::transform(seen.begin(), seen.end(), seen.begin(), flattened);
  query_.y = entry_.spec->infer(query_.attrs, seen, name);
  query_.target = c.target;
  query_.target.backend = backend;
  query_.reads_network_input = c.reads_network_input;
  query_.needs_dx = c.needs_dx.empty() ? std::vector<bool>(c.x.size(), true) : c.needs_dx;
  params_ = entry_.spec->params(query_);
  add_tensors();
  arena_ = allocate(arena_bytes_);
  fill_tensors(c);
}

OpRig::~OpRig() = default;

void OpRig::add(Port port, int index, const Shape& shape, DType dtype, Region region) {
  Slot& slot = slots_[{port, index}];
  slot.tensor =
      make_dtensor(static_cast<TensorId>(slots_.size() - 1), shape, dtype, region, query_.target.backend);
  slot.tensor.offset = arena_bytes_;
  slot.offset = arena_bytes_;
  arena_bytes_ += slot.tensor.slot_bytes;
}

void OpRig::add_tensors() {
  const int inputs = static_cast<int>(query_.x.size());
  for (int i = 0; i < inputs; ++i) {
    const Shape& x = query_.x[static_cast<size_t>(i)];
    add(Port::X, i, x, DType::FP32, query_.reads_network_input ? Region::I_A_DATA : Region::F_FEATURE_FP32);
    if (query_.needs_dx[static_cast<size_t>(i)]) add(Port::DX, i, x, DType::FP32, Region::F_GRAD_SLOT_FP32);
  }
  add(Port::Y, 0, query_.y, DType::FP32, Region::F_FEATURE_FP32);
  add(Port::DY, 0, query_.y, DType::FP32, Region::F_GRAD_SLOT_FP32);
  for (int i = 0; i < static_cast<int>(params_.size()); ++i) {
    const ParamSpec& param = params_[static_cast<size_t>(i)];
    const int role = static_cast<int>(param.role);
    add(Port::PARAM, i, param.shape, DType::FP32, region_at(index_of(Region::W_BN_BIAS) + role));
    add(Port::PARAM_GRAD, i, param.shape, DType::FP32, region_at(index_of(Region::G_BN_BIAS) + role));
  }
  if (const int64_t channels = entry_.spec->state_channels(query_); channels > 0) {
    const Shape per_channel(1, 1, 1, channels);
    add(Port::STATE_PREV, 0, per_channel, DType::FP32, Region::B_PREV_MEAN);
    add(Port::STATE_PREV, 1, per_channel, DType::FP32, Region::B_PREV_VAR);
    add(Port::STATE_NEXT, 0, per_channel, DType::FP32, Region::B_NEXT_MEAN);
    add(Port::STATE_NEXT, 1, per_channel, DType::FP32, Region::B_NEXT_VAR);
  }
  const std::vector<SavedSpec> saved = entry_.spec->saved(query_);
  for (int i = 0; i < static_cast<int>(saved.size()); ++i) {
    const SavedSpec& s = saved[static_cast<size_t>(i)];
    add(Port::SAVED, i, s.shape, saved_dtype(s.region), s.region);
  }
  const Shape per_sample(query_.x.front().n(), 1, 1, 1);
  for (int id = LABEL; id < NUM_BASELINE_IDS; ++id) {
    const bool is_int = is_int_baseline(id);
    add(Port::BASELINE, id, is_per_sample(id) ? per_sample : Shape(), is_int ? DType::INT32 : DType::FP32,
        is_int ? Region::S_SCALAR_INT32 : Region::S_SCALAR_FP32);
  }
}

void OpRig::fill_tensors(const OpCase& c) {
  const int inputs = static_cast<int>(query_.x.size());
  for (int i = 0; i < inputs; ++i)
    fill(values(Port::X, i), c.salt + X_STREAM + static_cast<uint32_t>(i), c.x_scale, c.x_shift);
  for (int i = 0; i < static_cast<int>(params_.size()); ++i) {
    const bool ones = params_[static_cast<size_t>(i)].init == InitKind::ONES;
    fill(values(Port::PARAM, i), c.salt + PARAM_STREAM + static_cast<uint32_t>(i), 1.0, ones ? 1.0 : 0.0);
  }
  fill(values(Port::DY), c.salt + DY_STREAM);
  if (has(Port::STATE_PREV)) {
    fill(values(Port::STATE_PREV, 0), c.salt + STATE_STREAM);
    fill(values(Port::STATE_PREV, 1), c.salt + STATE_STREAM + 1, 1.0, 1.0);
  }
  const std::span<int32_t> labels = ints(Port::BASELINE, LABEL);
  TR_CHECK(c.labels.empty() || c.labels.size() == labels.size(), ShapeError,
           cat("operator case has ", c.labels.size(), " labels for ", labels.size(), " samples"));
  for (size_t i = 0; i < labels.size(); ++i)
    labels[i] = c.labels.empty()
                    ? static_cast<int32_t>((7 * static_cast<int64_t>(i) + c.salt) % query_.x.front().c())
                    : c.labels[i];
  values(Port::BASELINE, LABEL_SMOOTHING)[0] = c.label_smoothing;
  values(Port::BASELINE, LOSS_SCALE)[0] = c.loss_scale;
  values(Port::BASELINE, BATCH_SIZE)[0] = static_cast<float>(query_.x.front().n());
  ints(Port::BASELINE, DROPOUT_SEED)[0] = static_cast<int32_t>(c.salt);
}

const OpRig::Slot& OpRig::slot(Port port, int index) const {
  const auto found = slots_.find({port, index});
  TR_CHECK(found != slots_.end(), IndexError,
           cat(entry_.spec->name(), " '", query_.layer, "' has no ", port_name(port), '[', index, ']'));
  return found->second;
}

std::byte* OpRig::typed_data(Port port, int index, DType dtype) {
  const DType have = slot(port, index).tensor.dtype;
  TR_CHECK(have == dtype, TypeError,
           cat(port_name(port), '[', index, "] holds ", dtype_name(have), ", not ", dtype_name(dtype)));
  return data(port, index);
}

std::span<float> OpRig::values(Port port, int index) {
  auto* first = reinterpret_cast<float*>(typed_data(port, index, DType::FP32));
  return {first, static_cast<size_t>(tensor(port, index).shape.numel())};
}

std::span<int32_t> OpRig::ints(Port port, int index) {
  auto* first = reinterpret_cast<int32_t*>(typed_data(port, index, DType::INT32));
  return {first, static_cast<size_t>(tensor(port, index).shape.numel())};
}

std::span<uint8_t> OpRig::bytes(Port port, int index) {
  auto* first = reinterpret_cast<uint8_t*>(typed_data(port, index, DType::INT8));
  return {first, static_cast<size_t>(tensor(port, index).shape.numel())};
}

std::string OpRig::who(Pass pass) const {
  return cat(entry_.spec->name(), " '", query_.layer, "' ", pass_name(pass));
}

OpRig::Prepared& OpRig::prepared(Pass pass) {
  if (const auto found = prepared_.find(pass); found != prepared_.end()) return found->second;
  TR_CHECK(kernels_ != nullptr, NotSupportedError, cat(who(pass), ": no kernels in this build"));
  const Offer offered = offer(pass);
  TR_CHECK(offered.supported(), NotSupportedError, cat(who(pass), ": declined: ", offered.declined));

  Prepared p;
  p.uses = entry_.spec->uses(query_, pass);
  p.workspace_bytes = offered.workspace_bytes;
  Binding binding{query_, pass, {}, nullptr};
  // A tensor read in one role and written in another would be two operands; each appears once here.
  for (const Use& use : p.uses) {
    const Slot& s = slot(use.port, use.index);
    binding.operands.push_back({use.port, use.index, s.tensor, arena_.get() + s.offset});
  }
  if (p.workspace_bytes > 0) {
    workspaces_.push_back(allocate(p.workspace_bytes + GUARD_BYTES));
    p.workspace = workspaces_.back().get();
    binding.workspace = p.workspace;
  }
  p.call = kernels_->prepare(binding, *context_);
  return prepared_.emplace(pass, std::move(p)).first->second;
}

const Call& OpRig::call(Pass pass) { return prepared(pass).call; }

void OpRig::poison(const Prepared& p, int byte) {
  for (const Use& use : p.uses) {
    if (use.write && !use.read)
      std::memset(data(use.port, use.index), byte,
                  static_cast<size_t>(tensor(use.port, use.index).data_bytes()));
  }
  if (p.workspace == nullptr) return;
  std::memset(p.workspace, byte, static_cast<size_t>(p.workspace_bytes));
  std::fill_n(p.workspace + p.workspace_bytes, GUARD_BYTES, GUARD);
}

void OpRig::run(Pass pass, Expect expect) {
  const Prepared& p = prepared(pass);
  const std::vector<std::byte> before(arena_.get(), arena_.get() + arena_bytes_);
  poison(p, FIRST_POISON);
  p.call();
  check_untouched(pass, p, before);
  const std::vector<std::byte> first(arena_.get(), arena_.get() + arena_bytes_);
  std::copy(before.begin(), before.end(), arena_.get());
  poison(p, SECOND_POISON);
  p.call();
  check_untouched(pass, p, before);
  check_written(pass, p, first, expect);
}

void OpRig::check_untouched(Pass pass, const Prepared& p, const std::vector<std::byte>& before) const {
  for (const auto& [key, s] : slots_) {
    const bool written = std::any_of(p.uses.begin(), p.uses.end(), [&key = key](const Use& use) {
      return use.write && key == std::pair(use.port, use.index);
    });
    const int64_t first = s.offset + (written ? s.tensor.data_bytes() : 0);
    const int64_t end = s.offset + s.tensor.slot_bytes;
    TR_CHECK(std::equal(before.begin() + first, before.begin() + end, arena_.get() + first), ValueError,
             cat(who(pass), " changed ", written ? "bytes past the end of " : "", port_name(key.first), '[',
                 key.second, written ? "]" : "], which it does not list as written"));
  }
  const std::byte* guard = p.workspace + p.workspace_bytes;
  TR_CHECK(p.workspace == nullptr ||
               std::all_of(guard, guard + GUARD_BYTES, [](std::byte b) { return b == GUARD; }),
           ValueError, cat(who(pass), " wrote past its workspace of ", p.workspace_bytes, " bytes"));
}

void OpRig::check_written(Pass pass, const Prepared& p, const std::vector<std::byte>& first,
                          Expect expect) const {
  for (const Use& use : p.uses) {
    if (!use.write) continue;
    const Slot& s = slot(use.port, use.index);
    const int64_t size = dtype_bytes(s.tensor.dtype);
    const std::byte* now = arena_.get() + s.offset;
    for (int64_t i = 0; i < s.tensor.shape.numel(); ++i) {
      const auto element = [&] {
        return cat(who(pass), ": ", port_name(use.port), '[', use.index, "] element ", i);
      };
      TR_CHECK(
          std::memcmp(now + i * size, first.data() + s.offset + i * size, static_cast<size_t>(size)) == 0,
          ValueError, cat(element(), " differs between two runs that start from different undefined bytes"));
      if (expect == Expect::ANY || s.tensor.dtype != DType::FP32) continue;
      float value;
      std::memcpy(&value, now + i * size, sizeof value);
      TR_CHECK(std::isfinite(value), ValueError, cat(element(), " is ", value));
    }
  }
}

void OpRig::run_backward(Expect expect) {
  const std::span<float> dy = values(Port::DY);
  const std::vector<float> kept(dy.begin(), dy.end());
  if (entry_.spec->passes_gradient_through(query_.attrs)) {
    for (int i = 0; i < static_cast<int>(query_.x.size()); ++i)
      if (has(Port::DX, i)) std::ranges::copy(dy, values(Port::DX, i).begin());
    return;
  }
  for (const Pass pass : entry_.spec->backward_passes(query_)) run(pass, expect);
  std::ranges::copy(kept, dy.begin());
}

}  // namespace tr::test
