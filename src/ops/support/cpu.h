/// What CPU kernels share: the oneDNN engine a backend lends, prebuilt oneDNN calls, loops whose results
/// do not depend on the number of threads.
#pragma once

#include <dnnl.hpp>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/parallel.h"
#include "ops/support/workspace.h"
#include "renaissance/graph/op_spec.h"

namespace tr {

class CpuContext : public KernelContext {
 public:
  CpuContext() : engine(dnnl::engine::kind::cpu, 0), stream(engine) {}
  dnnl::engine engine;
  dnnl::stream stream;
};

inline CpuContext& cpu(KernelContext& context) { return static_cast<CpuContext&>(context); }

/// While it lives, oneDNN descriptors made on this thread are for the target's number of threads: scratch
/// sizes depend on it, so offers and preparation must agree.
class ThreadsOf {
 public:
  explicit ThreadsOf(const Target& target);
  ~ThreadsOf();
  ThreadsOf(const ThreadsOf&) = delete;
  ThreadsOf& operator=(const ThreadsOf&) = delete;

 private:
  int before_;
};

/// The engine that deviceless offers query primitive descriptors with.
dnnl::engine offer_engine();

/// A oneDNN primitive with its arguments bound: calling it allocates nothing in our code. Copies share.
class DnnlCall {
 public:
  DnnlCall(dnnl::primitive primitive, dnnl::stream stream,
           std::initializer_list<std::pair<int, dnnl::memory>> arguments);
  void operator()() const;

 private:
  struct Bound;
  std::shared_ptr<const Bound> bound_;
};

/// dnnl::memory::dims of a Shape in oneDNN's logical order N,C,H,W; for filters K,C,R,S.
dnnl::memory::dims nchw_dims(const Shape& shape);
/// Descriptor of a dense NHWC tensor of FP32 or BF16.
dnnl::memory::desc nhwc_desc(const Shape& shape, DType dtype = DType::FP32);
/// oneDNN's name of FP32 or BF16; TypeError for another.
dnnl::memory::data_type dnnl_type(DType dtype);

/// Why oneDNN's convolutions and matrix products are not used for the query's type; empty where they are.
/// They take BF16 on a CPU that multiplies it (avx512_core_bf16); on others they are slower than in FP32.
std::string dnnl_declines(const OpQuery& query);
/// Likewise of one primitive: oneDNN's reference implementations are slower than FP32 on copies.
std::string dnnl_declines(const OpQuery& query, const dnnl::primitive_desc_base& desc);

}  // namespace tr
