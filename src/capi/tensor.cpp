// Errors, settings and tensors of the C interface.
#include "autograd/engine.h"
#include "capi/capi.h"
#include "core/backend.h"
#include "core/checked.h"
#include "core/number.h"
#include "core/parallel.h"
#include "core/public_names.h"
#include "functions.h"

namespace facula::capi {
namespace {

thread_local std::string error_text;

constexpr fc_status kStatus[] = {FC_RUNTIME,       FC_VALUE,     FC_TYPE,      FC_INDEX,  FC_NOT_IMPLEMENTED,
                                 FC_OUT_OF_MEMORY, FC_ATTRIBUTE, FC_ASSERTION, FC_LINALG, FC_BUFFER};

constexpr std::pair<fc_status, const char*> kStatusNames[] = {
    {FC_OK, "FC_OK"},
    {FC_RUNTIME, "FC_RUNTIME"},
    {FC_VALUE, "FC_VALUE"},
    {FC_TYPE, "FC_TYPE"},
    {FC_INDEX, "FC_INDEX"},
    {FC_NOT_IMPLEMENTED, "FC_NOT_IMPLEMENTED"},
    {FC_OUT_OF_MEMORY, "FC_OUT_OF_MEMORY"},
    {FC_ATTRIBUTE, "FC_ATTRIBUTE"},
    {FC_ASSERTION, "FC_ASSERTION"},
    {FC_LINALG, "FC_LINALG"},
    {FC_BUFFER, "FC_BUFFER"},
    {FC_INTERNAL, "FC_INTERNAL"},
};

fc_status noted(fc_status status, const char* text) noexcept {
  try {
    error_text = text;
  } catch (...) {
    error_text.clear();  // no memory even for the text
  }
  return status;
}

constexpr int32_t kMostDims = 64;  // of the core's tensors

/// A contiguous copy of all elements on the CPU.
Tensor on_cpu(const Tensor& t) {
  const GradMode guard(false);
  materialize(t);
  const Tensor host = contiguous(_to_device(t, kCPU, t.dtype()));
  materialize_bytes(host);
  return host;
}

void check_bytes(const Tensor& t, const void* data, size_t bytes, const char* what) {
  const auto wanted = static_cast<size_t>((Checked(t.numel()) * Checked(t.item_size())).get(what, "the size"));
  FACULA_CHECK(bytes == wanted, ErrorKind::Value, what, ": the tensor has ", wanted, " bytes, got ", bytes);
  FACULA_CHECK(data || bytes == 0, ErrorKind::Value, what, ": the data are NULL");
}

/// Elements must lie where the processor expects them.
void check_memory(const void* data, size_t bytes, DType dtype) {
  FACULA_CHECK(data || bytes == 0, ErrorKind::Value, "fc_tensor_wrap: the data are NULL");
  const auto size = static_cast<uintptr_t>(is_complex(dtype) ? item_size(dtype) / 2 : item_size(dtype));
  FACULA_CHECK(reinterpret_cast<uintptr_t>(data) % size == 0, ErrorKind::Value, "fc_tensor_wrap: the address of ",
               dtype, " elements must be a multiple of ", size);
}

template <class T>
T item_of(fc_tensor tensor, const char* what) {
  const Scalar value = borrow(tensor, what).item();
  FACULA_CHECK(has_value<T>(value), ErrorKind::Value, what, ": the element has no value of this type");
  return value.to<T>();
}

void write_dims(IntList dims, int64_t* to, int32_t room, const char* what) {
  const auto count = static_cast<int32_t>(dims.size());
  FACULA_CHECK(room >= count && (to || count == 0), ErrorKind::Value, what, ": the tensor has ", count,
               " dimensions, got room for ", to ? room : 0);
  std::copy(dims.begin(), dims.end(), to);
}

}  // namespace

fc_status caught() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return noted(kStatus[static_cast<size_t>(error.kind())], with_public_name(error.what()).c_str());
  } catch (const std::bad_alloc&) {
    return noted(FC_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return noted(FC_INTERNAL, error.what());
  } catch (...) {
    return noted(FC_INTERNAL, "an exception of unknown kind");
  }
}

Tensor borrow(fc_tensor t, const char* what) {
  FACULA_CHECK(t, ErrorKind::Value, what, ": the tensor is NULL");
  return Tensor::share(impl(t));
}

IntList sizes_of(const int64_t* sizes, int32_t dims, const char* what) {
  FACULA_CHECK(dims >= 0 && dims <= kMostDims && (sizes || dims == 0), ErrorKind::Value, what, ": ", dims,
               " dimensions; 0 to ", kMostDims, " are possible");
  for (int32_t i = 0; i < dims; ++i)
    FACULA_CHECK(sizes[i] >= 0, ErrorKind::Value, what, ": dimension ", i, " has the size ", sizes[i]);
  return {sizes, static_cast<size_t>(dims)};
}

