#include "cpu/onednn_conv.h"

#include <algorithm>
#include <string_view>

#include "core/parallel.h"
#include "cpu/onednn_library.h"
#include "cpu/packed_weights.h"

namespace facula::cpu::onednn {
namespace {

// A tensor on its way into or out of a primitive, which may want another layout than the tensor has.
struct Port {
  MemoryDesc given;
  const_dnnl_memory_desc_t wanted = nullptr;  // belongs to the primitive's descriptor
  Memory outside, inside;                     // the tensor; what the primitive reads or writes
  Primitive reorder;                          // between them; null when they are one
  int64_t bytes = 0;                          // of `inside`
};

struct Convolution {
  PrimitiveDesc descriptor;
  Primitive primitive;
  Port x, w, y;
  Memory bias, scratchpad;
  int64_t scratchpad_bytes = 0;
};

// What a key says, spelled out.
struct ConvArguments {
  ConvMap map;
  const Tensor &y, &x, &w, &bias;
  const ConvGeometry& geometry;
};

bool is_matrix_product(const ConvArguments& p) {
  auto all = [](IntList list, int64_t value) {
    return std::all_of(list.begin(), list.end(), [=](int64_t v) { return v == value; });
  };
  const ConvGeometry& g = p.geometry;
  int64_t positions = p.x.numel() / (p.x.size(0) * p.x.size(1));
  return g.groups == 1 && positions >= 64 && all(p.w.sizes().slice(2, g.stride.size()), 1) && all(g.stride, 1) &&
         all(g.padding, 0);
}

MemoryDesc any_layout(IntList sizes, DType dtype) {
  MemoryDesc desc;
  check(library().memory_desc_create_with_tag(desc.slot(), static_cast<int>(sizes.size()), sizes.data(),
                                              data_type(dtype), dnnl_format_tag_any),
        "convolution");
  return desc;
}

// Channels-last images are taken as they are, and plain ones where the convolution is a matrix product of
// each; otherwise plain images would be reordered inside, so the library chooses.
MemoryDesc wanted_layout(const Tensor& image, const ConvArguments& p) {
  bool taken = !image.is_contiguous() || is_matrix_product(p);
  return taken ? describe(image.sizes(), image.strides(), image.dtype()) : any_layout(image.sizes(), image.dtype());
}

// Weights with the groups as a dimension of their own.
void grouped(const Tensor& w, int64_t groups, Dims& sizes, Dims& strides) {
  sizes = Dims(w.sizes());
  strides = Dims(w.strides());
  if (groups == 1) return;
  sizes[0] /= groups;
  sizes.insert(0, groups);
  strides.insert(0, strides[0] * sizes[1]);
}

PrimitiveDesc describe_primitive(const ConvArguments& p, const_dnnl_memory_desc_t x, const_dnnl_memory_desc_t w,
                                 const_dnnl_memory_desc_t y, const_dnnl_memory_desc_t bias) {
  const Library& lib = library();
  const ConvGeometry& g = p.geometry;
  size_t spatial = g.stride.size();
  Dims dilation(spatial), right(spatial);
  for (size_t d = 0; d < spatial; ++d) {
    int64_t in = p.x.sizes()[2 + d], out = p.y.sizes()[2 + d], reach = g.dilation[d] * (p.w.sizes()[2 + d] - 1) + 1;
    dilation[d] = g.dilation[d] - 1;
    right[d] = (out - 1) * g.stride[d] + reach - in - g.padding[d];
  }
  Attributes attributes;
  check(lib.primitive_attr_create(attributes.slot()), "convolution");
  check(lib.primitive_attr_set_scratchpad_mode(attributes.get(), dnnl_scratchpad_mode_user), "convolution");
  const int64_t *s = g.stride.data(), *d = dilation.data(), *l = g.padding.data(), *r = right.data();
  bool output = p.map == ConvMap::Output;
  PrimitiveDesc forward;
  dnnl_status_t status = lib.convolution_forward_primitive_desc_create(
      forward.slot(), engine(), output ? dnnl_forward_inference : dnnl_forward_training, dnnl_convolution_direct, x, w,
      bias, y, s, d, l, r, attributes.get());
  if (output || status != dnnl_success) return forward;
  PrimitiveDesc backward;
  if (p.map == ConvMap::Input) {
    lib.convolution_backward_data_primitive_desc_create(backward.slot(), engine(), dnnl_convolution_direct, x, w, y, s,
                                                        d, l, r, forward.get(), attributes.get());
  } else {
    lib.convolution_backward_weights_primitive_desc_create(backward.slot(), engine(), dnnl_convolution_direct, x, w,
                                                           nullptr, y, s, d, l, r, forward.get(), attributes.get());
  }
  return backward;
}

bool is_reference(const PrimitiveDesc& descriptor) {
  const char* implementation = "";
  library().primitive_desc_query(descriptor.get(), dnnl_query_impl_info_str, 0, &implementation);
  return std::string_view(implementation).substr(0, 3) == "ref";
}

/// Whether sums of products of bytes are exact: without the instructions for them pairs of products saturate.
bool sums_bytes_exactly(const PrimitiveDesc& descriptor) {
  const char* implementation = "";
  library().primitive_desc_query(descriptor.get(), dnnl_query_impl_info_str, 0, &implementation);
  const std::string_view name = implementation;
  return name.find("vnni") != name.npos || name.find("amx") != name.npos;
}

void connect(Port& port, const PrimitiveDesc& descriptor, dnnl_query_t what, bool into) {
  const Library& lib = library();
  port.wanted = lib.primitive_desc_query_md(descriptor.get(), what, 0);
  port.outside = memory(port.given.get(), nullptr);
  if (lib.memory_desc_equal(port.given.get(), port.wanted)) return;
  port.inside = memory(port.wanted, nullptr);
  port.bytes = static_cast<int64_t>(lib.memory_desc_get_size(port.wanted));
  PrimitiveDesc reorder;
  const_dnnl_memory_desc_t from = into ? port.given.get() : port.wanted, to = into ? port.wanted : port.given.get();
  check(lib.reorder_primitive_desc_create(reorder.slot(), from, engine(), to, engine(), nullptr), "convolution");
  check(lib.primitive_create(port.reorder.slot(), reorder.get()), "convolution");
}

// Null when there is no good primitive.
std::unique_ptr<Convolution> make_convolution(const ConvArguments& p) {
  auto made = std::make_unique<Convolution>();
  Dims w_sizes, w_strides;
  grouped(p.w, p.geometry.groups, w_sizes, w_strides);
  made->x.given = describe(p.x.sizes(), p.x.strides(), p.x.dtype());
  made->y.given = describe(p.y.sizes(), p.y.strides(), p.y.dtype());
  made->w.given = describe(w_sizes, w_strides, p.w.dtype());
  bool with_bias = p.map == ConvMap::Output && p.bias.defined();
  MemoryDesc x = wanted_layout(p.x, p), y = wanted_layout(p.y, p), w = any_layout(w_sizes, p.w.dtype());
  MemoryDesc bias = with_bias ? describe(p.bias.sizes(), p.bias.strides(), p.bias.dtype()) : MemoryDesc();
  made->descriptor = describe_primitive(p, x.get(), w.get(), y.get(), bias.get());
  if (!made->descriptor || is_reference(made->descriptor)) return nullptr;
  if (p.w.dtype() == DType::Int8 && !sums_bytes_exactly(made->descriptor)) return nullptr;
  check(library().primitive_create(made->primitive.slot(), made->descriptor.get()), "convolution");
  bool backward = p.map != ConvMap::Output;
  connect(made->x, made->descriptor, p.map == ConvMap::Input ? dnnl_query_diff_src_md : dnnl_query_src_md,
          p.map != ConvMap::Input);
  connect(made->w, made->descriptor, p.map == ConvMap::Weight ? dnnl_query_diff_weights_md : dnnl_query_weights_md,
          p.map != ConvMap::Weight);
  connect(made->y, made->descriptor, backward ? dnnl_query_diff_dst_md : dnnl_query_dst_md, p.map != ConvMap::Output);
  if (with_bias) made->bias = memory(bias.get(), nullptr);
  const_dnnl_memory_desc_t scratchpad =
      library().primitive_desc_query_md(made->descriptor.get(), dnnl_query_scratchpad_md, 0);
  made->scratchpad_bytes = static_cast<int64_t>(library().memory_desc_get_size(scratchpad));
  made->scratchpad = memory(scratchpad, nullptr);
  return made;
}

void append(Key& key, IntList list) { key.insert(key.end(), list.begin(), list.end()); }

void write_key(Key& key, const ConvArguments& p) {
  key.assign({static_cast<int64_t>(PackedAs::OneDnn), static_cast<int64_t>(p.map), static_cast<int64_t>(p.x.dtype()),
              static_cast<int64_t>(p.w.dtype()), num_threads(), p.x.dim(), p.geometry.groups,
              p.map == ConvMap::Output && p.bias.defined()});
  for (const Tensor* t : {&p.x, &p.w, &p.y}) {
    append(key, t->sizes());
    append(key, t->strides());
  }
  append(key, p.geometry.stride);
  append(key, p.geometry.padding);
  append(key, p.geometry.dilation);
}

// Per thread, as the memory objects of an entry serve one call at a time. A null entry: no good primitive.
Convolution* find_convolution(const ConvArguments& p, const Key& key) {
  constexpr size_t kMaxEntries = 1024;
  static thread_local std::unordered_map<Key, std::unique_ptr<Convolution>, KeyHash> cache;
  if (auto found = cache.find(key); found != cache.end()) return found->second.get();
  if (cache.size() >= kMaxEntries) cache.clear();
  return cache.emplace(key, make_convolution(p)).first->second.get();
}

// Bytes that live as long as the call, on a cache line boundary.
struct Buffer {
  Tensor bytes;
  void* data = nullptr;
  explicit Buffer(int64_t size) {
    if (size == 0) return;
    bytes = facula::empty({size + 63}, DType::UInt8);
    data = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(bytes.data()) + 63) & ~uintptr_t{63});
  }
};

