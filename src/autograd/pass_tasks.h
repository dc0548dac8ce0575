// Holds what a backward pass knows of the nodes that it has found: a task for each, found by a hash table.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "autograd/node.h"

namespace facula::pass_tasks {

// Node -> number of its task: a hash table with open addressing.
class TaskNumbers {
 public:
  TaskNumbers() : slots_(first_.data()), mask_(first_.size() - 1) {}
  /// The number of `node`, which becomes `next` when it has none yet.
  int32_t find_or_add(Node* node, int32_t next) {
    size_t at = place(node);
    while (slots_[at].node) {
      if (slots_[at].node == node) return slots_[at].number;
      at = (at + 1) & mask_;
    }
    slots_[at] = {node, next};
    if (__builtin_expect(++used_ * 2 > mask_, 0)) grow();
    return next;
  }
  int32_t find(Node* node) const {
    for (size_t at = place(node); slots_[at].node; at = (at + 1) & mask_) {
      if (slots_[at].node == node) return slots_[at].number;
    }
    return -1;
  }

 private:
  struct Slot {
    Node* node = nullptr;
    int32_t number = 0;
  };
  size_t place(Node* node) const {
    return ((reinterpret_cast<uintptr_t>(node) >> 6) * 0x9E3779B97F4A7C15u >> 32) & mask_;
  }
  [[gnu::noinline]] void grow() {
    size_t before = mask_ + 1;
    std::vector<Slot> fresh(before * 4);
    mask_ = before * 4 - 1;
    for (size_t i = 0; i < before; ++i) {
      if (!slots_[i].node) continue;
      size_t at = place(slots_[i].node);
      while (fresh[at].node) at = (at + 1) & mask_;
      fresh[at] = slots_[i];
    }
    more_ = std::move(fresh);
    slots_ = more_.data();
  }

  std::array<Slot, 32> first_;
  std::vector<Slot> more_;
  Slot* slots_;
  size_t mask_, used_ = 0;
};

// The gradients that arrived at a node, one per forward output.
class Gradients {
 public:
  void prepare(size_t count) {
    if (count > 1 && !more_) {
      more_ = std::make_unique<Tensor[]>(count);
      count_ = static_cast<uint32_t>(count);
    }
  }
  Tensor* data() { return more_ ? more_.get() : &one_; }
  size_t size() const { return count_; }
  bool any() {
    return std::any_of(data(), data() + count_, [](const Tensor& t) { return t.defined(); });
  }

 private:
  Tensor one_;
  std::unique_ptr<Tensor[]> more_;
  uint32_t count_ = 1;
};

struct Task {
  explicit Task(Node* n) : node(n) {}
  Node* node;
  int32_t dependencies = 0;
  int32_t first_child = 0;  // index into children_: one per edge
  bool needed = true;       // lies between the roots and what is requested
  bool leads_on = true;     // one of its edges leads to a needed node
  bool queued = false;
  bool captured = false;
  Gradients grads;
};

struct Ready {
  uint64_t sequence;
  int32_t task;
  bool operator<(const Ready& other) const { return sequence < other.sequence; }
};

struct Capture {
  int32_t task;
  uint32_t slot;
  size_t input;
};

struct Frame {
  int32_t task;
  uint32_t next_edge;
};

// The lists of a pass. A thread keeps one set for its next pass, so that small graphs allocate nothing.
struct Buffers {
  std::vector<Task> tasks;
  std::vector<int32_t> children;  // numbers of the tasks that the edges lead to, -1 for none that is needed
  std::vector<int32_t> finished;  // a node after all that it leads to
  std::vector<Frame> stack;
  std::vector<Ready> ready;

  void clear() {
    tasks.clear();
    children.clear();
    finished.clear();
    stack.clear();
    ready.clear();
  }
};

}  // namespace facula::pass_tasks