DType dtype_of(int64_t number, const char* what) {
  FACULA_CHECK(number >= 0 && number < kDTypes, ErrorKind::Value, what, ": no dtype has the number ", number);
  return static_cast<DType>(number);
}

Device device_of(const char* text) { return text ? parse_device(text) : kCPU; }

}  // namespace facula::capi

using namespace facula;
using namespace facula::capi;

extern "C" {

const char* fc_error_text(void) { return error_text.c_str(); }
const char* fc_status_name(fc_status status) {
  for (const auto& [known, word] : kStatusNames) {
    if (known == status) return word;
  }
  return nullptr;
}
const char* fc_version(void) { return FACULA_VERSION; }
int32_t fc_abi_version(void) { return FC_ABI_VERSION; }
int32_t fc_num_threads(void) { return num_threads(); }

fc_status fc_set_num_threads(int32_t count) {
  return guarded([&] {
    FACULA_CHECK(count > 0 && count <= 1024, ErrorKind::Value, "fc_set_num_threads: expected 1 to 1024, got ", count);
    set_num_threads(count);
  });
}

int32_t fc_device_count(const char* type) {
  int32_t count = 0;
  guarded([&] {
    const DeviceType kind = device_of(type).type;
    if (!has_backend(kind)) return;
    const auto count_of = backend_of(kind).count;
    count = count_of ? count_of() : 1;
  });
  return count;
}

const char* fc_dtype_name(fc_dtype dtype) {
  return dtype >= 0 && dtype < kDTypes ? kDTypeInfo[dtype].name.data() : nullptr;
}
size_t fc_dtype_size(fc_dtype dtype) { return dtype >= 0 && dtype < kDTypes ? kDTypeInfo[dtype].size : 0; }

fc_status fc_tensor_empty(const int64_t* sizes, int32_t dims, fc_dtype dtype, const char* device, fc_tensor* out) {
  return guarded([&] {
    fc_tensor& place = there(out, "fc_tensor_empty");
    place =
        give(empty(sizes_of(sizes, dims, "fc_tensor_empty"), dtype_of(dtype, "fc_tensor_empty"), device_of(device)));
  });
}

fc_status fc_tensor_copy_of(const void* data, size_t bytes, const int64_t* sizes, int32_t dims, fc_dtype dtype,
                            fc_tensor* out) {
  return guarded([&] {
    fc_tensor& place = there(out, "fc_tensor_copy_of");
    const Tensor made = empty(sizes_of(sizes, dims, "fc_tensor_copy_of"), dtype_of(dtype, "fc_tensor_copy_of"));
    check_bytes(made, data, bytes, "fc_tensor_copy_of");
    if (bytes) std::memcpy(made.data(), data, bytes);
    place = give(made);
  });
}

fc_status fc_tensor_wrap(void* data, size_t bytes, const int64_t* sizes, const int64_t* strides, int32_t dims,
                         fc_dtype dtype, void (*release)(void* context), void* context, fc_tensor* out) {
  return guarded([&] {
    struct Owner {
      void (*release)(void*);
      void* context;
    };
    fc_tensor& place = there(out, "fc_tensor_wrap");
    const IntList shape = sizes_of(sizes, dims, "fc_tensor_wrap");
    const DType kind = dtype_of(dtype, "fc_tensor_wrap");
    check_memory(data, bytes, kind);
    std::vector<int64_t> steps(static_cast<size_t>(dims));
    Checked step = 1;
    for (int32_t i = dims - 1; i >= 0; --i) {
      steps[static_cast<size_t>(i)] = strides ? strides[i] : step.get("fc_tensor_wrap", "a stride");
      step = step * Checked(std::max<int64_t>(sizes[i], 1));
    }
    const auto done = [](Storage* s) {
      const std::unique_ptr<Owner> owner(static_cast<Owner*>(s->context));
      if (owner->release) owner->release(owner->context);
    };
    // until the tensor stands, an error must leave the memory with the caller
    auto owner = std::make_unique<Owner>(Owner{nullptr, context});
    auto storage = Ref<Storage>::adopt(borrow_storage(data, bytes, kCPU, done, owner.get()));
    Owner* const released = owner.release();
    const Tensor made = tensor_on_storage(storage.get(), kind, 0, shape, IntList(steps), "fc_tensor_wrap");
    expose_address(made.storage());  // the caller writes there as it likes
    released->release = release;
    place = give(made);
  });
}

fc_tensor fc_tensor_retain(fc_tensor tensor) {
  if (tensor) retain(impl(tensor));
  return tensor;
}
void fc_tensor_release(fc_tensor tensor) {
  if (tensor) release(impl(tensor));
}

int32_t fc_tensor_dims(fc_tensor tensor) { return tensor ? impl(tensor)->ndim : 0; }

int64_t fc_tensor_size(fc_tensor tensor, int32_t dim) {
  const int32_t dims = fc_tensor_dims(tensor);
  dim = dim < 0 ? dim + dims : dim;
  return dim >= 0 && dim < dims ? impl(tensor)->sizes()[static_cast<size_t>(dim)] : -1;
}

int64_t fc_tensor_stride(fc_tensor tensor, int32_t dim) {
  const int32_t dims = fc_tensor_dims(tensor);
  dim = dim < 0 ? dim + dims : dim;
  if (dim < 0 || dim >= dims || guarded([&] { materialize(borrow(tensor, "fc_tensor_stride")); }) != FC_OK) return -1;
  return impl(tensor)->strides()[static_cast<size_t>(dim)];
}

fc_status fc_tensor_sizes(fc_tensor tensor, int64_t* sizes, int32_t room) {
  return guarded([&] {
    const Tensor t = borrow(tensor, "fc_tensor_sizes");
    write_dims(t.sizes(), sizes, room, "fc_tensor_sizes");
  });
}
fc_status fc_tensor_strides(fc_tensor tensor, int64_t* strides, int32_t room) {
  return guarded([&] {
    const Tensor t = borrow(tensor, "fc_tensor_strides");
    materialize(t);
    write_dims(t.strides(), strides, room, "fc_tensor_strides");
  });
}

int64_t fc_tensor_numel(fc_tensor tensor) { return tensor ? impl(tensor)->numel : 0; }
fc_dtype fc_tensor_dtype(fc_tensor tensor) { return static_cast<fc_dtype>(tensor ? impl(tensor)->dtype : DType::Bool); }

fc_status fc_tensor_device(fc_tensor tensor, char* text, size_t room) {
  return guarded([&] {
    const std::string name = to_string(borrow(tensor, "fc_tensor_device").device());
    there(text, "fc_tensor_device");
    FACULA_CHECK(room > name.size(), ErrorKind::Value, "fc_tensor_device: ", name.size() + 1, " bytes are needed, got ",
                 room);
    std::memcpy(text, name.c_str(), name.size() + 1);
  });
}

bool fc_tensor_is_contiguous(fc_tensor tensor) {
  return tensor && guarded([&] { materialize(borrow(tensor, "")); }) == FC_OK && (impl(tensor)->flags & kContiguous);
}

bool fc_tensor_shares_memory(fc_tensor a, fc_tensor b) { return a && b && impl(a)->storage == impl(b)->storage; }

fc_status fc_tensor_data(fc_tensor tensor, void** out) {
  return guarded([&] {
    const Tensor t = borrow(tensor, "fc_tensor_data");
    void*& place = there(out, "fc_tensor_data");
    FACULA_CHECK(t.device().is_cpu(), ErrorKind::Type, "fc_tensor_data: the tensor must be on the CPU, got ",
                 t.device());
    FACULA_CHECK(!t.is_conj(), ErrorKind::Type,
                 "fc_tensor_data: the memory holds the conjugates of the elements; call resolve_conj before");
    materialize(t);
    expose_address(t.storage());
    place = t.data();
  });
}

fc_status fc_tensor_read(fc_tensor tensor, void* to, size_t bytes) {
  return guarded([&] {
    const Tensor t = borrow(tensor, "fc_tensor_read");
    check_bytes(t, to, bytes, "fc_tensor_read");
    const Tensor copy = on_cpu(t);
    if (bytes) std::memcpy(to, copy.data(), bytes);
  });
}

fc_status fc_tensor_write(fc_tensor tensor, const void* from, size_t bytes) {
  return guarded([&] {
    const Tensor t = borrow(tensor, "fc_tensor_write");
    check_bytes(t, from, bytes, "fc_tensor_write");
    const Tensor source = empty(t.sizes(), t.dtype());
    if (bytes) std::memcpy(source.data(), from, bytes);
    copy_(t, source);
  });
}

fc_status fc_tensor_item_int(fc_tensor tensor, int64_t* out) {
  return guarded([&] { there(out, "fc_tensor_item_int") = item_of<int64_t>(tensor, "fc_tensor_item_int"); });
}
fc_status fc_tensor_item_float(fc_tensor tensor, double* out) {
  return guarded([&] { there(out, "fc_tensor_item_float") = item_of<double>(tensor, "fc_tensor_item_float"); });
}
fc_status fc_tensor_to(fc_tensor tensor, const char* device, int32_t dtype, fc_tensor* out) {
  return guarded([&] {
    const Tensor t = borrow(tensor, "fc_tensor_to");
    fc_tensor& place = there(out, "fc_tensor_to");
    const Device where = device ? concrete(device_of(device)) : t.device();
    const DType kind = dtype < 0 ? t.dtype() : dtype_of(dtype, "fc_tensor_to");
    const bool same = where == t.device() && kind == t.dtype();
    place = give(same ? t : _to_device(t, where, kind));
  });
}

}  // extern "C"
