// Threads that read ahead.
#pragma once

#include <torch/detail/types.h>

#include <chrono>
#include <exception>
#include <functional>
#include <memory>

namespace torch::data {

/// What went wrong in a thread of a loader.
struct WorkerException : std::exception {
  explicit WorkerException(std::exception_ptr original);
  const char* what() const noexcept override { return message.c_str(); }
  std::string message;
  std::exception_ptr original_exception;
};

namespace detail {

/// Threads that work off jobs; results come in the order of the jobs, or as they are done.
class Workers {
 public:
  using Result = std::shared_ptr<void>;
  using Job = std::function<Result(size_t worker)>;
  Workers(size_t count, bool ordered, optional<std::chrono::milliseconds> timeout);
  ~Workers();
  void push(Job job);
  /// The next result; an exception of the job becomes a WorkerException. Empty if nothing is under way.
  Result pop();
  size_t in_flight() const;
  /// Lets go of what nobody has asked for yet.
  void drain();
  void join();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace detail

}  // namespace torch::data
