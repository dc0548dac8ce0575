// Composes the text of the error when nothing more can be evicted: what is held, by kind, and which budget would have
// been enough.
#pragma once

#include <string>
#include <vector>

#include "budget/report.h"

namespace facula::budget {

/// Why bytes that are held stay.
enum class HeldKind : uint8_t {
  Model,      // parameters, buffers and optimizer state
  Gradient,   // of leaves
  Program,    // tensors that the program holds
  Saved,      // saved values that no op can make again
  NeededNow,  // what the op that runs, or is about to run again, reads
};

struct HeldMemory {
  const void* storage = nullptr;  // distinguishes storages; null: of no one
  HeldKind kind = HeldKind::Program;
  size_t bytes = 0;
  Dims sizes;
  DType dtype = DType::Float32;
  MadeBy by;
};

/// What is known of the bytes that are held when a request fails.
struct Holdings {
  size_t held = 0, can_go = 0, request = 0;
  size_t let_go = 0;         // since the budget began
  size_t smallest = 0;       // the smallest budget that would have done
  bool model_known = false;  // whether everything of the kinds Model and Gradient is among `memory`
  size_t new_gradients = 0;  // where it is not: bytes of gradients that the pass under way has made
  std::vector<HeldMemory> memory;
};

/// "371 MiB are held that cannot go: 125 MiB parameters and optimizer, ... This step needs a budget of at least 470
/// MiB."
std::string text_of(Holdings holdings);

/// Each storage once, with what is known of it best: a parameter is a tensor that the program holds, too.
std::vector<HeldMemory> each_once(std::vector<HeldMemory> memory);

/// Bytes as "98.0 MiB", with three digits or more.
std::string text_of_bytes(uint64_t bytes);
/// "(8, 64) float32".
std::string text_of_tensor(IntList sizes, DType dtype);
/// "train.py:31" of "/home/me/train.py:31 in step"; "" where the place is not known.
std::string short_place(uint32_t place);
/// The op as users know it, "linear".
std::string public_name_of(uint16_t op);

/// Installed by whoever knows the program's objects: its parameters, buffers, optimizers, their gradients, and tensors
/// in its containers, of one device. False, and nothing found, where this thread may not look.
extern bool (*find_held_memory)(Device device, std::vector<HeldMemory>& found);

/// The text of an error, with what the program's objects hold where that was not known when it was made: a backward
/// pass runs without the interpreter. Other texts stay as they are.
std::string with_held_memory(const std::string& error);

/// The text of an error that refuses `request` bytes, where `held` bytes are held of which `can_go` could go, and
/// `cells` is known of cells whose bytes cannot.
std::string why_full(Device device, size_t request, size_t held, size_t can_go, std::vector<HeldMemory> cells);

}  // namespace facula::budget
