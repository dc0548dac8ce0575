// The C interface, called as a C program calls it: tensors, ops by name, gradients, random numbers, bad input.
#include <facula.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "mlp_archive.h"

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
  if (fc_call(op, arguments.data(), arguments.size(), &result, 1) != FC_OK) {
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
  CHECK(fc_call(fc_op_find("max.dim"), arguments, 2, pair, 2) == FC_OK);
  CHECK(fc_tensor_dtype(pair[1].as.tensor) == FC_INT64);
  for (fc_value& v : pair) fc_value_release(&v);
  fc_value parts{};
  const std::vector<int64_t> sizes = {1, 1};
  const fc_value split[2] = {of(a), of(sizes)};
  CHECK(fc_call(fc_op_find("split_with_sizes"), split, 2, &parts, 1) == FC_OK && parts.kind == FC_TENSORS_VALUE);
  CHECK(parts.count == 2 && fc_tensor_numel(parts.as.tensors[1]) == 2);
  fc_value_release(&parts);
  CHECK(parts.kind == FC_NONE);
  fc_value none{};
  CHECK(fails(fc_call(fc_op_find("mm"), arguments, 1, &none, 1), FC_TYPE, "the argument mat2 is missing"));
  CHECK(fails(fc_call(fc_op_find("mm"), arguments, 2, &none, 1), FC_TYPE, "mat2 must be Tensor, got int"));
  CHECK(fails(fc_call(nullptr, arguments, 1, &none, 1), FC_VALUE, "no such op"));
  const fc_value many[4] = {of(a), of(a), of(a), of(a)};
  CHECK(fails(fc_call(fc_op_find("mm"), many, 4, &none, 1), FC_TYPE, "takes 2 arguments, got 4"));
  fc_value strange = of(a);
  strange.kind = 55;
  const fc_value odd[2] = {of(a), strange};
  CHECK(fails(fc_call(fc_op_find("mm"), odd, 2, &none, 1), FC_VALUE, "no value has the kind 55"));
  const fc_tensor c = tensor({1, 2, 3}, {3, 1});
  const fc_value wrong[2] = {of(a), of(c)};
  CHECK(fc_call(fc_op_find("mm"), wrong, 2, &none, 1) == FC_RUNTIME && none.kind == FC_NONE);
  for (const fc_tensor t : {a, b, c, sum, product}) fc_tensor_release(t);
}

void test_what_is_told_of_ops() {
  const fc_op conv = fc_op_find("conv2d"), top = fc_op_find("max.dim"), add = fc_op_find("add_.Tensor");
  CHECK(std::string(fc_op_aten_name(conv)).find("conv2d") == 0 && !fc_op_draws(conv) &&
        fc_op_draws(fc_op_find("randn")));
  CHECK(fc_op_argument_required(conv, 1) && !fc_op_argument_required(conv, 3) && !fc_op_argument_required(conv, 99));
  CHECK(fc_op_argument_written(add, 0) && !fc_op_argument_written(add, 1));
  fc_value stride{};
  CHECK(fc_op_argument_default(conv, 3, &stride) == FC_OK && stride.kind == FC_INTS_VALUE);
  CHECK(stride.count == 2 && stride.as.integers[1] == 1);
  fc_value_release(&stride);
  CHECK(fails(fc_op_argument_default(conv, 0, &stride), FC_VALUE, "conv2d.default has no argument 0 with a default"));
  CHECK(fails(fc_op_argument_default(nullptr, 0, &stride), FC_VALUE, "NULL has no argument"));
  CHECK(fails(fc_op_argument_default(conv, 3, nullptr), FC_VALUE, "no place for the result"));
  CHECK(std::strcmp(fc_op_result_type(top, 1), "Tensor") == 0 &&
        std::strcmp(fc_op_result_name(top, 1), "indices") == 0);
  CHECK(*fc_op_result_name(conv, 0) == 0 && !fc_op_result_name(conv, 1) && !fc_op_result_type(conv, -1));
  CHECK(!fc_op_name(nullptr) && !fc_op_signature(nullptr) && !fc_op_aten_name(nullptr) && !fc_op_draws(nullptr) &&
        !fc_op_argument_count(nullptr) && !fc_op_result_count(nullptr) && !fc_op_argument_written(nullptr, 0));
}

