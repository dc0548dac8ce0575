// Tracks copies of the bytes of cells in other places: those of the CPU in a file (move.h), those of CUDA devices in
// the host's memory (core/move_hooks.h). The bytes of a cell never change, so a copy stays true as long as the cell
// lives, and the bytes can be evicted again without another write.
//
//   - A move begins with the lock and is waited for without it. Meanwhile the storage is held, so that nobody releases
//     it. Whoever gets hold of the bytes in this time could change them; the move was then in vain, and the bytes stay.
//   - Any thread may finish moves that others have begun. If bytes could not be written, they stay in the cell.
//   - On the CPU, bytes are written when they have to be evicted. Copies from a CUDA device begin earlier, beside the
//     work of a forward pass, once memory was short. Bytes that were copied can be evicted at once. They come back two
//     saved values ahead of the pass.
#pragma once

#include <memory>
#include <string>

#include "budget/cell.h"

namespace facula::budget {

/// A copy of the bytes of a cell.
class Moved {
 public:
  Moved() = default;
  Moved(const Moved&) = delete;
  virtual ~Moved() = default;
  /// Whether the bytes can be read.
  virtual bool is_there() const = 0;
  /// Whether they are not there and will not be.
  virtual bool failed() const = 0;
  /// Returns when one of both is true.
  virtual void wait() = 0;
  /// Brings the bytes back into memory of the cell's device, for the current stream. Throws where they are not there.
  virtual void read(void* to) = 0;
  /// How long that takes.
  virtual uint64_t read_ns() const = 0;
  /// A storage into which the bytes are being brought back already, for the current stream; null for most.
  virtual Ref<Storage> take_fetched() { return {}; }
  virtual void fetch(const Ref<Storage>& /*into*/) {}
};

constexpr uint64_t kNever = UINT64_MAX;

/// The folder in whose file bytes of the CPU lie; "" for none. Throws where no file can be made there.
void set_folder(const std::string& folder);
/// The same for the one that FACULA_BUDGET_DIR names, or none.
void set_folder_of_environment();
std::string folder();
/// What a move seems to cost, of what it costs; returns what it was. For tests: 0 moves whatever can be.
double set_move_price(double factor);

// ---- with the lock held

/// Nanoseconds that it takes to write the bytes of a cell that are here, and to read them; kNever where they cannot be
/// moved while who asks waits. Reading alone where they are there already.
uint64_t move_ns(const Cell& cell);
/// Begins to write the bytes of a cell that is_alone(), which are to go.
void begin_move(Cell& cell);
/// The time to bring bytes of a CUDA device back from the host's memory.
uint64_t read_ns_from_host(const Cell& cell);
/// Finishes those moves of a device that are over, and gives up what was fetched ahead. Returns how many bytes went.
size_t wait_for_moves(Device device, Locked& locked);

// ---- without it

struct Finished {
  size_t gone = 0;      // bytes
  bool stayed = false;  // whether others have not gone, for which something else may go
};
/// Waits for the moves of a device.
Finished finish_moves(Device device);
/// A storage with the bytes of a cell that lie elsewhere.
Ref<Storage> read_back(const Cell& cell, Moved& moved);
/// After that, in a backward pass of a CUDA device: begins to bring back what is wanted next, where there is room.
void fetch_next(const Cell& cell);
/// At the end of an op of a CUDA device: begins to copy the bytes away that are dearest to make again, where memory was
/// short in this forward pass and no other copy is under way.
void move_ahead(Device device);
/// Memory of the device is short; a backward pass begins or ends, and no more is moved ahead.
void note_short(Device device);
void end_moves_ahead();

}  // namespace facula::budget
