// The C interface, called as a C program calls it: tensors, ops by name, gradients, random numbers, bad input.
#include <facula.h>

#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

namespace {

fc_value of(fc_tensor t) {
  fc_value v{};
  v.kind = FC_TENSOR_VALUE, v.as.tensor = t;
  return v;
}
fc_value of(int64_t n) {
  fc_value v{};
  v.kind = FC_INT_VALUE, v.as.integer = n;
  return v;
}
fc_value of(double n) {
  fc_value v{};
  v.kind = FC_FLOAT_VALUE, v.as.number = n;
  return v;
}
fc_value of(const std::vector<int64_t>& n) {
  fc_value v{};
  v.kind = FC_INTS_VALUE, v.count = static_cast<int32_t>(n.size()), v.as.integers = n.data();
  return v;
}

fc_tensor tensor(const std::vector<float>& data, const std::vector<int64_t>& sizes) {
  fc_tensor t = nullptr;
  CHECK(fc_tensor_copy_of(data.data(), data.size() * 4, sizes.data(), static_cast<int32_t>(sizes.size()), FC_FLOAT32,
                          &t) == FC_OK);
  return t;
}

fc_tensor call(const char* name, const std::vector<fc_value>& arguments) {
  fc_value result{};
  const fc_op op = fc_op_find(name);
  CHECK(op != nullptr);
  if (fc_call(op, arguments.data(), arguments.size(), &result) != FC_OK) {
    std::fprintf(stderr, "%s: %s\n", name, fc_error_text());
    CHECK(false);
  }
  return result.as.tensor;
}

bool fails(fc_status status, fc_status wanted, const char* words) {
  const bool right = status == wanted && std::string(fc_error_text()).find(words) != std::string::npos;
  if (!right) std::fprintf(stderr, "status %d, text: %s\n", status, fc_error_text());
  return right;
}

void test_tensors() {
  const fc_tensor t = tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(fc_tensor_dims(t) == 2 && fc_tensor_size(t, 0) == 2 && fc_tensor_size(t, -1) == 3 &&
        fc_tensor_size(t, 2) == -1);
  CHECK(fc_tensor_numel(t) == 6 && fc_tensor_dtype(t) == FC_FLOAT32 && fc_tensor_is_contiguous(t));
  const fc_tensor turned = call("transpose.int", {of(t), of(int64_t{0}), of(int64_t{1})});
  CHECK(!fc_tensor_is_contiguous(turned) && fc_tensor_stride(turned, 0) == 1);
  float read[6];
  CHECK(fc_tensor_read(turned, read, sizeof read) == FC_OK && read[1] == 4 && read[2] == 2);
  const float other[6] = {9, 8, 7, 6, 5, 4};
  CHECK(fc_tensor_write(turned, other, sizeof other) == FC_OK);
  CHECK(fc_tensor_read(t, read, sizeof read) == FC_OK && read[0] == 9 && read[1] == 7 && read[3] == 8);
  char device[8];
  CHECK(fc_tensor_device(t, device, sizeof device) == FC_OK && std::strcmp(device, "cpu") == 0);
  CHECK(fails(fc_tensor_device(t, device, 2), FC_VALUE, "4 bytes are needed, got 2"));
  CHECK(fails(fc_tensor_read(t, read, 8), FC_VALUE, "has 24 bytes, got 8"));
  const int64_t bad[2] = {2, -1}, huge[3] = {1LL << 40, 1LL << 40, 1LL << 40};
  fc_tensor none = nullptr;
  CHECK(fails(fc_tensor_empty(bad, 2, FC_FLOAT32, nullptr, &none), FC_VALUE, "dimension 1 has the size -1"));
  CHECK(fc_tensor_empty(huge, 3, FC_FLOAT32, nullptr, &none) != FC_OK && none == nullptr);
  CHECK(fails(fc_tensor_empty(bad, 100, FC_FLOAT32, nullptr, &none), FC_VALUE, "100 dimensions"));
  CHECK(fails(fc_tensor_empty(bad, 1, static_cast<fc_dtype>(77), nullptr, &none), FC_VALUE,
              "no dtype has the number 77"));
  CHECK(fc_tensor_empty(bad, 1, FC_FLOAT32, "quantum", &none) != FC_OK);
  CHECK(fc_dtype_size(FC_FLOAT64) == 8 && std::strcmp(fc_dtype_name(FC_BFLOAT16), "bfloat16") == 0);
  fc_tensor_release(turned);
  fc_tensor_release(fc_tensor_retain(t));
  fc_tensor_release(t);
  fc_tensor_release(nullptr);
}

void test_memory_of_the_caller() {
  static int released;
  released = 0;
  double data[4] = {1, 2, 3, 4};
  const int64_t sizes[2] = {2, 2}, strides[2] = {1, 2}, far[2] = {1, 9};
  const auto done = [](void* context) { ++*static_cast<int*>(context); };
  fc_tensor t = nullptr;
  CHECK(fc_tensor_wrap(data, sizeof data, sizes, strides, 2, FC_FLOAT64, done, &released, &t) == FC_OK);
  const fc_tensor view = call("select.int", {of(t), of(int64_t{0}), of(int64_t{0})});
  double row[2];
  CHECK(fc_tensor_read(view, row, sizeof row) == FC_OK && row[0] == 1 && row[1] == 3);
  fc_tensor_release(t);
  CHECK(released == 0);
  data[2] = 7;
  CHECK(fc_tensor_read(view, row, sizeof row) == FC_OK && row[1] == 7);
  fc_tensor_release(view);
  CHECK(released == 1);
  CHECK(fc_tensor_wrap(data, sizeof data, sizes, far, 2, FC_FLOAT64, done, &released, &t) != FC_OK && released == 1);
}

void test_ops() {
  CHECK(fc_op_count() > 1000 && fc_op_at(fc_op_count()) == nullptr && fc_op_find("no such op") == nullptr);
  for (size_t i = 0; i < fc_op_count(); ++i) {
    const fc_op op = fc_op_at(i);
    CHECK(fc_op_find(fc_op_name(op)) == op && *fc_op_signature(op));
    for (int32_t a = 0; a < fc_op_argument_count(op); ++a)
      CHECK(*fc_op_argument_name(op, a) && *fc_op_argument_type(op, a));
    CHECK(fc_op_argument_name(op, fc_op_argument_count(op)) == nullptr);
  }
  const fc_tensor a = tensor({1, 2, 3, 4}, {2, 2}), b = tensor({10, 20, 30, 40}, {2, 2});
  const fc_tensor sum = call("add", {of(a), of(b)}), product = call("mm", {of(a), of(b)});
  float read[4];
  CHECK(fc_tensor_read(sum, read, sizeof read) == FC_OK && read[3] == 44);
  CHECK(fc_tensor_read(product, read, sizeof read) == FC_OK && read[0] == 70);
  fc_value pair[2]{};
  const fc_value arguments[2] = {of(a), of(int64_t{1})};
  CHECK(fc_call(fc_op_find("max.dim"), arguments, 2, pair) == FC_OK);
  CHECK(fc_tensor_dtype(pair[1].as.tensor) == FC_INT64);
  for (fc_value& v : pair) fc_value_release(&v);
  fc_value parts{};
  const std::vector<int64_t> sizes = {1, 1};
  const fc_value split[2] = {of(a), of(sizes)};
  CHECK(fc_call(fc_op_find("split_with_sizes"), split, 2, &parts) == FC_OK && parts.kind == FC_TENSORS_VALUE);
  CHECK(parts.count == 2 && fc_tensor_numel(parts.as.tensors[1]) == 2);
  fc_value_release(&parts);
  CHECK(parts.kind == FC_NONE);
  fc_value none{};
  CHECK(fails(fc_call(fc_op_find("mm"), arguments, 1, &none), FC_TYPE, "the argument mat2 is missing"));
  CHECK(fails(fc_call(fc_op_find("mm"), arguments, 2, &none), FC_TYPE, "mat2 must be Tensor, got int"));
  CHECK(fails(fc_call(nullptr, arguments, 1, &none), FC_VALUE, "no such op"));
  const fc_value many[4] = {of(a), of(a), of(a), of(a)};
  CHECK(fails(fc_call(fc_op_find("mm"), many, 4, &none), FC_TYPE, "takes 2 arguments, got 4"));
  fc_value strange = of(a);
  strange.kind = 55;
  const fc_value odd[2] = {of(a), strange};
  CHECK(fails(fc_call(fc_op_find("mm"), odd, 2, &none), FC_VALUE, "no value has the kind 55"));
  const fc_tensor c = tensor({1, 2, 3}, {3, 1});
  const fc_value wrong[2] = {of(a), of(c)};
  CHECK(fc_call(fc_op_find("mm"), wrong, 2, &none) == FC_RUNTIME && none.kind == FC_NONE);
  for (const fc_tensor t : {a, b, c, sum, product}) fc_tensor_release(t);
}

void test_gradients() {
  const fc_tensor x = tensor({1, 2, 3}, {3});
  CHECK(fc_tensor_set_requires_grad(x, true) == FC_OK && fc_tensor_requires_grad(x));
  const fc_tensor square = call("mul", {of(x), of(x)}), loss = call("sum", {of(square)});
  CHECK(fc_tensor_backward(loss, nullptr, false, false) == FC_OK);
  fc_tensor grad = nullptr;
  float read[3];
  CHECK(fc_tensor_grad(x, &grad) == FC_OK && fc_tensor_read(grad, read, sizeof read) == FC_OK && read[2] == 6);
  CHECK(fails(fc_tensor_backward(loss, nullptr, false, false), FC_RUNTIME, "second time"));
  CHECK(fails(fc_tensor_backward(grad, nullptr, false, false), FC_RUNTIME, "does not require a gradient"));
  fc_tensor_release(grad);
  CHECK(fc_tensor_set_grad(x, nullptr) == FC_OK && fc_tensor_grad(x, &grad) == FC_OK && grad == nullptr);
  const fc_tensor cube = call("pow", {of(x), of(3.0)}), total = call("sum", {of(cube)});
  CHECK(fc_grad(&total, nullptr, 1, &x, 1, false, false, &grad) == FC_OK);
  CHECK(fc_tensor_read(grad, read, sizeof read) == FC_OK && read[1] == 12);
  fc_set_grad_enabled(false);
  const fc_tensor plain = call("mul", {of(x), of(x)});
  CHECK(!fc_tensor_requires_grad(plain) && !fc_grad_enabled());
  fc_set_grad_enabled(true);
  for (const fc_tensor t : {x, square, loss, grad, cube, total, plain}) fc_tensor_release(t);
}

void test_random_numbers() {
  const std::vector<int64_t> sizes = {5};
  const auto draw = [&] {
    const fc_tensor t = call("randn", {of(sizes)});
    std::vector<float> read(5);
    CHECK(fc_tensor_read(t, read.data(), 20) == FC_OK);
    fc_tensor_release(t);
    return read;
  };
  CHECK(fc_manual_seed(7) == FC_OK);
  const auto first = draw();
  CHECK(draw() != first && fc_manual_seed(7) == FC_OK && draw() == first);
  fc_generator g = nullptr;
  CHECK(fc_generator_new(nullptr, 7, &g) == FC_OK && fc_generator_seed(g, 8) == FC_OK);
  fc_generator_release(g);
}

void test_errors_belong_to_threads() {
  CHECK(fc_call(nullptr, nullptr, 0, nullptr) == FC_VALUE);
  const std::string here = fc_error_text();
  std::thread([&] {
    CHECK(*fc_error_text() == 0);
    CHECK(fc_set_num_threads(0) == FC_VALUE);
  }).join();
  CHECK(here == fc_error_text());
  CHECK(fc_abi_version() == FC_ABI_VERSION && fc_num_threads() >= 1 && fc_device_count("cpu") == 1);
}

}  // namespace

int main() {
  test_tensors();
  test_memory_of_the_caller();
  test_ops();
  test_gradients();
  test_random_numbers();
  test_errors_belong_to_threads();
  std::puts("ok");
  return 0;
}
