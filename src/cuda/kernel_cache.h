// Caches compiled kernels on disk: a file each under $FACULA_CACHE_DIR, else $XDG_CACHE_HOME/facula, else
// ~/.cache/facula, in a folder `cuda`. A file holds the whole key (sources, options, architecture, the compiler's
// version) and a checksum. It is written under another name and renamed, so that processes share the folder; a file
// that does not check is ignored and written anew. Kernels that were compiled as one program share its image, which is
// a file of its own that theirs name. Where nothing can be written, kernels are compiled once per process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace facula::cuda {

struct CompiledKernel {
  std::string name;  // in the image
  std::vector<char> image;
  std::string shared = {};  // what an image that has several kernels is known by; empty: it has this one
};

/// The folder of compiled kernels; empty where no variable names one.
std::filesystem::path cache_folder();

/// FNV-1a with 64 bits, continued from `sum`.
uint64_t checksum(std::string_view text, uint64_t sum);

bool read_cached(const std::string& key, CompiledKernel& kernel);
void write_cached(const std::string& key, const CompiledKernel& kernel);
/// Of kernels that have the same image.
void write_cached_together(const std::vector<std::string>& keys, const std::vector<CompiledKernel>& kernels);

}  // namespace facula::cuda
