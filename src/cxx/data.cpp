// torch::data: samplers, MNIST's files, batches of tensors, and the threads behind a loader.
#include "torch/data.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>

#include "torch/serialize.h"

namespace torch::data {

using facula::ErrorKind;

datasets::ChunkDatasetOptions::ChunkDatasetOptions(size_t preloaders, size_t batch, size_t cache, size_t mixed)
    : preloader_count_(preloaders), batch_size_(batch), cache_size_(cache), cross_chunk_shuffle_count_(mixed) {
  constexpr const char* kNames[] = {"preloader_count", "batch_size", "cache_size", "cross_chunk_shuffle_count"};
  const size_t numbers[] = {preloaders, batch, cache, mixed};
  for (size_t i = 0; i < std::size(kNames); ++i)
    FACULA_CHECK(numbers[i] > 0, ErrorKind::Runtime, "ChunkDatasetOptions: ", kNames[i], " must be positive, got 0");
  FACULA_CHECK(cache >= batch, ErrorKind::Runtime, "ChunkDatasetOptions: cache_size must hold a batch of ", batch,
               ", got ", cache);
}

// ---- samplers

namespace samplers {
namespace {

void save_place(serialize::OutputArchive& archive, size_t at) {
  archive.write("index", torch::tensor(static_cast<int64_t>(at)), true);
}
size_t load_place(serialize::InputArchive& archive) {
  Tensor at = torch::empty({}, kLong);
  archive.read("index", at, true);
  return static_cast<size_t>(at.item<int64_t>());
}
/// The share of `rank`, as long as everybody's: the first examples come again where they do not divide.
std::vector<size_t> shared_out(size_t size, size_t total) {
  std::vector<size_t> all(total);
  for (size_t i = 0; i < total; ++i) all[i] = i < size ? i : i - size;
  return all;
}
std::vector<size_t> part_of(const std::vector<size_t>& all, size_t rank, size_t count) {
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(rank * count);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}
optional<std::vector<size_t>> taken(const std::vector<size_t>& from, size_t& at, size_t count) {
  const size_t end = std::min(from.size(), at + count);
  if (at >= end) return nullopt;
  std::vector<size_t> some(from.begin() + static_cast<std::ptrdiff_t>(at),
                           from.begin() + static_cast<std::ptrdiff_t>(end));
  at = end;
  return some;
}

}  // namespace

RandomSampler::RandomSampler(int64_t size, Dtype index_dtype) : indices_(torch::randperm(size, index_dtype)) {}
void RandomSampler::reset(optional<size_t> new_size) {
  const int64_t size = new_size ? static_cast<int64_t>(*new_size) : indices_.numel();
  indices_ = torch::randperm(size, indices_.scalar_type());
  index_ = 0;
}
optional<std::vector<size_t>> RandomSampler::next(size_t batch_size) {
  const int64_t end = std::min(indices_.numel(), index_ + static_cast<int64_t>(batch_size));
  if (index_ >= end) return nullopt;
  const Tensor part = indices_.slice(0, index_, end).to(kLong).contiguous();
  index_ = end;
  const auto* first = part.data_ptr<int64_t>();
  return std::vector<size_t>(first, first + part.numel());
}
void RandomSampler::save(serialize::OutputArchive& archive) const {
  save_place(archive, index());
  archive.write("indices", indices_, true);
}
void RandomSampler::load(serialize::InputArchive& archive) {
  index_ = static_cast<int64_t>(load_place(archive));
  archive.read("indices", indices_, true);
}

void SequentialSampler::reset(optional<size_t> new_size) {
  size_ = new_size.value_or(size_);
  index_ = 0;
}
optional<std::vector<size_t>> SequentialSampler::next(size_t batch_size) {
  if (index_ >= size_) return nullopt;
  std::vector<size_t> some(std::min(batch_size, size_ - index_));
  std::iota(some.begin(), some.end(), index_);
  index_ += some.size();
  return some;
}
void SequentialSampler::save(serialize::OutputArchive& archive) const { save_place(archive, index_); }
void SequentialSampler::load(serialize::InputArchive& archive) { index_ = load_place(archive); }

optional<std::vector<size_t>> DistributedListSampler::next(size_t batch_size) { return taken(mine_, at_, batch_size); }
void DistributedListSampler::save(serialize::OutputArchive& archive) const { save_place(archive, at_); }
void DistributedListSampler::load(serialize::InputArchive& archive) { at_ = load_place(archive); }

DistributedRandomSampler::DistributedRandomSampler(size_t size, size_t num_replicas, size_t rank, bool allow_duplicates)
    : DistributedListSampler(size, num_replicas, rank, allow_duplicates) {
  reset();
}
void DistributedRandomSampler::reset(optional<size_t> new_size) {
  size_ = new_size.value_or(size_);
  const size_t count = local_sample_count();
  auto all = shared_out(size_, std::max(size_, count * num_replicas_));
  std::mt19937 generator(static_cast<uint32_t>(epoch_));
  std::shuffle(all.begin(), all.end(), generator);
  mine_ = part_of(all, rank_, count);
  at_ = 0;
}
void DistributedRandomSampler::save(serialize::OutputArchive& archive) const {
  DistributedListSampler::save(archive);
  archive.write("sample_index_epoch", torch::tensor(static_cast<int64_t>(epoch_)), true);
}
void DistributedRandomSampler::load(serialize::InputArchive& archive) {
  Tensor epoch = torch::empty({}, kLong);
  archive.read("sample_index_epoch", epoch, true);
  epoch_ = static_cast<size_t>(epoch.item<int64_t>());
  reset();
  DistributedListSampler::load(archive);
}

DistributedSequentialSampler::DistributedSequentialSampler(size_t size, size_t num_replicas, size_t rank,
                                                           bool allow_duplicates)
    : DistributedListSampler(size, num_replicas, rank, allow_duplicates) {
  reset();
}
void DistributedSequentialSampler::reset(optional<size_t> new_size) {
  size_ = new_size.value_or(size_);
  const size_t count = local_sample_count();
  mine_ = part_of(shared_out(size_, std::max(size_, count * num_replicas_)), rank_, count);
  at_ = 0;
}

void StreamSampler::reset(optional<size_t> new_size) {
  epoch_size_ = new_size.value_or(epoch_size_);
  examples_so_far_ = 0;
}
optional<BatchSize> StreamSampler::next(size_t batch_size) {
  if (examples_so_far_ >= epoch_size_) return nullopt;
  const size_t count = std::min(batch_size, epoch_size_ - examples_so_far_);
  examples_so_far_ += count;
  return BatchSize(count);
}
void StreamSampler::save(serialize::OutputArchive& archive) const { save_place(archive, examples_so_far_); }
void StreamSampler::load(serialize::InputArchive& archive) { examples_so_far_ = load_place(archive); }

}  // namespace samplers

// ---- batches of tensors

namespace transforms {

Example<> Stack<Example<>>::apply_batch(std::vector<Example<>> examples) {
  std::vector<Tensor> data, targets;
  for (Example<>& each : examples) {
    data.push_back(std::move(each.data));
    targets.push_back(std::move(each.target));
  }
  return {torch::stack(data), torch::stack(targets)};
}
TensorExample Stack<TensorExample>::apply_batch(std::vector<TensorExample> examples) {
  std::vector<Tensor> data;
  for (TensorExample& each : examples) data.push_back(std::move(each.data));
  return torch::stack(data);
}

}  // namespace transforms

// ---- MNIST: numbers of 4 bytes, the highest first, then bytes

namespace datasets {
namespace {

Tensor read_idx(const std::string& path, int64_t dims) {
  std::ifstream file(path, std::ios::binary);
  FACULA_CHECK(file, ErrorKind::Runtime, "MNIST: cannot open ", path);
  const auto number = [&] {
    unsigned char bytes[4] = {};
    file.read(reinterpret_cast<char*>(bytes), sizeof bytes);
    FACULA_CHECK(file, ErrorKind::Runtime, "MNIST: ", path, " ends in its head");
    return int64_t{bytes[0]} << 24 | int64_t{bytes[1]} << 16 | int64_t{bytes[2]} << 8 | bytes[3];
  };
  constexpr int64_t kBytes = 0x0800, kMost = int64_t{1} << 32;
  const int64_t magic = number();
  FACULA_CHECK(magic == kBytes + dims, ErrorKind::Runtime, "MNIST: ", path, " begins with ", magic, " instead of ",
               kBytes + dims);
  std::vector<int64_t> sizes;
  int64_t count = 1;
  for (int64_t d = 0; d < dims; ++d) {
    sizes.push_back(number());
    FACULA_CHECK(sizes.back() == 0 || count <= kMost / sizes.back(), ErrorKind::Runtime, "MNIST: ", path,
                 " says that it has more than 4 GiB");
    count *= sizes.back();
  }
  Tensor values = torch::empty(sizes, kByte);
  file.read(static_cast<char*>(values.data_ptr()), count);
  FACULA_CHECK(file.gcount() == count, ErrorKind::Runtime, "MNIST: ", path, " has ", file.gcount(), " of ", count,
               " bytes");
  return values;
}
std::string in_folder(const std::string& root, const char* name) {
  return root.empty() || root.back() == '/' ? root + name : root + "/" + name;
}

}  // namespace

MNIST::MNIST(const std::string& root, Mode mode) : mode_(mode) {
  const bool train = is_train();
  images_ = read_idx(in_folder(root, train ? "train-images-idx3-ubyte" : "t10k-images-idx3-ubyte"), 3);
  targets_ = read_idx(in_folder(root, train ? "train-labels-idx1-ubyte" : "t10k-labels-idx1-ubyte"), 1).to(kLong);
  FACULA_CHECK(images_.size(0) == targets_.size(0), ErrorKind::Runtime, "MNIST: ", images_.size(0), " images and ",
               targets_.size(0), " labels");
  images_ = images_.to(kFloat).div_(255).unsqueeze(1);
}
Example<> MNIST::get(size_t index) {
  const auto i = static_cast<int64_t>(index);
  return {images_[i], targets_[i]};
}

}  // namespace datasets

// ---- threads

namespace {

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return std::string("Caught exception in DataLoader worker thread. Original message: ") + e.what();
  } catch (...) {
    return "Caught exception in DataLoader worker thread.";
  }
}

}  // namespace