void run_reorder(const Port& port, const Memory& from, const Memory& to, dnnl_stream_t s) {
  dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, from.get()}, {DNNL_ARG_TO, to.get()}};
  check(library().primitive_execute(port.reorder.get(), s, 2, arguments), "convolution");
}

/// Gives the primitive's memory for a port the tensor's data, or that of a buffer.
dnnl_memory_t bind(Port& port, const Tensor& t, const Buffer& buffer, bool into, dnnl_stream_t s) {
  check(library().memory_set_data_handle(port.outside.get(), t.data()), "convolution");
  if (!port.reorder) return port.outside.get();
  check(library().memory_set_data_handle(port.inside.get(), buffer.data), "convolution");
  if (into) run_reorder(port, port.outside, port.inside, s);
  return port.inside.get();
}

/// The weights in the primitive's layout, where they are cached.
Tensor cached_weights(Port& port, const Tensor& w, const Key& key, dnnl_stream_t s) {
  if (!port.reorder) return Tensor();
  return packed_weight({w.storage(), w.data<char>(), IntList(key.data(), key.size())}, port.bytes, [&](char* to) {
    check(library().memory_set_data_handle(port.outside.get(), w.data()), "convolution");
    check(library().memory_set_data_handle(port.inside.get(), to), "convolution");
    run_reorder(port, port.outside, port.inside, s);
    check(library().stream_wait(s), "convolution");
  });
}

}  // namespace

