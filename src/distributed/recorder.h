// Implements the flight recorder: plain facts about the last operations of a process, also when they never end.
#pragma once

#include <deque>

#include "distributed/operation.h"

namespace facula::distributed {

struct Record {
  uint64_t number = 0, sequence = 0;
  Kind kind = Kind::Barrier;
  const char* name = "";
  std::string group;
  int root = 0;
  DType dtype = DType::UInt8;
  std::vector<std::vector<int64_t>> in, out;  // sizes of tensors
  CallSite site;
  double timeout = 0;
  double created = 0, started = 0, completed = 0;  // seconds since 1970; 0: not yet
  bool failed = false;
};

/// The caller holds the world's lock.
class FlightRecorder {
 public:
  void add(Operation& op, const std::string& group);
  void started(const Operation& op);
  void ended(const Operation& op);
  const std::deque<Record>& records() const { return records_; }

 private:
  Record* find(const Operation& op);
  std::deque<Record> records_;
  uint64_t next_ = 0;
};

}  // namespace facula::distributed
