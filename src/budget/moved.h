// Bytes of cells that lie elsewhere, too: those of the CPU in a file (move.h), those of other devices in the host's
// memory (core/move_hooks.h). What a cell stands for never changes, so what was written once is true as long as the
// cell lives: its bytes can go again without being written again.
//
//   - A move begins with the lock and is waited for without it. Meanwhile the storage is held, so that nobody lets go
//     of it. Who got hold of the bytes meanwhile could have changed them: then the move was in vain, and they stay.
//   - Any thread may finish what others have begun. Where bytes could not be written they stay in the cell.
#pragma once

#include <memory>
#include <string>

#include "budget/cell.h"

namespace facula::budget {

/// A copy of the bytes of a cell. All but read() and wait() with the lock held, or by one thread alone.
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

// ---- without it

struct Finished {
  size_t gone = 0;      // bytes
  bool stayed = false;  // whether others have not gone, for which something else may go
};
/// Waits for the moves of a device.
Finished finish_moves(Device device);

}  // namespace facula::budget