bool convolve(ConvMap map, const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias,
              const ConvGeometry& geometry) {
  const bool bytes = w.dtype() == DType::Int8 && y.dtype() == DType::Int32 && map == ConvMap::Output;
  if (!available() || data_type(x.dtype()) == dnnl_data_type_undef ||
      !(bytes || (is_floating(x.dtype()) && x.dtype() != DType::Float64)))
    return false;
  dnnl_stream_t s = stream();
  const ConvArguments call{map, y, x, w, bias, geometry};
  static thread_local Key key;
  write_key(key, call);
  Convolution* found = find_convolution(call, key);
  if (!found) return false;
  Convolution& c = *found;
  bool output = map == ConvMap::Output, input = map == ConvMap::Input, weight = map == ConvMap::Weight;
  const Tensor cached = weight ? Tensor() : cached_weights(c.w, w, key, s);
  Buffer x_buffer(c.x.bytes), w_buffer(cached.defined() ? 0 : c.w.bytes), y_buffer(c.y.bytes),
      scratch(c.scratchpad_bytes);
  if (cached.defined()) w_buffer.data = cached.data();
  dnnl_exec_arg_t arguments[5] = {
      {input ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, bind(c.x, x, x_buffer, !input, s)},
      {weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, bind(c.w, w, w_buffer, !weight && !cached.defined(), s)},
      {output ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, bind(c.y, y, y_buffer, !output, s)},
      {DNNL_ARG_SCRATCHPAD, c.scratchpad.get()}};
  int count = 4;
  check(library().memory_set_data_handle(c.scratchpad.get(), scratch.data), "convolution");
  if (c.bias) {
    check(library().memory_set_data_handle(c.bias.get(), bias.data()), "convolution");
    arguments[count++] = {DNNL_ARG_BIAS, c.bias.get()};
  }
  check(library().primitive_execute(c.primitive.get(), s, count, arguments), "convolution");
  Port& made = output ? c.y : input ? c.x : c.w;
  if (made.reorder) run_reorder(made, made.inside, made.outside, s);
  check(library().stream_wait(s), "convolution");
  if (bias.defined() && !output) add_channels_kernel(kCPU, input ? x : w, bias);
  return true;
}

}  // namespace facula::cpu::onednn