void test_one_number_stands_for_all() {
  const fc_tensor x = tensor({1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 1, 3, 3}), w = tensor({1, 1, 1, 1}, {1, 1, 2, 2});
  const fc_tensor y = call("conv2d", {of(x), of(w), fc_value{}, of(int64_t{2})});
  float read[1];
  CHECK(fc_tensor_numel(y) == 1 && fc_tensor_read(y, read, 4) == FC_OK && read[0] == 12);
  for (const fc_tensor t : {x, w, y}) fc_tensor_release(t);
}

void test_gradients() {
  const fc_tensor x = tensor({1, 2, 3}, {3});
  CHECK(fc_tensor_set_requires_grad(x, true) == FC_OK && fc_tensor_requires_grad(x));
  const fc_tensor square = call("mul", {of(x), of(x)}), loss = call("sum", {of(square)});
  CHECK(fc_tensor_backward(loss, nullptr, false, false) == FC_OK);
  fc_tensor grad = nullptr;
  float read[3];
  CHECK(fc_tensor_grad(x, &grad) == FC_OK && fc_tensor_read(grad, read, sizeof read) == FC_OK && read[2] == 6);
  CHECK(fails(fc_tensor_backward(loss, nullptr, false, false), FC_RUNTIME, "an earlier pass"));
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
  CHECK(fc_tensor_is_leaf(x) && !fc_tensor_is_leaf(cube) && fc_tensor_is_leaf(plain) && !fc_tensor_is_leaf(nullptr));
  const fc_tensor kept = call("mul", {of(x), of(2.0)}), end = call("sum", {of(kept)});
  fc_tensor at_kept = nullptr, apart = nullptr;
  CHECK(fc_tensor_retain_grad(kept) == FC_OK && fc_tensor_backward(end, nullptr, false, false) == FC_OK);
  CHECK(fc_tensor_grad(kept, &at_kept) == FC_OK && fc_tensor_read(at_kept, read, sizeof read) == FC_OK && read[0] == 1);
  CHECK(fc_tensor_detach(kept, &apart) == FC_OK && !fc_tensor_requires_grad(apart));
  CHECK(fc_tensor_shares_memory(apart, kept) && !fc_tensor_shares_memory(apart, x));
  CHECK(fails(fc_tensor_retain_grad(apart), FC_RUNTIME, "retain_grad"));
  CHECK(fails(fc_tensor_set_grad(x, x), FC_RUNTIME, "its own gradient"));
  CHECK(fails(fc_tensor_set_grad(x, total), FC_RUNTIME, "the shape, the dtype and the device"));
  for (const fc_tensor t : {x, square, loss, grad, cube, total, plain, kept, end, at_kept, apart}) fc_tensor_release(t);
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
  fc_generator g = nullptr, usual = nullptr;
  CHECK(fc_generator_new(nullptr, 7, &g) == FC_OK && fc_generator_seed(g, 8) == FC_OK);
  fc_tensor state = nullptr;
  CHECK(fc_generator_default(nullptr, &usual) == FC_OK && fc_generator_state(usual, &state) == FC_OK);
  const auto second = draw();
  CHECK(draw() != second && fc_generator_set_state(usual, state) == FC_OK && draw() == second);
  const fc_tensor wrong = tensor({1, 2}, {2});
  CHECK(fails(fc_generator_set_state(usual, wrong), FC_TYPE, "a vector of uint8 on the CPU, got float32"));
  const int64_t few[1] = {3};
  fc_tensor small = nullptr;
  CHECK(fc_tensor_empty(few, 1, FC_UINT8, nullptr, &small) == FC_OK && fc_generator_set_state(usual, small) != FC_OK);
  CHECK(fails(fc_generator_state(nullptr, &state), FC_VALUE, "the generator is NULL"));
  CHECK(fc_generator_new("meta", 7, &g) != FC_OK);
  for (const fc_tensor t : {state, wrong, small}) fc_tensor_release(t);
  fc_generator_release(usual);
  fc_generator_release(g);
}

