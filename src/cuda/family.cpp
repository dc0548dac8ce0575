#include "cuda/family.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "cuda/background.h"
#include "cuda/compile.h"
#include "cuda/library.h"

namespace facula::cuda {
namespace {

constexpr size_t kMostWaiting = 256;
constexpr size_t kMostTogether = 24;  // kernels of a program, which a process that ends has to wait for
std::atomic<int64_t> kernels_made{0}, programs_made{0};

/// One process at a time compiles a family; another finds it in the cache later, or has no need of it.
class OnlyOne {
 public:
  explicit OnlyOne(const KernelSource& first) {
    const auto folder = cache_folder();
    if (folder.empty()) return;
    const uint64_t sum = checksum(first.expression, checksum(first.source, 0));
    path_ = folder / (".family-" + std::to_string(sum));
    file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    is_mine_ = file_ >= 0 && flock(file_, LOCK_EX | LOCK_NB) == 0;
  }
  ~OnlyOne() {
    std::error_code ignored;
    if (is_mine_) std::filesystem::remove(path_, ignored);
    if (file_ >= 0) close(file_);
  }
  OnlyOne(const OnlyOne&) = delete;
  bool is_mine() const { return is_mine_; }

 private:
  std::filesystem::path path_;
  int file_ = -1;
  bool is_mine_ = false;
};

void make(const std::vector<KernelSource>& kernels, int architecture) {
  try {
    const OnlyOne one(kernels[0]);
    if (!one.is_mine()) return;
    const size_t made = cache_together(kernels, architecture);
    kernels_made += static_cast<int64_t>(made);
    programs_made += made != 0;
  } catch (const std::exception&) {  // the call that needs one of them compiles it, and has the error
  }
}

}  // namespace

FamilyCounts count_families() { return {kernels_made, programs_made}; }

void finish_families() { finish_background(Urgency::Whenever); }

bool families_are_wanted() {
  static const bool wanted = [] {
    const char* text = std::getenv("FACULA_CUDA_FAMILIES");
    const std::string_view said = text ? text : "";
    return said.empty() ? !is_emulated() : said == "background";
  }();
  return wanted;
}

void compile_soon(int architecture, std::vector<KernelSource> kernels) {
  if (!families_are_wanted() || waiting_in_background(Urgency::Whenever) >= kMostWaiting) return;
  for (size_t at = 0; at < kernels.size(); at += kMostTogether) {
    const auto begin = kernels.begin() + static_cast<ptrdiff_t>(at);
    const auto count = static_cast<ptrdiff_t>(std::min(kMostTogether, kernels.size() - at));
    in_background(Urgency::Whenever,
                  [piece = std::vector(begin, begin + count), architecture] { make(piece, architecture); });
  }
}

}  // namespace facula::cuda
