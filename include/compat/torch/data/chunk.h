// A data set whose examples come in chunks: files, or parts of them, that threads read while others are worked on.
#pragma once

#include <torch/data/datasets.h>
#include <torch/data/workers.h>
#include <torch/nn/module.h>

#include <deque>

namespace torch::data::datasets {

/// Reads chunks by their numbers. Several threads may do so at once.
template <class Example, class Chunk = std::vector<Example>>
class ChunkDataReader {
 public:
  using ExampleType = Example;
  using ChunkType = Chunk;
  using BatchType = Chunk;
  virtual ~ChunkDataReader() = default;
  virtual Chunk read_chunk(size_t chunk_index) = 0;
  virtual size_t chunk_count() = 0;
  /// Before every pass through the chunks.
  virtual void reset() = 0;
};

struct ChunkDatasetOptions {
  /// Chunks that are read at once (so many are ahead, whatever `cache` says), examples of a batch, examples that may
  /// wait, chunks whose examples are mixed.
  ChunkDatasetOptions(size_t preloaders, size_t batch, size_t cache = 2048, size_t mixed = 1);
  TORCH_ARG(size_t, preloader_count);
  TORCH_ARG(size_t, batch_size);
  TORCH_ARG(size_t, cache_size);
  TORCH_ARG(size_t, cross_chunk_shuffle_count);
};

/// Batches from chunks in the order of one sampler, the examples of each in the order of another. `reset()` begins a
/// pass. Chunks are used in their order, whichever is read first, so equal seeds give equal batches.
template <class ChunkReader, class ChunkSampler = samplers::RandomSampler,
          class ExampleSampler = samplers::RandomSampler>
class ChunkDataset final : public StatefulDataset<ChunkDataset<ChunkReader, ChunkSampler, ExampleSampler>,
                                                  typename ChunkReader::BatchType, size_t> {
 public:
  using UnwrappedBatchType = typename ChunkReader::BatchType;
  using BatchType = optional<UnwrappedBatchType>;
  using BatchRequestType = size_t;
  using ChunkSamplerType = ChunkSampler;
  using ExampleSamplerType = ExampleSampler;
  using Policy = std::function<void(UnwrappedBatchType&)>;

  /// `preprocessing_policy` changes what was read, before it is cut into batches.
  ChunkDataset(ChunkReader reader, ChunkSampler chunk_sampler, ExampleSampler example_sampler,
               ChunkDatasetOptions options, Policy preprocessing_policy = {})
      : reader_(std::move(reader)),
        chunk_sampler_(std::move(chunk_sampler)),
        example_sampler_(std::move(example_sampler)),
        options_(std::move(options)),
        policy_(std::move(preprocessing_policy)) {}

  BatchType get_batch(size_t batch_size) override {
    FACULA_CHECK(workers_, facula::ErrorKind::Runtime,
                 "ChunkDataset.get_batch: reset() must be called before, got no reset");
    FACULA_CHECK(batch_size == options_.batch_size(), facula::ErrorKind::Runtime,
                 "ChunkDataset.get_batch: a batch of the size of the options, ", options_.batch_size(),
                 " is expected, got ", batch_size);
    const std::lock_guard lock(*mutex_);
    while (waiting_.size() < batch_size && take_chunk()) continue;
    if (waiting_.empty()) return nullopt;
    UnwrappedBatchType batch;
    for (; batch.size() < batch_size && !waiting_.empty(); waiting_.pop_front())
      batch.push_back(std::move(waiting_.front()));
    return batch;
  }
  BatchType get_batch() { return get_batch(options_.batch_size()); }
  void reset() override {
    const std::lock_guard lock(*mutex_);
    workers_.reset();
    waiting_.clear();
    if (!loaded_) {
      reader_.reset();
      chunk_sampler_.reset(reader_.chunk_count());
    }
    loaded_ = false;
    workers_ = std::make_unique<data::detail::Workers>(options_.preloader_count(), true, nullopt);
    for (size_t i = 1; i < options_.preloader_count() && push(); ++i) continue;
  }
  /// It is not known before all chunks are read.
  optional<size_t> size() const override { return nullopt; }
  ChunkSampler& chunk_sampler() { return chunk_sampler_; }
  /// Which chunks have been asked for; `load` makes the next `reset()` go on with the others.
  void save(serialize::OutputArchive& archive) const override {
    const std::lock_guard lock(*mutex_);
    chunk_sampler_.save(archive);
  }
  void load(serialize::InputArchive& archive) override {
    const std::lock_guard lock(*mutex_);
    chunk_sampler_.load(archive);
    loaded_ = true;
  }

 private:
  /// Has the next chunks read by a thread; false after the last.
  bool push() {
    auto numbers = chunk_sampler_.next(options_.cross_chunk_shuffle_count());
    if (!numbers) return false;
    workers_->push([this, numbers = std::move(*numbers)](size_t) -> std::shared_ptr<void> {
      auto read = std::make_shared<UnwrappedBatchType>();
      for (const size_t number : numbers)
        for (auto& example : reader_.read_chunk(number)) read->push_back(std::move(example));
      if (policy_) policy_(*read);
      return read;
    });
    return true;
  }
  /// Puts what was read next to what waits; false when nothing more comes.
  bool take_chunk() {
    push();
    const auto read = std::static_pointer_cast<UnwrappedBatchType>(workers_->pop());
    if (!read) return false;
    if (read->empty()) return true;
    example_sampler_.reset(read->size());
    const auto order = example_sampler_.next(read->size());
    FACULA_CHECK(order && order->size() == read->size(), facula::ErrorKind::Runtime,
                 "ChunkDataset: the sampler of examples must give all ", read->size(), ", got ",
                 order ? order->size() : 0);
    for (const size_t i : *order) waiting_.push_back(std::move(read->at(i)));
    return true;
  }

  ChunkReader reader_;
  ChunkSampler chunk_sampler_;
  ExampleSampler example_sampler_;
  const ChunkDatasetOptions options_;
  Policy policy_;
  std::deque<typename UnwrappedBatchType::value_type> waiting_;
  bool loaded_ = false;
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
  std::unique_ptr<data::detail::Workers> workers_;  // last: its threads read what stands above
};

}  // namespace torch::data::datasets