void test_programs() {
  const fc_tensor x = tensor({1, -2, 3, -4}, {2, 2});
  const char* text =
      "symbol s0 in [1, 1024] sample 2\n"
      "input user \"x\" %x: float32[s0, 2]\n"
      "%y: float32[s0, 2] = relu.default(%x)\n"
      "return %y\n";
  fc_program p = nullptr;
  if (fc_program_parse(text, &p) != FC_OK) std::fprintf(stderr, "%s\n", fc_error_text());
  CHECK(p != nullptr && fc_program_input_count(p) == 1 && fc_program_output_count(p) == 1);
  CHECK(std::strcmp(fc_program_input_name(p, 0), "x") == 0 && !fc_program_input_name(p, 1));
  size_t needed = 0;
  CHECK(fc_program_text(p, nullptr, 0, &needed) == FC_OK && needed > 10);
  std::string shown(needed, '#');
  CHECK(fc_program_text(p, shown.data(), 3, nullptr) == FC_OK && shown[0] == '#');
  CHECK(fc_program_text(p, shown.data(), needed, nullptr) == FC_OK && std::strlen(shown.c_str()) + 1 == needed);
  fc_value input = of(x), result{};
  CHECK(fc_program_run(p, &input, 1, &result, 1) == FC_OK && result.kind == FC_TENSOR_VALUE);
  float read[4];
  CHECK(fc_tensor_read(result.as.tensor, read, sizeof read) == FC_OK && read[0] == 1 && read[1] == 0);
  fc_value_release(&result);
  CHECK(fails(fc_program_run(p, &input, 1, &result, 2), FC_VALUE, "gives 1 results, got room for 2"));
  CHECK(fails(fc_program_run(p, &input, 1, nullptr, 1), FC_VALUE, "got room for 0"));
  CHECK(fails(fc_program_run(p, nullptr, 1, &result, 1), FC_VALUE, "1 items at NULL"));
  CHECK(fc_program_run(p, &input, 0, &result, 1) != FC_OK);
  input = of(int64_t{3});
  CHECK(fc_program_run(p, &input, 1, &result, 1) != FC_OK && result.kind == FC_NONE);
  fc_program_release(p);
  p = nullptr;
  CHECK(fc_program_parse("nonsense", &p) != FC_OK && fc_program_parse(nullptr, &p) == FC_VALUE && p == nullptr);
  CHECK(fails(fc_program_parse(text, nullptr), FC_VALUE, "no place for the result"));
  fc_program_release(nullptr);
  fc_tensor_release(x);
}

void test_programs_from_files() {
  const std::string name = "facula_test_capi_" + std::to_string(getpid()) + ".pt2", bytes = mlp_archive();
  const std::string path = (std::filesystem::temp_directory_path() / name).string();
  const auto write = [&](size_t count) {
    std::FILE* file = std::fopen(path.c_str(), "wb");
    CHECK(file && std::fwrite(bytes.data(), 1, count, file) == count && std::fclose(file) == 0);
  };
  fc_program p = nullptr;
  write(bytes.size() / 2);
  CHECK(fc_program_load(path.c_str(), &p) != FC_OK && p == nullptr && *fc_error_text());
  write(bytes.size());
  CHECK(fc_program_load(path.c_str(), &p) == FC_OK && fc_program_output_count(p) == 1);
  CHECK(fc_program_tensor_count(p) == 5 && std::strcmp(fc_program_tensor_role(p, 0), "parameter") == 0);
  CHECK(!fc_program_tensor_name(p, 5) && !fc_program_tensor_role(p, -1) && !fc_program_tensor_count(nullptr));
  fc_tensor weight = nullptr, grad = nullptr;
  CHECK(fc_program_tensor(p, fc_program_tensor_name(p, 0), &weight) == FC_OK && fc_tensor_requires_grad(weight));
  CHECK(fails(fc_program_tensor(p, "nothing", &grad), FC_VALUE, "nothing") && grad == nullptr);
  const fc_tensor x = tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  const fc_value input = of(x);
  fc_value result{};
  CHECK(fc_program_run(p, &input, 1, &result, 1) == FC_OK && fc_tensor_size(result.as.tensor, 1) == 2);
  const fc_tensor sum = call("sum", {result});
  CHECK(fc_tensor_backward(sum, nullptr, false, false) == FC_OK && fc_tensor_grad(weight, &grad) == FC_OK);
  CHECK(grad && fc_tensor_numel(grad) == fc_tensor_numel(weight));
  const fc_tensor wrong = tensor({1, 2}, {1, 2});
  const fc_value narrow = of(wrong);
  CHECK(fails(fc_program_run(p, &narrow, 1, &result, 1), FC_RUNTIME, "x"));
  fc_value_release(&result);
  fc_program_release(p);
  for (const fc_tensor t : {weight, grad, x, sum, wrong}) fc_tensor_release(t);
  CHECK(std::remove(path.c_str()) == 0);
  CHECK(fc_program_load("/no/such/file.pt2", &p) != FC_OK && fc_program_load(nullptr, &p) == FC_VALUE);
  CHECK(fc_program_load(path.c_str(), nullptr) == FC_VALUE);
}

