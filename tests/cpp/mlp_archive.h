// A small program as PyTorch's archive, for tests: x of float32[batch, 3] -> linear to 4, relu, times `scale`, linear
// to 2 with weights that are there twice, as `out.weight` and `tied.weight`, plus 1; batch in [1, 64].
#pragma once

#include <cstring>
#include <vector>

#include "zip_writer.h"

inline std::string meta_json(const std::string& sizes, const std::string& strides, bool grad) {
  return R"({"dtype": 7, "sizes": [)" + sizes + R"(], "requires_grad": )" + (grad ? "true" : "false") +
         R"(, "device": {"type": "cpu", "index": null}, "strides": [)" + strides +
         R"(], "storage_offset": {"as_int": 0}, "layout": 7})";
}

inline std::string int_json(int value) { return R"({"as_int": )" + std::to_string(value) + "}"; }

inline std::string mlp_model() {
  const std::string symbol = "Symbol('s77', positive=True, integer=True)";
  const std::string batch = R"({"as_expr": {"expr_str": ")" + symbol + R"(", "hint": {"as_int": 5}}})";
  const auto values = [&](const char* name, int columns) {
    const std::string meta = meta_json(batch + ", " + int_json(columns), int_json(columns) + ", " + int_json(1), false);
    return "\"" + std::string(name) + "\": " + meta;
  };
  const auto state = [](const char* name, int rows, int columns) {
    const std::string sizes = columns ? int_json(rows) + ", " + int_json(columns) : int_json(rows);
    const std::string strides = columns ? int_json(columns) + ", " + int_json(1) : int_json(1);
    return "\"" + std::string(name) + "\": " + meta_json(sizes, strides, true);
  };
  const std::string scale = "\"b_scale\": " + meta_json("", "", false);
  const std::string metas = values("x", 3) + ", " + values("linear", 4) + ", " + values("relu", 4) + ", " +
                            values("mul", 4) + ", " + values("out", 2) + ", " + values("add", 2) + ", " +
                            state("p_w", 4, 3) + ", " + state("p_b", 4, 0) + ", " + state("p_out", 2, 4) + ", " +
                            state("p_tied", 2, 4) + ", " + scale;
  const auto tensor = [](const char* argument, const char* name) {
    return R"({"name": ")" + std::string(argument) + R"(", "arg": {"as_tensor": {"name": ")" + name +
           R"("}}, "kind": 1})";
  };
  const auto node = [](const std::string& target, const std::string& inputs, const std::string& name) {
    return R"({"target": "torch.ops.aten.)" + target + R"(", "inputs": [)" + inputs +
           R"(], "outputs": [{"as_tensor": {"name": ")" + name +
           R"("}}], "metadata": {"stack_trace": "  File \"net.py\", line 7, in forward\n    y\n"}})";
  };
  const std::string nodes =
      node("linear.default", tensor("input", "x") + ", " + tensor("weight", "p_w") + ", " + tensor("bias", "p_b"),
           "linear") +
      ", " + node("relu.default", tensor("self", "linear"), "relu") + ", " +
      node("mul.Tensor", tensor("self", "relu") + ", " + tensor("other", "b_scale"), "mul") + ", " +
      node("linear.default", tensor("input", "mul") + ", " + tensor("weight", "p_out"), "out") + ", " +
      node("add.Tensor",
           tensor("self", "out") + ", " + R"({"name": "other", "arg": {"as_float": 0.5}, "kind": 1})" + ", " +
               R"({"name": "alpha", "arg": {"as_int": 2}, "kind": 2})",
           "add");
  const auto held = [](const char* kind, const char* value, const char* path) {
    return R"({")" + std::string(kind) + R"(": {"arg": {"name": ")" + value + R"("}, ")" + kind + R"(_name": ")" +
           path + R"("}}, )";
  };
  const std::string inputs = held("parameter", "p_w", "lin.weight") + held("parameter", "p_b", "lin.bias") +
                             held("parameter", "p_out", "out.weight") + held("parameter", "p_tied", "tied.weight") +
                             held("buffer", "b_scale", "scale") +
                             R"({"user_input": {"arg": {"as_tensor": {"name": "x"}}}})";
  return R"({"graph_module": {"graph": {"inputs": [], "outputs": [], "nodes": [)" + nodes + R"(], "tensor_values": {)" +
         metas + R"(}, "sym_int_values": {}}, "signature": {"input_specs": [)" + inputs +
         R"(], "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "add"}}}}]}, )" +
         R"("module_call_graph": [{"fqn": "", "signature": {"in_spec": "[1]", "out_spec": "[1]",)" +
         R"( "forward_arg_names": ["x"]}}]}, "range_constraints": {"s77": {"min_val": 1, "max_val": 64}},)" +
         R"( "schema_version": {"major": 8, "minor": 8}})";
}

inline std::string mlp_config() {
  const auto entry = [](const char* path, int number, const std::string& sizes, const std::string& strides, bool grad) {
    return "\"" + std::string(path) + R"(": {"path_name": "weight_)" + std::to_string(number) + R"(", "is_param": )" +
           (grad ? "true" : "false") + R"(, "use_pickle": false, "tensor_meta": )" + meta_json(sizes, strides, grad) +
           "}";
  };
  const std::string one = int_json(1), two = int_json(2), three = int_json(3), four = int_json(4), comma = ", ";
  return R"({"config": {)" + entry("lin.weight", 0, four + comma + three, three + comma + one, true) + comma +
         entry("lin.bias", 1, four, one, true) + comma +
         entry("out.weight", 2, two + comma + four, four + comma + one, true) + comma +
         entry("tied.weight", 2, two + comma + four, four + comma + one, true) + comma +
         entry("scale", 3, "", "", false) + "}}";
}

inline std::string floats(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

inline std::string mlp_archive(const std::string& model = mlp_model(), const std::string& config = mlp_config()) {
  ZipWriter zip;
  zip.add("mlp/archive_format", "pt2");
  zip.add("mlp/byteorder", "little");
  zip.add("mlp/models/model.json", model);
  zip.add("mlp/data/weights/weight_0", floats({1, 2, 3, -1, 0, 1, 0.5, 0.5, 0.5, 0, -2, 1}));
  zip.add("mlp/data/weights/weight_1", floats({0, 1, -1, 0.5}));
  zip.add("mlp/data/weights/weight_2", floats({1, -1, 2, 0, 0.5, 1, 0, 3}));
  zip.add("mlp/data/weights/weight_3", floats({2}));
  zip.add("mlp/data/weights/model_weights_config.json", config);
  zip.add("mlp/data/sample_inputs/model.pt", "examples");
  return zip.bytes();
}
