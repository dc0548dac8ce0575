// Reads files of arrays: NumPy's .npy and .npz, and .safetensors. A file may come from anybody: what it says of itself
// is checked against its length before memory is made.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "program/archive_writer.h"

namespace facula {

struct NamedTensor {
  std::string name;  // empty: the one array of an .npy file
  Tensor tensor;
};

/// The ending says which format. Tensors are contiguous and on the CPU. Errors are Errors that name the file.
std::vector<NamedTensor> read_arrays(const std::string& path);
void write_arrays(const std::string& path, const std::vector<NamedTensor>& arrays);

std::vector<NamedTensor> read_npz(const std::string& path);
void write_npz(const ArchiveWriter::Sink& sink, const std::vector<NamedTensor>& arrays);

/// A file in NumPy's format NPY, versions 1 to 3.
Tensor parse_npy(std::string_view bytes);
/// What comes before the elements. A ValueError for dtypes that NumPy has not.
std::string npy_header(const Tensor& tensor);
std::vector<NamedTensor> parse_safetensors(std::string_view bytes);
/// Its header, length included; the elements of all follow in this order.
std::string safetensors_header(const std::vector<NamedTensor>& arrays);

}  // namespace facula