WorkerException::WorkerException(std::exception_ptr original)
    : message(message_of(original)), original_exception(std::move(original)) {}

namespace detail {

struct Workers::State {
  struct Done {
    Result result;
    std::exception_ptr error;
  };
  bool ordered;
  optional<std::chrono::milliseconds> timeout;
  std::mutex lock;
  std::condition_variable jobs_changed, done_changed;
  std::deque<std::pair<size_t, Job>> jobs;
  std::map<size_t, Done> done;  // by number
  size_t pushed = 0, popped = 0, epoch = 0;
  bool ends = false;
  std::vector<std::thread> threads;

  void work(size_t worker) {
    std::unique_lock guard(lock);
    for (;;) {
      jobs_changed.wait(guard, [&] { return ends || !jobs.empty(); });
      if (ends) return;
      auto [number, job] = std::move(jobs.front());
      const size_t mine = epoch;
      jobs.pop_front();
      guard.unlock();
      Done made;
      try {
        made.result = job(worker);
      } catch (...) {
        made.error = std::current_exception();
      }
      guard.lock();
      if (mine != epoch) continue;  // nobody waits for it any more
      done.emplace(number, std::move(made));
      done_changed.notify_all();
    }
  }
  bool next_is_there() const { return !done.empty() && (!ordered || done.begin()->first == popped); }
};

Workers::Workers(size_t count, bool ordered, optional<std::chrono::milliseconds> timeout)
    : state_(std::make_shared<State>()) {
  state_->ordered = ordered;
  state_->timeout = timeout;
  for (size_t w = 0; w < count; ++w) state_->threads.emplace_back([this, w] { state_->work(w); });
}
Workers::~Workers() { join(); }
void Workers::push(Job job) {
  const std::lock_guard guard(state_->lock);
  state_->jobs.emplace_back(state_->pushed++, std::move(job));
  state_->jobs_changed.notify_one();
}
size_t Workers::in_flight() const {
  const std::lock_guard guard(state_->lock);
  return state_->pushed - state_->popped;
}
Workers::Result Workers::pop() {
  std::unique_lock guard(state_->lock);
  if (state_->pushed == state_->popped) return nullptr;
  const auto ready = [&] { return state_->next_is_there(); };
  if (!state_->timeout) state_->done_changed.wait(guard, ready);
  else
    FACULA_CHECK(state_->done_changed.wait_for(guard, *state_->timeout, ready), ErrorKind::Runtime,
                 "DataLoader: no worker gave a batch in time (the timeout is ", state_->timeout->count(), " ms)");
  State::Done next = std::move(state_->done.begin()->second);
  state_->done.erase(state_->done.begin());
  ++state_->popped;
  if (next.error) throw WorkerException(next.error);
  return next.result;
}
void Workers::drain() {
  const std::lock_guard guard(state_->lock);
  state_->jobs.clear();
  state_->done.clear();
  state_->pushed = state_->popped = 0;
  ++state_->epoch;
}
void Workers::join() {
  {
    const std::lock_guard guard(state_->lock);
    state_->ends = true;
    state_->jobs_changed.notify_all();
  }
  for (std::thread& thread : state_->threads)
    if (thread.joinable()) thread.join();
}

}  // namespace detail

}  // namespace torch::data
