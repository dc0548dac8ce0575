// Selects which of cuBLASLt's algorithms a product uses where a program wants the fastest (cuda.tunable). They are
// timed when a problem is first met, and the result is stored in a file that other runs read. Names are those of
// PyTorch's files; the columns of a product are cuBLAS's, so a row-major product has its sides exchanged.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace facula::cuda {

struct TunedWay {
  std::string way;  // "Default", or "Gemm_CublasLt_" and the number among what the library proposes
  double milliseconds = 0;
};

class Tuning {
 public:
  using Key = std::pair<std::string, std::string>;  // op, sizes
  using Rows = std::vector<std::pair<std::string, std::string>>;

  std::atomic<bool> enabled{false}, tunes{true}, records_untuned{false}, checks{false};
  std::atomic<int> most_milliseconds{30}, most_iterations{100};
  std::atomic<double> atol{1e-5}, rtol{1e-5};
  /// Grows when what was chosen may be chosen otherwise.
  std::atomic<int64_t> version{0};

  /// Reads the environment.
  Tuning();

  /// The first search reads the file.
  std::optional<TunedWay> find(const Key& key, int device);
  /// Keeps it, and writes the file.
  void add(const Key& key, const TunedWay& way, int device);
  void add_untuned(const Key& key, int device);

  std::map<Key, TunedWay> results();
  /// What a file must have been made with.
  Rows validators(int device);
  /// False where there is none, or it was made with something else.
  bool read(const std::string& path, int device);
  std::string path(int device);
  void set_path(const std::string& path, bool with_device);

 private:
  void write(int device);

  std::mutex mutex_;
  std::map<Key, TunedWay> results_;
  std::set<Key> untuned_;
  std::string path_ = "tunableop_results.csv", untuned_path_ = "tunableop_untuned.csv";
  bool with_device_ = true, was_read_ = false;
};
Tuning& tuning();

}  // namespace facula::cuda
