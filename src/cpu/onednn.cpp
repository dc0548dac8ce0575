#include <dlfcn.h>
#include <omp.h>

#include "core/parallel.h"
#include "cpu/onednn_library.h"
#include "ops/matmul.h"

namespace facula::cpu::onednn {
namespace {

const Library* open_library() {
  void* handle = dlopen("libdnnl.so.3", RTLD_NOW | RTLD_LOCAL);
  if (!handle) return nullptr;
  static Library found;
#define X(name)                                                                      \
  found.name = reinterpret_cast<decltype(found.name)>(dlsym(handle, "dnnl_" #name)); \
  if (!found.name) return nullptr;
  FACULA_ONEDNN_FUNCTIONS(X)
#undef X
  return &found;
}

const Library* loaded() {
  static const Library* const found = open_library();
  return found;
}

/// As many threads as products may take now; the library asks OpenMP, which does not know of pieces of ours.
void set_threads() {
  static thread_local int current = 0;
  const int wanted = in_parallel_region() ? 1 : num_threads();
  if (wanted == current) return;
  omp_set_num_threads(wanted);
  current = wanted;
}

}  // namespace

const bool built_in = true;

bool available() { return !in_forked_child() && loaded() != nullptr; }

const Library& library() {
  const Library* found = loaded();
  FACULA_CHECK(found, ErrorKind::Runtime, "oneDNN: the bundled library could not be loaded");
  return *found;
}

void check(dnnl_status_t status, const char* op) {
  FACULA_CHECK(status == dnnl_success, ErrorKind::Runtime, op, ": oneDNN refused the call, got status ",
               static_cast<int>(status));
}

dnnl_engine_t engine() {
  static dnnl_engine_t const made = [] {
    dnnl_engine_t e = nullptr;
    check(library().engine_create(&e, dnnl_cpu, 0), "engine");
    return e;
  }();
  return made;
}

dnnl_stream_t stream() {
  static thread_local dnnl_stream_t const made = [] {
    dnnl_stream_t s = nullptr;
    check(library().stream_create(&s, engine(), dnnl_stream_default_flags), "stream");
    return s;
  }();
  set_threads();
  return made;
}

dnnl_data_type_t data_type(DType dtype) {
  switch (dtype) {
    case DType::Float32: return dnnl_f32;
    case DType::Float64: return dnnl_f64;
    case DType::Float16: return dnnl_f16;
    case DType::BFloat16: return dnnl_bf16;
    case DType::Int32: return dnnl_s32;
    case DType::Int8: return dnnl_s8;
    case DType::UInt8: return dnnl_u8;
    default: return dnnl_data_type_undef;
  }
}

MemoryDesc describe(IntList sizes, IntList strides, DType dtype) {
  MemoryDesc desc;
  check(library().memory_desc_create_with_strides(desc.slot(), static_cast<int>(sizes.size()), sizes.data(),
                                                  data_type(dtype), strides.data()),
        "memory");
  return desc;
}

Memory memory(const_dnnl_memory_desc_t desc, const void* data) {
  Memory made;
  check(library().memory_create(made.slot(), desc, engine(), const_cast<void*>(data)), "memory");
  return made;
}

void sgemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
           const float* b, int64_t ldb, float beta, float* out, int64_t ldc) {
  set_threads();
  check(library().sgemm(trans_a ? 'T' : 'N', trans_b ? 'T' : 'N', m, n, k, alpha, a, lda, b, ldb, beta, out, ldc),
        "matmul");
}

namespace {

struct Matmul {
  Primitive primitive;
  MemoryDesc a, b, bias, out;
};

/// Null when the library has no kernel for this dtype here that is better than a reference loop.
std::shared_ptr<Matmul> make_matmul(const MatrixProduct& p) {
  auto made = std::make_shared<Matmul>();
  int64_t a_batch = p.a.batch == 0 ? 1 : p.batch, b_batch = p.b.batch == 0 ? 1 : p.batch;
  auto line = [](int64_t count, int64_t stride, int64_t other) {
    return count == 1 ? std::max<int64_t>(other, 1) : stride;
  };
  auto desc = [&](int64_t batch, int64_t rows, int64_t columns, const MatrixOperand& m) {
    bool by_rows = rows_contiguous(rows, columns, m.row, m.column);
    int64_t row = by_rows ? line(rows, m.row, columns) : 1, column = by_rows ? 1 : line(columns, m.column, rows);
    return describe({batch, rows, columns}, {batch == 1 ? rows * columns : m.batch, row, column}, p.dtype);
  };
  made->a = desc(a_batch, p.rows, p.inner, p.a);
  made->b = desc(b_batch, p.inner, p.columns, p.b);
  made->out = desc(p.batch, p.rows, p.columns, {nullptr, p.out_batch, p.out_row, 1});
  if (p.bias) made->bias = describe({1, 1, p.columns}, {p.columns, p.columns, 1}, p.dtype);
  PrimitiveDesc primitive;
  dnnl_status_t status = library().matmul_primitive_desc_create(
      primitive.slot(), engine(), made->a.get(), made->b.get(), made->bias.get(), made->out.get(), nullptr);
  if (status != dnnl_success) return nullptr;
  const char* implementation = "";
  library().primitive_desc_query(primitive.get(), dnnl_query_impl_info_str, 0, &implementation);
  if (std::string_view(implementation).substr(0, 3) == "ref") return nullptr;
  check(library().primitive_create(made->primitive.slot(), primitive.get()), "matmul");
  return made;
}

Cache<Matmul>& matmuls() {
  static auto* const cache = new Cache<Matmul>;  // lives for ever: threads may still multiply while the process ends
  return *cache;
}

}  // namespace

bool half_product(const MatrixProduct& p) {
  if (!available() || p.inner == 0) return false;
  dnnl_stream_t s = stream();
  Key key{static_cast<int64_t>(p.dtype),
          num_threads(),
          p.batch,
          p.rows,
          p.columns,
          p.inner,
          p.a.batch,
          p.a.row,
          p.a.column,
          p.b.batch,
          p.b.row,
          p.b.column,
          p.out_batch,
          p.out_row,
          p.bias != nullptr};
  std::shared_ptr<Matmul> found = matmuls().get(key, [&] { return make_matmul(p); });
  if (!found) return false;
  Memory a = memory(found->a.get(), p.a.data), b = memory(found->b.get(), p.b.data),
         out = memory(found->out.get(), p.out), bias;
  if (p.bias) bias = memory(found->bias.get(), p.bias);
  const dnnl_exec_arg_t arguments[] = {
      {DNNL_ARG_SRC, a.get()}, {DNNL_ARG_WEIGHTS, b.get()}, {DNNL_ARG_DST, out.get()}, {DNNL_ARG_BIAS, bias.get()}};
  check(library().primitive_execute(found->primitive.get(), s, p.bias ? 4 : 3, arguments), "matmul");
  check(library().stream_wait(s), "matmul");
  return true;
}

}  // namespace facula::cpu::onednn
