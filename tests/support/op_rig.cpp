#include "support/op_rig.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <ostream>

#include "ops/support/cpu.h"
#include "renaissance/core/batch_mix.h"
#include "support/sixteen_bits.h"

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
    case INPUT_A_MIX:
    case INPUT_B_MIX:
    case LABEL:
    case PREDICTED_LABEL:
    case NAN_FLAG:
    case STEP:
    case CLEAN_STEPS:
    case SKIPPED_STEPS:
    case ACCUMULATED_SAMPLES:
    case DROPOUT_SEED:
    case DROPOUT_COUNTER:
    case SYNC_COUNTERS:
      return true;
    default:
      return false;
  }
}

bool is_per_sample(int id) { return id == LABEL || id == PREDICTED_LABEL; }

DType saved_dtype(Region region, DType features) {
  switch (region_traits(region).dtype) {
    case RegionDType::INT8:
      return DType::INT8;
    case RegionDType::INT32:
      return DType::INT32;
    case RegionDType::SIXTEEN_BIT:
      return features;
    default:
      return DType::FP32;
  }
}

bool is_16bit(DType dtype) { return dtype == DType::FP16 || dtype == DType::BF16; }

float as_float(const std::byte* element, DType dtype) {
  const auto read = [element]<typename T>(T value) {
    std::memcpy(&value, element, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::FP32:
      return read(0.0f);
    case DType::FP16:
    case DType::BF16:
      return from_16bit(read(uint16_t{0}), dtype);
    case DType::INT32:
      return static_cast<float>(read(int32_t{0}));
    default:
      return static_cast<float>(read(uint8_t{0}));
  }
}

/// Sums of the same terms in another order.
bool is_near(float a, float b) {
  return std::abs(a - b) <= 1e-3f * std::max(std::abs(a), std::abs(b)) + 1e-4f;
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

void PrintTo(const OpCase& c, std::ostream* out) { *out << c.layer << ' ' << dtype_name(c.dtype); }

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
    : catalog_(catalog), entry_(catalog.find(c.op)) {
  if (backend == BackendKind::CUDA)
    mirror_ = make_device_mirror(c.target);
  else
    context_ = std::make_unique<CpuContext>();
  kernels_ = entry_.kernels[static_cast<size_t>(backend)].get();
  const std::string name = cat(c.op, " '", c.layer, "'");
  query_.layer = c.layer;
  query_.attrs = complete_attributes(*entry_.spec, c.attrs, name);
  entry_.spec->check(query_.attrs, name);
  query_.x = c.x;
  std::vector<Shape> seen = c.x;
  if (c.flatten_x) std::transform(seen.begin(), seen.end(), seen.begin(), flattened);
  query_.y = entry_.spec->infer(query_.attrs, seen, name);
  query_.dtype = c.dtype;
  query_.target = c.target;
  query_.target.backend = backend;
  query_.reads_network_input = c.reads_network_input;
  query_.needs_dx = c.needs_dx.empty() ? std::vector<bool>(c.x.size(), true) : c.needs_dx;
  query_.gradients = c.gradients;
  query_.statistics = c.statistics ? c.statistics_rows : 0;
  params_ = entry_.spec->params(query_);
  add_tensors();
  add_baseline();
  arena_ = allocate(arena_bytes_);
  if (mirror_) device_arena_ = mirror_->allocate(arena_bytes_);
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
  const bool narrow = is_16bit(query_.dtype);
  const Region features = narrow ? Region::F_FEATURE_FP16 : Region::F_FEATURE_FP32,
               gradients = narrow ? Region::F_GRAD_SLOT_FP16 : Region::F_GRAD_SLOT_FP32;
  const int inputs = static_cast<int>(query_.x.size());
  for (int i = 0; i < inputs; ++i) {
    const Shape& x = query_.x[static_cast<size_t>(i)];
    add(Port::X, i, x, query_.dtype, query_.reads_network_input ? Region::I_A_DATA : features);
    if (query_.needs_dx[static_cast<size_t>(i)]) add(Port::DX, i, x, query_.dtype, gradients);
  }
  add(Port::Y, 0, query_.y, query_.dtype, features);
  for (int i = 0; i < query_.gradients; ++i) add(Port::DY, i, query_.y, query_.dtype, gradients);
  for (int i = 0; i < static_cast<int>(params_.size()); ++i) {
    const ParamSpec& param = params_[static_cast<size_t>(i)];
    const int role = static_cast<int>(param.role);
    const int narrow_role = role - static_cast<int>(ParamRole::FC_WEIGHT);
    const bool copied = narrow && is_weight_role(param.role);
    const DType dtype = copied ? query_.dtype : DType::FP32;
    add(Port::PARAM, i, param.shape, dtype,
        copied ? region_at(index_of(Region::A_FC_WEIGHT) + narrow_role)
               : region_at(index_of(Region::W_BN_BIAS) + role));
    add(Port::PARAM_GRAD, i, param.shape, dtype,
        copied ? region_at(index_of(Region::G_FC_WEIGHT_FP16) + narrow_role)
               : region_at(index_of(Region::G_BN_BIAS) + role));
  }
  if (const int64_t channels = entry_.spec->state_channels(query_); channels > 0) {
    const Shape per_channel(1, 1, 1, channels);
    add(Port::STATE_PREV, 0, per_channel, DType::FP32, Region::B_PREV_MEAN);
    add(Port::STATE_PREV, 1, per_channel, DType::FP32, Region::B_PREV_VAR);
    add(Port::STATE_NEXT, 0, per_channel, DType::FP32, Region::B_NEXT_MEAN);
    add(Port::STATE_NEXT, 1, per_channel, DType::FP32, Region::B_NEXT_VAR);
    add(Port::EQUIVALENT, 0, per_channel, DType::FP32, Region::W_EQ_SCALE);
    add(Port::EQUIVALENT, 1, per_channel, DType::FP32, Region::W_EQ_BIAS);
  }
  const std::vector<SavedSpec> saved = entry_.spec->saved(query_);
  for (int i = 0; i < static_cast<int>(saved.size()); ++i) {
    const SavedSpec& s = saved[static_cast<size_t>(i)];
    add(Port::SAVED, i, s.shape, saved_dtype(s.region, query_.dtype), s.region);
  }
  if (query_.statistics == 0) return;
  add(Port::STATISTICS, 0, Shape(1, 1, query_.statistics, query_.y.c()), DType::FP32, Region::T_TEMP_FP32);
}

void OpRig::add_baseline() {
  add(Port::BASELINE, INPUT_A_MIX, Shape(1, 1, 1, BATCH_MIX_WORDS), DType::INT32, Region::I_A_LABEL);
  for (int id = LABEL; id < NUM_BASELINE_IDS; ++id) {
    const bool is_int = is_int_baseline(id);
    Shape shape;
    if (is_per_sample(id)) shape = Shape(query_.x.front().n(), 1, 1, 1);
    if (id == SYNC_COUNTERS) shape = Shape(1, 1, 1, NUM_SYNC_COUNTERS);
    add(Port::BASELINE, id, shape, is_int ? DType::INT32 : DType::FP32,
        is_int ? Region::S_SCALAR_INT32 : Region::S_SCALAR_FP32);
  }
}

void OpRig::fill_port(Port port, int index, uint32_t salt, double scale, double shift) {
  std::vector<float> elements(static_cast<size_t>(tensor(port, index).shape.numel()));
  fill(elements, salt, scale, shift);
  set(port, index, elements);
}

void OpRig::fill_tensors(const OpCase& c) {
  const int inputs = static_cast<int>(query_.x.size());
  for (int i = 0; i < inputs; ++i)
    fill_port(Port::X, i, c.salt + X_STREAM + static_cast<uint32_t>(i), c.x_scale, c.x_shift);
  for (int i = 0; i < static_cast<int>(params_.size()); ++i) {
    const bool ones = params_[static_cast<size_t>(i)].init == InitKind::ONES;
    fill_port(Port::PARAM, i, c.salt + PARAM_STREAM + static_cast<uint32_t>(i), 1.0, ones ? 1.0 : 0.0);
  }
  for (int i = 0; i < query_.gradients; ++i)
    fill_port(Port::DY, i, c.salt + DY_STREAM + static_cast<uint32_t>(i));
  if (has(Port::STATE_PREV)) {
    fill_port(Port::STATE_PREV, 0, c.salt + STATE_STREAM);
    fill_port(Port::STATE_PREV, 1, c.salt + STATE_STREAM + 1, 1.0, 1.0);
  }
  if (has(Port::STATISTICS)) {
    fill_port(Port::STATISTICS, 0, c.salt + OFFSET_STREAM);
    fill_statistics();
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
  ints(Port::BASELINE, INPUT_A_MIX)[0] = std::bit_cast<int32_t>(c.mix_share);
  ints(Port::BASELINE, DROPOUT_SEED)[0] = static_cast<int32_t>(c.salt);
}

void OpRig::fill_statistics() {
  if (!entry_.spec->takes_statistics(query_) || query_.statistics < 2) return;
  const std::vector<float> x = get(Port::X);
  const auto channels = static_cast<size_t>(query_.x.front().c());
  std::vector<double> sums(2 * channels, 0.0);
  for (size_t i = 0; i < x.size(); ++i) {
    sums[i % channels] += double{x[i]};
    sums[channels + i % channels] += double{x[i]} * double{x[i]};
  }
  std::ranges::transform(sums, values(Port::STATISTICS).begin(),
                         [](double sum) { return static_cast<float>(sum); });
}

const OpRig::Slot& OpRig::slot(Port port, int index) const {
  const auto found = slots_.find({port, index});
  TR_CHECK(found != slots_.end(), IndexError,
           cat(entry_.spec->name(), " '", query_.layer, "' has no ", port_name(port), '[', index, ']'));
  return found->second;
}

std::byte* OpRig::dense_data(Port port, int index, DType dtype) {
  const DTensor& have = slot(port, index).tensor;
  TR_CHECK(have.dtype == dtype, TypeError,
           cat(port_name(port), '[', index, "] holds ", dtype_name(have.dtype), ", not ", dtype_name(dtype)));
  const Shape& shape = have.shape;
  TR_CHECK(have.strides[2] == shape.c() || shape.numel() == shape.c(), TypeError,
           cat(port_name(port), '[', index, "] has channel padding; use get()"));
  return data(port, index);
}

std::span<float> OpRig::values(Port port, int index) {
  auto* first = reinterpret_cast<float*>(dense_data(port, index, DType::FP32));
  return {first, static_cast<size_t>(tensor(port, index).shape.numel())};
}

std::span<int32_t> OpRig::ints(Port port, int index) {
  auto* first = reinterpret_cast<int32_t*>(dense_data(port, index, DType::INT32));
  return {first, static_cast<size_t>(tensor(port, index).shape.numel())};
}

std::span<uint8_t> OpRig::bytes(Port port, int index) {
  auto* first = reinterpret_cast<uint8_t*>(dense_data(port, index, DType::INT8));
  return {first, static_cast<size_t>(tensor(port, index).shape.numel())};
}

int64_t OpRig::position(const Slot& s, int64_t i) {
  const int64_t channels = s.tensor.shape.c(), stride = s.tensor.strides[2];
  const int64_t at = channels == stride ? i : i / channels * stride + i % channels;
  return s.offset + at * dtype_bytes(s.tensor.dtype);
}

std::vector<float> OpRig::get(Port port, int index) const {
  const Slot& s = slot(port, index);
  std::vector<float> elements(static_cast<size_t>(s.tensor.shape.numel()));
  for (size_t i = 0; i < elements.size(); ++i)
    elements[i] = as_float(arena_.get() + position(s, static_cast<int64_t>(i)), s.tensor.dtype);
  return elements;
}

void OpRig::set(Port port, int index, std::span<const float> elements) {
  const Slot& s = slot(port, index);
  const DType dtype = s.tensor.dtype;
  const std::string name = cat(port_name(port), '[', index, ']');
  TR_CHECK(dtype == DType::FP32 || is_16bit(dtype), TypeError,
           cat(name, " holds ", dtype_name(dtype), "; only fp32, fp16 and bf16 can be set"));
  TR_CHECK(std::ssize(elements) == s.tensor.shape.numel(), ShapeError,
           cat(name, ": ", elements.size(), " values for ", s.tensor.shape));
  for (size_t i = 0; i < elements.size(); ++i) {
    std::byte* to = arena_.get() + position(s, static_cast<int64_t>(i));
    if (dtype == DType::FP32) {
      std::memcpy(to, &elements[i], sizeof(float));
    } else {
      const uint16_t bits = to_16bit(elements[i], dtype);
      std::memcpy(to, &bits, sizeof bits);
    }
  }
}

std::string OpRig::who(Pass pass) const {
  return cat(entry_.spec->name(), " '", query_.layer, "' ", pass_name(pass));
}

const OpRig::Slot& OpRig::placed(const Sharing& sharing, Port port, int index) const {
  for (const InPlace& pair : sharing)
    if (pair.output.port == port && pair.output.index == index)
      return slot(pair.input.port, pair.input.index);
  return slot(port, index);
}

OpRig::Prepared OpRig::prepare(Pass pass, Sharing sharing) {
  TR_CHECK(kernels_ != nullptr, NotSupportedError, cat(who(pass), ": no kernels in this build"));
  const Offer offered = offer(pass);
  TR_CHECK(offered.supported(), NotSupportedError, cat(who(pass), ": declined: ", offered.declined));

  Prepared p;
  p.uses = entry_.spec->uses(query_, pass);
  p.sharing = std::move(sharing);
  p.workspace_bytes = offered.workspace_bytes;
  Binding binding{query_, pass, {}, nullptr};
  // A tensor read in one role and written in another would be two operands; each appears once here.
  for (const Use& use : p.uses) {
    DTensor tensor = slot(use.port, use.index).tensor;
    tensor.offset = placed(p.sharing, use.port, use.index).offset;
    binding.operands.push_back(
        {use.port, use.index, tensor, (mirror_ ? device_arena_ : arena_.get()) + tensor.offset});
  }
  if (p.workspace_bytes > 0) {
    const int64_t bytes = p.workspace_bytes + GUARD_BYTES;
    if (!mirror_) workspaces_.push_back(allocate(bytes));
    p.workspace = mirror_ ? mirror_->allocate(bytes) : workspaces_.back().get();
    binding.workspace = p.workspace;
  }
  p.call = kernels_->prepare(binding, mirror_ ? mirror_->context() : *context_);
  return p;
}

OpRig::Prepared& OpRig::prepared(Pass pass) {
  const auto found = prepared_.find(pass);
  return found != prepared_.end() ? found->second : prepared_.emplace(pass, prepare(pass, {})).first->second;
}

std::vector<OpRig::Sharing> OpRig::sharings(Pass pass) const {
  const std::vector<Use> uses = entry_.spec->uses(query_, pass);
  const auto operand = [&](const Use& use) {
    const bool used = std::any_of(uses.begin(), uses.end(), [&](const Use& other) {
      return other.port == use.port && other.index == use.index;
    });
    return used ? &slot(use.port, use.index).tensor : nullptr;
  };
  const auto same = [](const Use& a, const Use& b) { return a.port == b.port && a.index == b.index; };
  std::vector<Sharing> all;
  Sharing together;
  for (const InPlace& pair : entry_.spec->in_place(query_, pass)) {
    const DTensor *out = operand(pair.output), *in = operand(pair.input);
    if (out == nullptr || in == nullptr || !region_traits(in->region).transient ||
        out->slot_bytes != in->slot_bytes)
      continue;
    all.push_back({pair});
    const bool taken = std::any_of(together.begin(), together.end(), [&](const InPlace& other) {
      return same(other.output, pair.output) || same(other.input, pair.input);
    });
    if (!taken) together.push_back(pair);
  }
  if (together.size() > 1) all.push_back(std::move(together));
  return all;
}

const Call& OpRig::call(Pass pass) { return prepared(pass).call; }

void OpRig::execute(Pass pass, const Prepared& p, bool captured) {
  if (!mirror_) return p.call();
  mirror_->upload(device_arena_, arena_.get(), arena_bytes_);
  mirror_->run(p.call, captured, who(pass));
  mirror_->download(arena_.get(), device_arena_, arena_bytes_);
}

void OpRig::fill_workspace(std::byte* to, int byte, int64_t bytes) {
  if (mirror_)
    mirror_->fill(to, byte, bytes);
  else
    std::memset(to, byte, static_cast<size_t>(bytes));
}

void OpRig::poison(const Prepared& p, int byte) {
  for (const Use& use : p.uses) {
    const bool apart = &placed(p.sharing, use.port, use.index) == &slot(use.port, use.index);
    if (use.write && !use.read && apart)
      std::memset(data(use.port, use.index), byte,
                  static_cast<size_t>(tensor(use.port, use.index).data_bytes()));
  }
  if (p.workspace == nullptr) return;
  fill_workspace(p.workspace, byte, p.workspace_bytes);
  fill_workspace(p.workspace + p.workspace_bytes, std::to_integer<int>(GUARD), GUARD_BYTES);
}

void OpRig::run(Pass pass, Expect expect) {
  const Prepared& p = prepared(pass);
  const std::vector<std::byte> before(arena_.get(), arena_.get() + arena_bytes_);
  poison(p, FIRST_POISON);
  execute(pass, p, false);
  check_untouched(pass, p, before);
  const std::vector<std::byte> first(arena_.get(), arena_.get() + arena_bytes_);
  std::copy(before.begin(), before.end(), arena_.get());
  poison(p, SECOND_POISON);
  execute(pass, p, true);
  check_untouched(pass, p, before);
  check_written(pass, p, first, expect);
  run_in_place(pass, before);
  if (pass == Pass::FORWARD && entry_.spec->recompute_pass() != pass) recompute(expect);
}

void OpRig::recompute(Expect expect) {
  const std::vector<std::byte> forward(arena_.get(), arena_.get() + arena_bytes_);
  const Pass pass = entry_.spec->recompute_pass();
  run(pass, expect);
  TR_CHECK(std::equal(forward.begin(), forward.end(), arena_.get()), ValueError,
           cat(who(pass), " does not give the bits that forward gave"));
}

void OpRig::run_in_place(Pass pass, const std::vector<std::byte>& before) {
  const std::vector<std::byte> apart(arena_.get(), arena_.get() + arena_bytes_);
  if (!in_place_.contains(pass))
    for (Sharing& sharing : sharings(pass)) in_place_[pass].push_back(prepare(pass, std::move(sharing)));
  for (const Prepared& shared : in_place_[pass]) {
    std::copy(before.begin(), before.end(), arena_.get());
    poison(shared, FIRST_POISON);
    execute(pass, shared, true);
    check_untouched(pass, shared, before);
    check_same_as_apart(pass, shared, apart);
  }
  std::copy(apart.begin(), apart.end(), arena_.get());
}

void OpRig::check_same_as_apart(Pass pass, const Prepared& p, const std::vector<std::byte>& apart) const {
  for (const Use& use : p.uses) {
    if (!use.write) continue;
    Slot there = slot(use.port, use.index);
    const Slot own = there;
    there.offset = placed(p.sharing, use.port, use.index).offset;
    const DType dtype = own.tensor.dtype;
    for (int64_t i = 0; i < own.tensor.shape.numel(); ++i) {
      const std::byte *got = arena_.get() + position(there, i), *want = apart.data() + position(own, i);
      TR_CHECK(is_same(got, want, dtype), ValueError,
               cat(who(pass), ": ", port_name(use.port), '[', use.index, "] element ", i, " is ",
                   as_float(got, dtype), " with outputs on the bytes of inputs, ", as_float(want, dtype),
                   " apart"));
    }
    check_padding(pass, p, use);
  }
}

void OpRig::check_untouched(Pass pass, const Prepared& p, const std::vector<std::byte>& before) const {
  for (const auto& [key, s] : slots_) {
    const bool written = std::any_of(p.uses.begin(), p.uses.end(), [&, &s = s](const Use& use) {
      return use.write && &placed(p.sharing, use.port, use.index) == &s;
    });
    const int64_t first = s.offset + (written ? s.tensor.data_bytes() : 0);
    const int64_t end = s.offset + s.tensor.slot_bytes;
    TR_CHECK(std::equal(before.begin() + first, before.begin() + end, arena_.get() + first), ValueError,
             cat(who(pass), " changed ", written ? "bytes past the end of " : "", port_name(key.first), '[',
                 key.second, written ? "]" : "], which it does not list as written"));
  }
  if (p.workspace == nullptr) return;
  std::array<std::byte, GUARD_BYTES> guard;
  const std::byte* past_the_end = p.workspace + p.workspace_bytes;
  if (mirror_)
    mirror_->download(guard.data(), past_the_end, GUARD_BYTES);
  else
    std::copy_n(past_the_end, GUARD_BYTES, guard.begin());
  TR_CHECK(std::ranges::all_of(guard, [](std::byte b) { return b == GUARD; }), ValueError,
           cat(who(pass), " wrote past its workspace of ", p.workspace_bytes, " bytes"));
}

bool OpRig::is_same(const std::byte* a, const std::byte* b, DType dtype) const {
  if (std::memcmp(a, b, static_cast<size_t>(dtype_bytes(dtype))) == 0) return true;
  return !query_.target.deterministic && is_near(as_float(a, dtype), as_float(b, dtype));
}

void OpRig::check_written(Pass pass, const Prepared& p, const std::vector<std::byte>& first,
                          Expect expect) const {
  for (const Use& use : p.uses) {
    if (!use.write) continue;
    const Slot& s = slot(use.port, use.index);
    const DType dtype = s.tensor.dtype;
    const bool counters = use.port == Port::BASELINE && use.index == SYNC_COUNTERS;
    for (int64_t i = 0; i < s.tensor.shape.numel(); ++i) {
      const int64_t at = position(s, i);
      const auto name = [&] {
        return cat(who(pass), ": ", port_name(use.port), '[', use.index, "] element ", i);
      };
      const float value = as_float(arena_.get() + at, dtype);
      TR_CHECK(is_same(arena_.get() + at, first.data() + at, dtype), ValueError,
               cat(name(), " differs between two runs that start from different undefined bytes"));
      TR_CHECK(!counters || value == 0.0f, ValueError, cat(name(), " is ", value, ", not back at zero"));
      TR_CHECK(expect == Expect::ANY || std::isfinite(value), ValueError, cat(name(), " is ", value));
    }
    check_padding(pass, p, use);
  }
}

void OpRig::check_padding(Pass pass, const Prepared& p, const Use& use) const {
  const DTensor& map = slot(use.port, use.index).tensor;
  // Masks that are a row of bits have no pixels.
  const bool is_map = map.region == Region::F_FEATURE_FP16 || map.region == Region::F_GRAD_SLOT_FP16 ||
                      (map.region == Region::S_MASK && map.shape == query_.y && map.shape.numel() > 1);
  const int64_t size = dtype_bytes(map.dtype), stride = map.strides[2],
                offset = placed(p.sharing, use.port, use.index).offset;
  if (!is_map || stride == map.shape.c()) return;
  for (int64_t pixel = 0; pixel < map.physical_elements() / stride; ++pixel) {
    const std::byte* padding = arena_.get() + offset + (pixel * stride + map.shape.c()) * size;
    TR_CHECK(std::all_of(padding, padding + (stride - map.shape.c()) * size,
                         [](std::byte b) { return b == std::byte{0}; }),
             ValueError,
             cat(who(pass), " left channel padding of ", port_name(use.port), '[', use.index,
                 "] that is not zero, at pixel ", pixel));
  }
}

void OpRig::run_backward(Expect expect) {
  std::vector<std::vector<float>> kept;
  for (int i = 0; i < query_.gradients; ++i) kept.push_back(get(Port::DY, i));
  if (entry_.spec->passes_gradient_through(query_.attrs)) {
    for (int i = 0; i < static_cast<int>(query_.x.size()); ++i)
      if (has(Port::DX, i)) set(Port::DX, i, kept[0]);
    return;
  }
  for (const Pass pass : entry_.spec->backward_passes(query_)) run(pass, expect);
  for (int i = 0; i < query_.gradients; ++i) set(Port::DY, i, kept[static_cast<size_t>(i)]);
}

}  // namespace tr::test
