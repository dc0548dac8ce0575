// The engine of one process.
#include <cstring>

#include "distributed/engine.h"

namespace facula::distributed {
namespace {

class LocalEngine final : public Engine {
 public:
  LocalEngine(int rank, int size) : groups_{{rank, size}}, world_rank_(rank) {}

  Request issue(int group, const Transfer& t) override {
    const auto [rank, size] = groups_.at(static_cast<size_t>(group));
    auto* out = static_cast<char*>(t.out);
    const auto* in = static_cast<const char*>(t.in);
    const auto copy = [](char* to, const char* from, int64_t n) {
      if (n > 0 && to && from && to != from) std::memmove(to, from, static_cast<size_t>(n));
    };
    const bool reduces = t.kind == Kind::AllReduce || t.kind == Kind::Reduce || t.kind == Kind::ReduceScatter;
    const int64_t bytes = reduces ? t.count * item_size(t.dtype) : t.count;
    switch (t.kind) {
      case Kind::AllReduce:
      case Kind::Reduce: copy(out, in, bytes); break;
      case Kind::AllGather:
      case Kind::Gather: copy(out ? out + rank * bytes : out, in, bytes); break;
      case Kind::Scatter:
      case Kind::ReduceScatter: copy(out, in ? in + rank * bytes : in, bytes); break;
      case Kind::AllToAll: {
        const auto r = static_cast<size_t>(rank);
        const Splits& s = *t.splits;
        copy(out + s.out_offsets[r], in + s.in_offsets[r], std::min(s.in_bytes[r], s.out_bytes[r]));
        break;
      }
      default: break;
    }
    return 1;
  }
  bool test(Request&, Received& received) override {
    received.bytes = -1;  // not known
    return true;
  }
  void progress() override {}
  int make_group(const std::vector<int>& ranks, int) override {
    int rank = 0;
    for (size_t i = 0; i < ranks.size(); ++i)
      if (ranks[i] == world_rank_) rank = static_cast<int>(i);
    groups_.emplace_back(rank, static_cast<int>(ranks.size()));
    return static_cast<int>(groups_.size()) - 1;
  }
  void abandon() override {}

 private:
  std::vector<std::pair<int, int>> groups_;  // rank, size
  int world_rank_;
};

}  // namespace

std::unique_ptr<Engine> make_local_engine(int rank, int size) { return std::make_unique<LocalEngine>(rank, size); }

bool can_reduce(DType dtype, Reduction reduction) {
  const bool bits = reduction >= Reduction::BitAnd && reduction <= Reduction::BitXor;
  const bool order = reduction == Reduction::Min || reduction == Reduction::Max;
  if (dtype >= DType::Float8E4M3FN || dtype == DType::Complex32) return false;
  if (is_complex(dtype)) return !bits && !order && reduction != Reduction::Product;
  if (is_floating(dtype)) return !bits;
  return reduction != Reduction::PremulSum && !(dtype == DType::Bool && reduction == Reduction::Avg);
}

}  // namespace facula::distributed
