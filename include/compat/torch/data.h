// Data sets, what is done to their examples, and loaders that give batches, also by threads.
#pragma once

#include <torch/data/chunk.h>
#include <torch/data/datasets.h>
#include <torch/data/workers.h>
#include <torch/nn/module.h>

#include <iterator>

namespace torch::data {

struct DataLoaderOptions {
  DataLoaderOptions() = default;
  DataLoaderOptions(size_t batch_size) : batch_size_(batch_size) {}
  TORCH_ARG(size_t, batch_size) = 1;
  TORCH_ARG(size_t, workers) = 0;
  TORCH_ARG(optional<size_t>, max_jobs);
  TORCH_ARG(optional<std::chrono::milliseconds>, timeout);
  TORCH_ARG(bool, enforce_ordering) = true;
  TORCH_ARG(bool, drop_last) = false;
};
struct FullDataLoaderOptions {
  explicit FullDataLoaderOptions(const DataLoaderOptions& o)
      : batch_size(o.batch_size()),
        workers(o.workers()),
        max_jobs(o.max_jobs().value_or(2 * o.workers())),
        timeout(o.timeout()),
        enforce_ordering(o.enforce_ordering()),
        drop_last(o.drop_last()) {}
  size_t batch_size, workers, max_jobs;
  optional<std::chrono::milliseconds> timeout;
  bool enforce_ordering, drop_last;
};

/// Goes once through the batches of a loader; it ends where `end()` is.
template <class Batch>
class Iterator {
 public:
  using difference_type = std::ptrdiff_t;
  using value_type = Batch;
  using pointer = Batch*;
  using reference = Batch&;
  using iterator_category = std::input_iterator_tag;

  Iterator() = default;
  explicit Iterator(std::function<optional<Batch>()> next) : state_(std::make_shared<State>()) {
    state_->next = std::move(next);
  }
  Iterator& operator++() {
    known().batch = known().next();
    return *this;
  }
  Batch& operator*() {
    FACULA_CHECK(!at_end(), facula::ErrorKind::Runtime,
                 "DataLoader: an iterator past the end has no batch");
    return *state_->batch;
  }
  Batch* operator->() { return &**this; }
  bool operator==(const Iterator& other) const { return at_end() == other.at_end(); }
  Iterator begin() { return *this; }
  Iterator end() { return {}; }

 private:
  struct State {
    std::function<optional<Batch>()> next;
    optional<Batch> batch;
    bool begun = false;
  };
  // The first batch is made when somebody looks.
  State& known() const {
    FACULA_CHECK(state_, facula::ErrorKind::Runtime, "DataLoader: an iterator past the end cannot go on");
    if (!state_->begun) {
      state_->begun = true;
      state_->batch = state_->next();
    }
    return *state_;
  }
  bool at_end() const { return !state_ || !known().batch; }
  std::shared_ptr<State> state_;
};

/// What both kinds of loaders do: `request()` says what the next batch is.
template <class Dataset, class Batch, class BatchRequest>
class DataLoaderBase {
 public:
  using BatchType = Batch;
  using BatchRequestType = BatchRequest;

  DataLoaderBase(const DataLoaderOptions& options, Dataset dataset) : options_(options) {
    for (size_t w = 0; w < std::max<size_t>(options_.workers, 1); ++w)
      datasets_.push_back(std::make_unique<Dataset>(dataset));
    if (options_.workers)
      workers_ = std::make_unique<detail::Workers>(options_.workers, options_.enforce_ordering, options_.timeout);
  }
  DataLoaderBase(const DataLoaderBase&) = delete;
  virtual ~DataLoaderBase() { join(); }

  Iterator<Batch> begin() {
    FACULA_CHECK(!workers_ || workers_->in_flight() == 0, facula::ErrorKind::Runtime,
                 "DataLoader: one iterator at a time is possible, got a second one");
    reset();
    for (size_t i = 0; workers_ && i < options_.max_jobs && push(); ++i) continue;
    return Iterator<Batch>([this] { return next(); });
  }
  Iterator<Batch> end() { return {}; }
  /// Ends the threads.
  void join() {
    if (workers_) workers_->join();
  }
  const FullDataLoaderOptions& options() const noexcept { return options_; }

