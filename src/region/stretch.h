// Defines stretches: what a compiled function with a backend of its own (torch.compile(f, backend=g)) defers.
//   - Between two demands of the program every op that only computes waits, with the operands of its call. The waiting
//     ops are one recipe (core/recipe.h). When somebody needs one of its results, the stretch ends, and code that the
//     backend has made of it computes everything that is alive.
//   - Code is found by the ops that it stands for, in a tree of ops: each has its row of the boxed table, its numbers,
//     the values that are its operands, and the forms of the inputs. A call walks down this tree. So a call gets code
//     that was made for the very same ops on the very same forms of inputs, or none.
//   - Where the tree ends, ops run at the call as well, on what their operands will be, to find out what results look
//     like. So nothing is guessed, and a stretch that is recorded ends where one that is followed does.
//   - Without code, also after an error, the ops themselves compute the results, one by one, in their order.
//   - A stretch belongs to one device, and to the stream that is current there; other ops run at once.
//   - Ops that draw, write to memory of others, or return what cannot wait, run at once. Their results are inputs.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/recipe.h"
#include "observe/op_call.h"
#include "program/boxed.h"

namespace facula {

class StretchTree;

/// What a tensor looks like from outside.
struct TensorForm {
  DType dtype = DType::Float32;
  Device device = kCPU;
  bool conjugate = false;
  Dims sizes, strides;
  static TensorForm of(const Tensor& t);
  bool operator==(const TensorForm& other) const;
};

/// An argument of an op in a stretch. Tensors are numbers of values; -1 stands for none.
struct StretchArgument {
  Value number;
  bool has_tensors = false, is_list = false;
  std::vector<int> tensors;
  bool operator==(const StretchArgument& other) const;
};

struct StretchOp {
  enum class Kind : uint8_t {
    Computes,    // results of its own, which wait
    Views,       // views, made at the call
    Writes,      // in place, to what waits
    RunsAtOnce,  // what it gives cannot wait
  };
  const BoxedOp* row = nullptr;
  Kind kind = Kind::Computes;
  std::vector<StretchArgument> arguments;
  std::vector<TensorForm> inputs;                  // that no op before has used
  int first = 0;                                   // number of the first of these; results come behind them
  std::vector<std::optional<TensorForm>> results;  // of Computes; none: undefined
  int views = 0;                                   // results of Views

  int first_result() const { return first + static_cast<int>(inputs.size()); }
  /// Numbers behind those of this op.
  int end() const;
  bool is_same_call(const StretchOp& other) const;
};

/// Ops of a stretch from its begin, and which of its values are wanted.
struct StretchProgram {
  std::shared_ptr<const StretchTree> tree;  // keeps the ops
  std::vector<const StretchOp*> ops;        // those that are needed
  std::vector<int> inputs, results;         // numbers of values
  int values = 0;
  bool records_gradients = false;  // a derivative may be requested

  /// Runs the ops, one by one.
  std::vector<Tensor> run(const std::vector<Tensor>& given) const;
};

struct StretchCode {
  std::vector<int> inputs, results;  // numbers of values
  int code = 0;                      // the host's
};

/// Whoever has a backend: Python.
class StretchHost {
 public:
  virtual ~StretchHost() = default;
  /// Whether more may be recorded in this call; throws where it must not.
  virtual bool may_record() = 0;
  /// Gives the stretch to the backend. `originals`: its inputs, as the program has them; `inputs`: as code gets them.
  virtual int compile(const StretchProgram& program, const std::vector<Tensor>& originals,
                      const std::vector<Tensor>& inputs) = 0;
  /// Runs what the backend gave; as many tensors as there are results.
  virtual std::vector<Tensor> run(int code, const std::vector<Tensor>& inputs, size_t results) = 0;
  /// "compile: the backend 'f'", for errors.
  virtual std::string name() = 0;
};

struct StretchNode {
  StretchOp op;
  StretchNode* before = nullptr;
  std::vector<std::unique_ptr<StretchNode>> next;
  std::vector<StretchCode> codes;  // of stretches that end here
};

/// What is known of the stretches of one compiled function. Nodes stay where they are.
class StretchTree {
 public:
  explicit StretchTree(std::shared_ptr<StretchHost> h) : host(std::move(h)) {}
  const std::shared_ptr<StretchHost> host;
  std::mutex lock;  // of the nodes: threads may run one function
  StretchNode root;
  /// Views of inputs are ops of stretches; in backward passes they are inputs, which the engine may want to itself.
  bool shows_inputs = true;
  std::atomic<bool> called{false};  // a call has ended
};

class Stretch;

/// The stretches of one call, on its thread.
class StretchRun {
 public:
  explicit StretchRun(std::shared_ptr<StretchTree> tree);
  ~StretchRun();
  StretchRun(const StretchRun&) = delete;

  /// Asks whether this call may be recorded, before its first op does.
  bool ask();
  bool op_begins(const OpCall& call);
  void op_ends(const OpCall& call);
  /// Makes what is alive. `raised`: the program did, and nothing is compiled any more.
  void end(bool raised = false);
  /// Something was recorded.
  bool recorded() const { return recorded_; }
  /// Whether this call may be recorded is known, and it may.
  bool looks() const { return may_record_.value_or(false); }

 private:
  friend class Stretch;
  bool put_off(StretchOp& op, const OpCall& call);

  const std::shared_ptr<StretchTree> tree_;
  Ref<Stretch> open_;
  std::optional<bool> may_record_;  // none: not known yet
  bool recorded_ = false;
  StretchNode* shows_ = nullptr;  // the view that is being made
};

}  // namespace facula
