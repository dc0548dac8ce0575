#include "distributed/recorder.h"

namespace facula::distributed {
namespace {

constexpr size_t kMostRecords = 2000;
constexpr size_t kTensors = 16;  // of one operation

std::vector<std::vector<int64_t>> sizes_of(const std::vector<Tensor>& tensors) {
  std::vector<std::vector<int64_t>> sizes;
  for (const Tensor& t : tensors) {
    if (sizes.size() == kTensors) break;
    sizes.emplace_back(t.sizes().begin(), t.sizes().end());
  }
  return sizes;
}

}  // namespace

void FlightRecorder::add(Operation& op, const std::string& group) {
  if (records_.size() == kMostRecords) records_.pop_front();
  op.record = next_++;
  const Call& call = op.call;
  const bool in_place = call.in.empty() && call.kind != Kind::Recv;
  records_.push_back({.number = op.record,
                      .sequence = op.sequence,
                      .kind = call.kind,
                      .name = call.name,
                      .group = group,
                      .root = call.root,
                      .dtype = op.dtype,
                      .in = sizes_of(in_place ? call.out : call.in),
                      .out = sizes_of(call.out),
                      .site = call.site,
                      .timeout = call.timeout,
                      .created = op.queued_at});
}

Record* FlightRecorder::find(const Operation& op) {
  if (records_.empty() || op.record < records_.front().number) return nullptr;
  return &records_[op.record - records_.front().number];
}

void FlightRecorder::started(const Operation& op) {
  if (Record* record = find(op)) record->started = op.started_at;
}

void FlightRecorder::ended(const Operation& op) {
  if (Record* record = find(op)) {
    record->failed = op.error != nullptr;
    record->completed = op.done_at;
  }
}

}  // namespace facula::distributed