// ---- what nobody should give

void test_nothing_where_something_is_needed() {
  const fc_tensor x = tensor({1, 2, 3, 4}, {2, 2});
  int64_t dims[2] = {2, 2}, number = 0;
  double real = 0;
  float data[4] = {1, 2, 3, 4};
  void* at = nullptr;
  fc_tensor out = nullptr;
  fc_generator g = nullptr;
  const fc_status wrong[] = {
      fc_tensor_empty(dims, 2, FC_FLOAT32, nullptr, nullptr),
      fc_tensor_empty(nullptr, 2, FC_FLOAT32, nullptr, &out),
      fc_tensor_empty(dims, -2, FC_FLOAT32, nullptr, &out),
      fc_tensor_copy_of(nullptr, 16, dims, 2, FC_FLOAT32, &out),
      fc_tensor_copy_of(data, 16, dims, 2, FC_FLOAT32, nullptr),
      fc_tensor_copy_of(data, 15, dims, 2, FC_FLOAT32, &out),
      fc_tensor_wrap(nullptr, 16, dims, nullptr, 2, FC_FLOAT32, nullptr, nullptr, &out),
      fc_tensor_wrap(data, 16, dims, nullptr, 2, FC_FLOAT32, nullptr, nullptr, nullptr),
      fc_tensor_wrap(reinterpret_cast<char*>(data) + 1, 12, dims, nullptr, 1, FC_FLOAT32, nullptr, nullptr, &out),
      fc_tensor_wrap(data, 15, dims, nullptr, 2, FC_FLOAT32, nullptr, nullptr, &out),
      fc_tensor_sizes(x, dims, 1),
      fc_tensor_sizes(x, nullptr, 2),
      fc_tensor_sizes(nullptr, dims, 2),
      fc_tensor_strides(x, dims, -1),
      fc_tensor_device(x, nullptr, 8),
      fc_tensor_data(x, nullptr),
      fc_tensor_data(nullptr, &at),
      fc_tensor_read(x, nullptr, 16),
      fc_tensor_write(x, nullptr, 16),
      fc_tensor_item_int(nullptr, &number),
      fc_tensor_item_int(x, &number),
      fc_tensor_item_float(x, &real),
      fc_tensor_to(nullptr, nullptr, -1, &out),
      fc_tensor_to(x, nullptr, 99, &out),
      fc_tensor_to(x, "no device", -1, &out),
      fc_tensor_to(x, nullptr, -1, nullptr),
      fc_tensor_set_requires_grad(nullptr, true),
      fc_tensor_grad(nullptr, &out),
      fc_tensor_grad(x, nullptr),
      fc_tensor_set_grad(nullptr, x),
      fc_tensor_backward(nullptr, nullptr, false, false),
      fc_tensor_detach(x, nullptr),
      fc_tensor_retain_grad(nullptr),
      fc_grad(nullptr, nullptr, 1, &x, 1, false, false, &out),
      fc_grad(&x, nullptr, 1, &x, 1, false, false, nullptr),
      fc_grad(&x, nullptr, 1, nullptr, 1, false, false, &out),
      fc_generator_new(nullptr, 1, nullptr),
      fc_generator_new("quantum", 1, &g),
      fc_generator_default(nullptr, nullptr),
      fc_generator_seed(nullptr, 1),
      fc_generator_set_state(nullptr, x),
      fc_call(fc_op_find("add"), nullptr, 2, nullptr, 1),
      fc_set_num_threads(1 << 20),
  };
  for (const fc_status s : wrong) {
    if (s == FC_OK || s == FC_INTERNAL) std::fprintf(stderr, "call %td of the list: %d\n", &s - wrong, s);
    CHECK(s != FC_OK && s != FC_INTERNAL);
  }
  CHECK(out == nullptr && g == nullptr && at == nullptr);
  CHECK(!fc_tensor_dims(nullptr) && fc_tensor_size(nullptr, 0) == -1 && fc_tensor_stride(nullptr, 0) == -1);
  CHECK(!fc_tensor_numel(nullptr) && !fc_tensor_requires_grad(nullptr) && !fc_tensor_is_contiguous(nullptr));
  CHECK(!fc_tensor_shares_memory(nullptr, x) && !fc_tensor_retain(nullptr) && !fc_op_find(nullptr));
  CHECK(!fc_dtype_name(static_cast<fc_dtype>(-1)) && !fc_dtype_size(static_cast<fc_dtype>(20)));
  CHECK(std::strcmp(fc_status_name(FC_LINALG), "FC_LINALG") == 0 && !fc_status_name(static_cast<fc_status>(50)));
  CHECK(fc_device_count("quantum") == 0);
  fc_value_release(nullptr);
  fc_tensor_release(x);
}

