#include "cuda/memory_report.h"

#include <algorithm>
#include <sstream>

#include "core/budget_refusal.h"
#include "core/error.h"
#include "core/places.h"

namespace facula::cuda {

BlockTensor::BlockTensor(const MadeTensor* made) {
  if (!made) return;
  known_ = true;
  dtype_ = made->dtype;
  dims_ = static_cast<uint8_t>(made->sizes.size());
  for (size_t i = 0; i < std::min<size_t>(dims_, kShown); ++i) sizes_[i] = made->sizes[i];
}

std::string BlockTensor::text() const {
  if (!known_) return {};
  std::ostringstream text;
  text << dtype_ << " [";
  for (size_t i = 0; i < std::min<size_t>(dims_, kShown); ++i) text << (i ? ", " : "") << sizes_[i];
  text << (dims_ > kShown ? ", ...]" : "]");
  return text.str();
}

namespace {

constexpr size_t kLines = 10;

std::string mebibytes(size_t bytes) {
  std::ostringstream text;
  text.precision(2);
  text << std::fixed << static_cast<double>(bytes) / (1 << 20) << " MiB";
  return text.str();
}

/// The same tensors of one line together, those with most bytes first.
void gather(std::vector<HeldMemory>& held) {
  std::vector<HeldMemory> gathered;
  for (const HeldMemory& h : held) {
    const auto same = std::find_if(gathered.begin(), gathered.end(), [&](const HeldMemory& g) {
      return g.tensor == h.tensor && g.place == h.place && g.bytes == h.bytes;
    });
    if (same == gathered.end()) gathered.push_back(h);
    else ++same->count;
  }
  std::stable_sort(gathered.begin(), gathered.end(),
                   [](const auto& a, const auto& b) { return a.bytes * a.count > b.bytes * b.count; });
  held = std::move(gathered);
}

void list_holders(std::ostream& text, MemoryReport& r) {
  gather(r.held);
  if (r.held.empty()) return;
  text << "\nThe largest of what is in use:";
  for (size_t i = 0; i < std::min(r.held.size(), kLines); ++i) {
    const HeldMemory& h = r.held[i];
    const std::string tensor = h.tensor.text(), place = text_of_place(h.place);
    text << "\n  " << mebibytes(h.bytes * h.count) << "  " << (h.count > 1 ? std::to_string(h.count) + " x " : "")
         << (tensor.empty() ? "memory of an op" : tensor) << (place.empty() ? "" : "  made at ") << place;
  }
  if (r.held.size() > kLines) text << "\n  and " << r.held.size() - kLines << " kinds more";
  if (!r.places)
    text << "\n(torch.cuda.memory._record_memory_history(), called before they are made, shows the lines that make "
            "them.)";
}

std::string advice(const MemoryReport& r) {
  if (r.cached - r.of_graphs < r.wanted) return {};
  return r.expandable ? std::string()
                      : "\nThe free pieces would be enough together: FACULA_CUDA_ALLOC_CONF=expandable_segments:True "
                        "makes them one.";
}

}  // namespace

void report_out_of_memory(MemoryReport r) {
  std::ostringstream text;
  const std::string tensor = r.wanted_for.text();
  if (r.budget) {
    const Device device{DeviceType::CUDA, static_cast<int8_t>(r.device)};
    text << budget_refusal(device, r.op, r.wanted, r.budget, r.allocated);
    list_holders(text, r);
    throw Error(ErrorKind::OutOfMemory, text.str());
  }
  const size_t used = r.total - r.free, others = used > r.reserved ? used - r.reserved : 0;
  text << r.op << ": CUDA out of memory. Device " << r.device << " has " << mebibytes(r.total) << ", of which "
       << mebibytes(r.free) << " are free";
  if (others) text << " and " << mebibytes(others) << " are used by others or the driver";
  text << "; this process reserved " << mebibytes(r.reserved) << " (limit " << mebibytes(r.limit) << "), "
       << mebibytes(r.allocated) << " of it in use by tensors and " << mebibytes(r.cached) << " free in " << r.pieces
       << (r.pieces == 1 ? " piece" : " pieces") << ", the largest free block of it " << mebibytes(r.largest);
  if (r.of_graphs) text << "; graphs keep " << mebibytes(r.of_graphs) << " of what is free";
  text << advice(r);
  list_holders(text, r);
  text << "\nTried to allocate " << mebibytes(r.wanted) << (tensor.empty() ? "" : " for " + tensor);
  throw Error(ErrorKind::OutOfMemory, text.str());
}

}  // namespace facula::cuda
