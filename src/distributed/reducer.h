// Averages gradients of several processes while the backward pass runs.
//
// Policy:
//   - Parameters are put into buckets in the order in which their gradients are expected;
//     facula/distributed/_reducer.py fills the buckets. When a gradient is ready, it is copied into its place in the
//     bucket, times 1 / world size, and becomes a view of the bucket. A full bucket is summed over the processes while
//     the pass goes on, in the order of the buckets, so that all processes call the same.
//   - Behind its gradients a bucket has one number for each of them, above 0 if the parameter got a gradient. After the
//     sum it says whether any process used the parameter. So a parameter that nobody used leaves its gradient as it
//     was, and unused ones need no message of their own. Parameters that the pass does not lead to are known when it
//     begins.
//   - A storage that somebody else holds (gradients that a program stores) is not written to in the next pass.
//   - The first pass of a static graph shows how often a parameter gets a part of its gradient; it is summed at its
//     end.
//   - Hooks of the leaves do the work, on the thread of the pass and without the interpreter. They know the reducer
//     only as long as it lives. Communication hooks are the program's (`Hooks`), and are called once for each bucket.
//   - A pass that fails is forgotten, with the storages that transfers may still be writing to.
#pragma once

#include <mutex>

#include "distributed/world.h"

namespace facula::distributed {

class Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  /// What the layer above adds; called while the reducer is at work, errors end the pass.
  struct Hooks {
    std::function<CallSite()> site;                     // where backward() was called
    std::function<void(size_t, const Tensor&)> launch;  // begins to sum a bucket, which is this tensor
    std::function<void(size_t, bool)> land;             // ends it; whether all its parameters were used
    std::function<void()> failed;                       // a transfer failed; the error is in flight
  };
  struct Parameter {
    std::string name;
    Tensor tensor;
  };

  /// `timeout` in seconds, of every transfer.
  Reducer(const std::vector<Parameter>& parameters, std::shared_ptr<World> world, std::shared_ptr<Group> group,
          double timeout, Hooks hooks);
  /// From now on gradients of the parameters come here.
  void watch();
  /// Numbers of parameters, bucket by bucket; each once, and in a bucket of one dtype and device.
  void set_buckets(const std::vector<std::vector<int>>& buckets);
  std::vector<Tensor> gradients(size_t bucket);

  /// Whether the next pass is averaged, else its gradients are added up and averaged with the next ones.
  void enable(bool on) { enabled_ = on; }
  bool enabled() const { return enabled_; }
  /// What sums are divided by, and whether the program sums buckets (and divides) itself.
  void set_divisor(double divisor) { divisor_ = divisor; }
  void set_hooked(bool hooked) { hooked_ = hooked; }
  void set_static(bool is_static) { static_ = is_static; }
  void remove() { removed_ = true; }

  int passes() const { return passes_; }
  /// When, in ns since 1970, the last pass got its first and its last gradient, began to sum and had all sums.
  struct Times {
    int64_t first = 0, last = 0, summing = 0, summed = 0;
  };
  Times times();
  /// Numbers of the parameters, as their gradients came at first.
  std::vector<int> order();
  /// Takes part in the averages of a pass with zeros.
  void shadow();

 private:
  struct Hook;
  struct Pass;
  struct Slot {
    std::string name;
    Tensor parameter;
    std::vector<int64_t> strides;
    int64_t offset = 0;
    size_t bucket = 0, position = 0;
    int expected = 1;  // how often a pass accumulates: more with a static graph and reentrant checkpoints
    int left = 0;      // of those
    int came = 0;      // in the first pass of a static graph
    bool used = false, ordered = false;
    bool accumulated = false;  // got gradients that were not averaged
  };
  struct Bucket {
    std::vector<int> numbers;
    int64_t numel = 0;
    Tensor storage;  // the gradients, and behind them a number for each
    int left = 0;
    bool by_program = false;
    std::shared_ptr<Operation> op;
  };

  void came(int number);
  void begin_pass();
  void leave_out_unreached();
  void end_pass();
  void finish();
  void count_first_pass();
  void abandon_pass();
  void reset(bool failed);
  void begin(Bucket& bucket);
  void put(Bucket& bucket, Slot& slot);
  void leave_out(Slot& slot);
  void launch_ready();
  void launch(size_t number);
  void land(size_t number);
  void give_gradients(Bucket& bucket);
  bool all_used(const Bucket& bucket) const;
  Tensor view(const Bucket& bucket, const Slot& slot) const;
  static Tensor flags(const Bucket& bucket);

  std::recursive_mutex mutex_;  // passes of several threads
  std::vector<Slot> slots_;     // by the number of the parameter
  std::vector<Bucket> buckets_;
  std::vector<int> order_;
  std::shared_ptr<World> world_;
  std::shared_ptr<Group> group_;
  double timeout_;
  Hooks hooks_;
  std::atomic<double> divisor_;
  std::atomic<bool> enabled_{true}, hooked_{false}, static_{false}, removed_{false};
  std::atomic<int> passes_{0};

  // ---- of the pass that runs
  bool running_ = false;
  bool counting_ = false;  // the first of a static graph
  bool counted_ = false;
  double scale_ = 1;
  size_t next_ = 0;  // bucket to sum
  Times now_, done_;
  CallSite site_;
};

}  // namespace facula::distributed
