// Data sets: of examples by number, of batches, of tensors, of MNIST's files; and their transformed forms.
#pragma once

#include <torch/data/samplers.h>
#include <torch/data/transforms.h>

#include <memory>

namespace torch::data::datasets {

template <class Source, class Applied>
class MapDataset;

namespace detail {
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<optional<T>> : std::true_type {};
}  // namespace detail

/// Gives batches. `Self` is the class that derives from this one.
template <class Self, class Batch = std::vector<Example<>>, class BatchRequest = ArrayRef<size_t>>
class BatchDataset {
 public:
  using SelfType = Self;
  using BatchType = Batch;
  using BatchRequestType = BatchRequest;
  constexpr static bool is_stateful = detail::IsOptional<Batch>::value;

  virtual ~BatchDataset() = default;
  virtual Batch get_batch(BatchRequest request) = 0;
  virtual optional<size_t> size() const = 0;
  template <class Applied>
  MapDataset<Self, Applied> map(Applied transform) & {
    return MapDataset<Self, Applied>(static_cast<Self&>(*this), std::move(transform));
  }
  template <class Applied>
  MapDataset<Self, Applied> map(Applied transform) && {
    return MapDataset<Self, Applied>(std::move(static_cast<Self&>(*this)), std::move(transform));
  }
};

/// Gives examples by their numbers.
template <class Self, class SingleExample = Example<>>
class Dataset : public BatchDataset<Self, std::vector<SingleExample>> {
 public:
  using ExampleType = SingleExample;
  virtual ExampleType get(size_t index) = 0;
  std::vector<ExampleType> get_batch(ArrayRef<size_t> indices) override {
    std::vector<ExampleType> batch;
    batch.reserve(indices.size());
    for (const size_t i : indices) batch.push_back(get(i));
    return batch;
  }
};

template <class Self, class Batch = std::vector<Example<>>>
using StreamDataset = BatchDataset<Self, Batch, size_t>;

/// Says itself what comes next, until nothing does.
template <class Self, class Batch = std::vector<Example<>>, class BatchRequest = size_t>
class StatefulDataset : public BatchDataset<Self, optional<Batch>, BatchRequest> {
 public:
  virtual void reset() = 0;
  virtual void save(serialize::OutputArchive& archive) const = 0;
  virtual void load(serialize::InputArchive& archive) = 0;
};
template <class... Args>
serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const StatefulDataset<Args...>& dataset) {
  dataset.save(archive);
  return archive;
}
template <class... Args>
serialize::InputArchive& operator>>(serialize::InputArchive& archive, StatefulDataset<Args...>& dataset) {
  dataset.load(archive);
  return archive;
}

namespace detail {
template <class Source, class Applied>
using MappedBatch = std::conditional_t<Source::is_stateful, optional<typename Applied::OutputBatchType>,
                                       typename Applied::OutputBatchType>;
}  // namespace detail

/// A data set behind which a transform is applied to every batch.
template <class Source, class Applied>
class MapDataset : public BatchDataset<MapDataset<Source, Applied>, detail::MappedBatch<Source, Applied>,
                                       typename Source::BatchRequestType> {
 public:
  using DatasetType = Source;
  using TransformType = Applied;
  using BatchRequestType = typename Source::BatchRequestType;
  using OutputBatchType = detail::MappedBatch<Source, Applied>;

  MapDataset(Source dataset, Applied transform) : dataset_(std::move(dataset)), transform_(std::move(transform)) {}
  OutputBatchType get_batch(BatchRequestType request) override {
    if constexpr (Source::is_stateful) {
      auto batch = dataset_.get_batch(std::move(request));
      return batch ? OutputBatchType(transform_.apply_batch(std::move(*batch))) : nullopt;
    } else {
      return transform_.apply_batch(dataset_.get_batch(std::move(request)));
    }
  }
  optional<size_t> size() const noexcept override { return dataset_.size(); }
  void reset() { dataset_.reset(); }
  const Source& dataset() noexcept { return dataset_; }
  const Applied& transform() noexcept { return transform_; }

 private:
  Source dataset_;
  Applied transform_;
};
template <class Source, class Applied>
MapDataset<Source, Applied> map(Source dataset, Applied transform) {
  return MapDataset<Source, Applied>(std::move(dataset), std::move(transform));
}

/// One data set that the threads of a loader share, where they otherwise have a copy each.
template <class Underlying>
class SharedBatchDataset : public BatchDataset<SharedBatchDataset<Underlying>, typename Underlying::BatchType,
                                               typename Underlying::BatchRequestType> {
 public:
  SharedBatchDataset(std::shared_ptr<Underlying> dataset) : dataset_(std::move(dataset)) {}
  typename Underlying::BatchType get_batch(typename Underlying::BatchRequestType request) override {
    return dataset_->get_batch(std::move(request));
  }
  optional<size_t> size() const override { return dataset_->size(); }
  Underlying& operator*() { return *dataset_; }
  const Underlying& operator*() const { return *dataset_; }
  Underlying* operator->() { return dataset_.get(); }
  const Underlying* operator->() const { return dataset_.get(); }
  void reset() { dataset_->reset(); }

 private:
  std::shared_ptr<Underlying> dataset_;
};
template <class Underlying, class... Args>
SharedBatchDataset<Underlying> make_shared_dataset(Args&&... args) {
  return SharedBatchDataset<Underlying>(std::make_shared<Underlying>(std::forward<Args>(args)...));
}

/// The rows of a tensor.
struct TensorDataset : Dataset<TensorDataset, TensorExample> {
  explicit TensorDataset(const std::vector<Tensor>& tensors) : TensorDataset(torch::stack(tensors)) {}
  explicit TensorDataset(Tensor t) : tensor(std::move(t)) {}
  TensorExample get(size_t index) override { return tensor[static_cast<int64_t>(index)]; }
  optional<size_t> size() const override { return tensor.size(0); }
  Tensor tensor;
};

/// The four files of MNIST, unpacked, in a folder.
class MNIST : public Dataset<MNIST> {
 public:
  enum class Mode { kTrain, kTest };
  explicit MNIST(const std::string& root, Mode mode = Mode::kTrain);
  Example<> get(size_t index) override;
  optional<size_t> size() const override { return static_cast<size_t>(images_.size(0)); }
  bool is_train() const noexcept { return mode_ == Mode::kTrain; }
  const Tensor& images() const { return images_; }
  const Tensor& targets() const { return targets_; }

 private:
  Mode mode_;
  Tensor images_, targets_;
};

}  // namespace torch::data::datasets

namespace torch::data {
using datasets::BatchDataset;
using datasets::Dataset;
}  // namespace torch::data