void test_elements_of_all_kinds() {
  const double values[2] = {1.5, NAN};
  const int64_t two[1] = {2}, one[1] = {1};
  fc_tensor t = nullptr, whole = nullptr;
  CHECK(fc_tensor_copy_of(values, 8, one, 1, FC_FLOAT64, &t) == FC_OK);
  int64_t number = 7;
  double real = 0;
  CHECK(fc_tensor_item_float(t, &real) == FC_OK && real == 1.5 && fc_tensor_item_int(t, &number) == FC_OK &&
        number == 1);
  CHECK(fc_tensor_to(t, nullptr, FC_INT16, &whole) == FC_OK && fc_tensor_dtype(whole) == FC_INT16);
  CHECK(fc_tensor_item_float(whole, &real) == FC_OK && real == 1);
  fc_tensor_release(whole);
  CHECK(fc_tensor_to(t, "cpu", FC_FLOAT64, &whole) == FC_OK && whole == t);
  fc_tensor_release(whole);
  fc_tensor_release(t);
  CHECK(fc_tensor_copy_of(values + 1, 8, one, 1, FC_FLOAT64, &t) == FC_OK);
  CHECK(fails(fc_tensor_item_int(t, &number), FC_VALUE, "no value of this type") && number == 1);
  fc_tensor_release(t);
  CHECK(fc_tensor_copy_of(values, 16, one, 1, FC_COMPLEX128, &t) == FC_OK);
  CHECK(fails(fc_tensor_item_float(t, &real), FC_VALUE, "no value of this type"));
  const fc_tensor turned = call("conj", {of(t)});
  void* at = nullptr;
  CHECK(fails(fc_tensor_data(turned, &at), FC_TYPE, "resolve_conj"));
  double read[2];
  CHECK(fc_tensor_read(turned, read, sizeof read) == FC_OK && read[0] == 1.5 && std::isnan(read[1]));
  fc_tensor_release(turned);
  fc_tensor_release(t);
  CHECK(fc_tensor_empty(two, 1, FC_FLOAT32, "meta", &t) == FC_OK);
  float data[2];
  CHECK(fc_tensor_read(t, data, sizeof data) != FC_OK && fc_tensor_data(t, &at) != FC_OK);
  fc_tensor_release(t);
}

// Weights in the caller's memory may change at any time: no copy in another order may be used for them.
void test_memory_of_the_caller_is_read_anew() {
  constexpr int64_t n = 128, sizes[2] = {n, n};
  std::vector<float> data(n * n, 1), read(n * n);
  fc_tensor w = nullptr, x = nullptr;
  CHECK(fc_tensor_wrap(data.data(), data.size() * 4, sizes, nullptr, 2, FC_FLOAT32, nullptr, nullptr, &w) == FC_OK);
  CHECK(fc_tensor_copy_of(data.data(), data.size() * 4, sizes, 2, FC_FLOAT32, &x) == FC_OK);
  for (const float value : {1.0f, 2.0f, 3.0f}) {
    std::fill(data.begin(), data.end(), value);
    for (int again = 0; again < 3; ++again) {
      const fc_tensor y = call("linear", {of(x), of(w)});
      CHECK(fc_tensor_read(y, read.data(), read.size() * 4) == FC_OK && read[5] == n * value);
      fc_tensor_release(y);
    }
  }
  fc_tensor_release(w);
  fc_tensor_release(x);
}

