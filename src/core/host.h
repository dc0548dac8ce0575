// Declares the functions by which the core calls the language that it is called from. A host language installs them
// here; a C++ program leaves them null, and the core does without.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace facula {

class Node;
class Tensor;
struct OpCall;
struct PackedTensor;
struct Storage;

struct Host {
  // ---- warnings and interrupts
  void (*warn)(const char* text) = nullptr;
  /// Once per op: it runs example by example inside vmap.
  void (*warn_example_by_example)(const char* op) = nullptr;
  /// Throws when the user has interrupted the program (Ctrl-C). It takes the interpreter lock: only a thread that may
  /// wait for that calls it, the one that called the op.
  void (*check_interrupt)() = nullptr;

  // ---- the interpreter lock, see LockRelease; the first gives null when this thread does not hold it
  void* (*release_lock)() = nullptr;
  void (*take_lock)(void* state) = nullptr;

  // ---- objects of the language
  /// Lets go of the object that a dying tensor owns.
  void (*release_object)(void* object) = nullptr;
  /// How many objects hold the storage without remembering an address in it.
  size_t (*storage_objects)(Storage* storage) = nullptr;

  // ---- who watches ops (src/observe)
  /// Whether a mode of this thread or the class of an argument stood in for a kernel, and put its results into the
  /// slots.
  bool (*dispatch)(const OpCall& call) = nullptr;
  /// The same tensor without history, of one whose class stands in for kernels.
  Tensor (*detach_by_class)(const Tensor& self) = nullptr;
  /// A number for the stack of the calling thread, 0 when it is not known.
  uint32_t (*capture_stack)() = nullptr;

  // ---- autograd
  /// For every node made in anomaly mode.
  void (*node_created)(Node* node) = nullptr;
  /// When a node with an object or metadata dies.
  void (*node_destroyed)(Node* node) = nullptr;
  /// In anomaly mode: shows the forward call of a node that failed.
  void (*backward_failed)(Node& node) = nullptr;
  /// The lines that run now.
  std::string (*current_traceback)() = nullptr;
  /// Asked for every saved tensor while kModeSavedHooks is set.
  std::unique_ptr<PackedTensor> (*pack_saved_tensor)(const Tensor& tensor) = nullptr;
};
extern Host host;

}  // namespace facula