 protected:
  using Made = typename Dataset::BatchType;
  virtual optional<BatchRequest> get_batch_request() = 0;
  virtual void reset() {
    if (workers_) workers_->drain();
  }
  Dataset& main_dataset() { return *datasets_[0]; }
  const FullDataLoaderOptions options_;

 private:
  bool push() {
    auto request = get_batch_request();
    if (!request) return false;
    workers_->push([this, request = std::move(*request)](size_t worker) -> std::shared_ptr<void> {
      return std::make_shared<Made>(datasets_[worker]->get_batch(request));
    });
    return true;
  }
  optional<Batch> next() {
    if (!workers_) {
      auto request = get_batch_request();
      return request ? optional<Batch>(main_dataset().get_batch(std::move(*request))) : nullopt;
    }
    while (const auto result = workers_->pop()) {
      optional<Batch> batch = std::move(*static_cast<Made*>(result.get()));
      if (!batch) continue;  // a stream that has ended, for this job
      push();
      return batch;
    }
    return nullopt;
  }
  std::vector<std::unique_ptr<Dataset>> datasets_;
  std::unique_ptr<detail::Workers> workers_;  // after the data sets: its threads end first
};

template <class Dataset, class Sampler>
class StatelessDataLoader
    : public DataLoaderBase<Dataset, typename Dataset::BatchType, typename Sampler::BatchRequestType> {
 public:
  using Base = DataLoaderBase<Dataset, typename Dataset::BatchType, typename Sampler::BatchRequestType>;
  StatelessDataLoader(Dataset dataset, Sampler sampler, const DataLoaderOptions& options)
      : Base(options, std::move(dataset)), sampler_(std::move(sampler)) {}
  ~StatelessDataLoader() override { this->join(); }

 private:
  void reset() override {
    sampler_.reset();
    Base::reset();
  }
  optional<typename Base::BatchRequestType> get_batch_request() override {
    auto indices = sampler_.next(this->options_.batch_size);
    const bool unwanted = indices && this->options_.drop_last && indices->size() < this->options_.batch_size;
    return unwanted ? nullopt : std::move(indices);
  }
  Sampler sampler_;
};

template <class Dataset>
class StatefulDataLoader : public DataLoaderBase<Dataset, typename Dataset::BatchType::value_type, size_t> {
 public:
  using Base = DataLoaderBase<Dataset, typename Dataset::BatchType::value_type, size_t>;
  StatefulDataLoader(Dataset dataset, const DataLoaderOptions& options) : Base(options, std::move(dataset)) {}
  ~StatefulDataLoader() override { this->join(); }

 private:
  void reset() override {
    this->main_dataset().reset();
    Base::reset();
  }
  optional<size_t> get_batch_request() override { return this->options_.batch_size; }
};

template <class Dataset, class Sampler>
  requires(!Dataset::is_stateful)
std::unique_ptr<StatelessDataLoader<Dataset, Sampler>> make_data_loader(Dataset dataset, Sampler sampler,
                                                                        DataLoaderOptions options) {
  return std::make_unique<StatelessDataLoader<Dataset, Sampler>>(std::move(dataset), std::move(sampler), options);
}
template <class Sampler = samplers::RandomSampler, class Dataset>
  requires(!Dataset::is_stateful && std::is_constructible_v<Sampler, size_t>)
std::unique_ptr<StatelessDataLoader<Dataset, Sampler>> make_data_loader(Dataset dataset,
                                                                        DataLoaderOptions options = {}) {
  const optional<size_t> size = dataset.size();
  FACULA_CHECK(size, facula::ErrorKind::Runtime, "DataLoader: a sampler needs a dataset with a size, got one without");
  return make_data_loader(std::move(dataset), Sampler(*size), options);
}
template <class Dataset>
  requires Dataset::is_stateful
std::unique_ptr<StatefulDataLoader<Dataset>> make_data_loader(Dataset dataset, DataLoaderOptions options = {}) {
  return std::make_unique<StatefulDataLoader<Dataset>>(std::move(dataset), options);
}

}  // namespace torch::data