// Every kind of value, whole and broken, for every argument of every op, whatever it asks for.
void test_every_kind_for_every_argument() {
  static const int64_t ones[2] = {1, 1};
  static const double halves[2] = {0.5, 0.5};
  static const bool truths[2] = {true, false};
  fc_generator g = nullptr;
  CHECK(fc_generator_new(nullptr, 3, &g) == FC_OK);
  const auto make = [&](fc_tensor* pair) {
    std::vector<fc_value> all(26);
    const fc_kind kinds[] = {FC_NONE,         FC_INT_VALUE,     FC_FLOAT_VALUE,  FC_BOOL_VALUE,   FC_COMPLEX_VALUE,
                             FC_STRING_VALUE, FC_DTYPE_VALUE,   FC_DEVICE_VALUE, FC_FORMAT_VALUE, FC_GENERATOR_VALUE,
                             FC_TENSOR_VALUE, FC_TENSORS_VALUE, FC_INTS_VALUE,   FC_FLOATS_VALUE, FC_BOOLS_VALUE};
    for (int i = 0; i < 15; ++i) all[i].kind = kinds[i];
    all[1].as.integer = 1, all[2].as.number = 0.5, all[3].as.integer = 1, all[4].as.complex = {0.5, 1};
    all[5].as.text = "x", all[6].as.integer = FC_FLOAT32, all[7].as.text = "cpu", all[9].as.generator = g;
    all[10].as.tensor = pair[0], all[11].as.tensors = pair, all[11].count = 2, all[12].as.integers = ones;
    all[13].as.numbers = halves, all[14].as.bools = truths;
    for (int i : {12, 13, 14}) all[i].count = 2;
    for (int i = 0; i < 15; ++i) {
      if (i == 5 || i >= 9) all.push_back(all[i]);  // broken ones: NULL, or a count below zero
      if (i == 5 || i == 9 || i == 10) all.back().as.text = nullptr;
      if (i >= 11) all.back().count = -1;
    }
    all[15].kind = FC_DEFAULT, all[16].kind = 55, all[17].kind = -7;
    all[18] = all[6], all[18].as.integer = 99;
    all[19] = all[8], all[19].as.integer = -1;
    all[20] = all[7], all[20].as.text = "quantum";
    all[21] = all[12], all[21].as.integers = nullptr;
    all[22] = all[11], all[22].as.tensors = nullptr;
    all[23].kind = all[24].kind = FC_LAYOUT_VALUE, all[23].as.integer = FC_SPARSE_CSR, all[24].as.integer = 77;
    return all;
  };
  const auto fitting = [](const std::string& type) {
    const bool list = type.find('[') != std::string::npos;
    if (type.find("Tensor") == 0) return list ? 11 : 10;
    if (type.find("Operand") == 0) return 10;
    if (type.find("int") == 0) return list ? 12 : 1;
    if (type.find("float") == 0) return list ? 13 : 2;
    if (type.find("Scalar") == 0) return 2;
    return type.find("bool") == 0 ? 3 : type.find("str") == 0 ? 5 : type.find("dtype") == 0 ? 6 : 0;
  };
  for (size_t i = 0; i < fc_op_count(); ++i) {
    const fc_op op = fc_op_at(i);
    const int32_t count = fc_op_argument_count(op);
    std::vector<fc_value> results(static_cast<size_t>(fc_op_result_count(op)));
    for (int32_t a = 0; a < count; ++a) {
      fc_tensor pair[2] = {tensor({0.25f, 0.5f, 0.5f, 0.75f}, {2, 2}), tensor({1, 2}, {2})};
      const std::vector<fc_value> all = make(pair);
      std::vector<fc_value> arguments;
      for (int32_t b = 0; b < count; ++b) {
        arguments.push_back(all[static_cast<size_t>(fitting(fc_op_argument_type(op, b)))]);
        if (!fc_op_argument_required(op, b)) arguments.back().kind = FC_DEFAULT;
      }
      for (const fc_value& value : all) {
        arguments[static_cast<size_t>(a)] = value;
        const fc_status s = fc_call(op, arguments.data(), arguments.size(), results.data(), results.size());
        if (s == FC_INTERNAL) std::fprintf(stderr, "%s: %s\n", fc_op_signature(op), fc_error_text());
        EXPECT(s != FC_INTERNAL);
        for (fc_value& v : results) fc_value_release(&v);
      }
      for (const fc_tensor t : pair) fc_tensor_release(t);
    }
  }
  fc_generator_release(g);
}

void test_errors_belong_to_threads() {
  CHECK(fc_call(nullptr, nullptr, 0, nullptr, 0) == FC_VALUE);
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
  test_what_is_told_of_ops();
  test_one_number_stands_for_all();
  test_gradients();
  test_random_numbers();
  test_programs();
  test_programs_from_files();
  test_errors_belong_to_threads();
  test_nothing_where_something_is_needed();
  test_elements_of_all_kinds();
  test_memory_of_the_caller_is_read_anew();
  test_every_kind_for_every_argument();
  std::puts(failures == 0 ? "ok" : "failed");
  return failures == 0 ? 0 : 1;
}
