#include "budget/moved.h"

#include <algorithm>

#include "budget/budget.h"
#include "budget/choose.h"
#include "budget/move.h"
#include "budget/report.h"
#include "core/backend.h"
#include "core/budget_bound.h"
#include "core/kernel.h"
#include "core/move_hooks.h"

namespace facula::budget {
namespace {

constexpr uint64_t kLatency = 100'000;  // ns, of one transfer of a file however small

std::atomic<MoveFile*> file{nullptr};
std::atomic<bool> full{false};  // the last write has failed, and nothing has been given up since
std::atomic<double> price{1};

uint64_t priced(double seconds, uint64_t latency) {
  return static_cast<uint64_t>(price.load() * (1e9 * seconds + static_cast<double>(latency)));
}

class InFile final : public Moved {
 public:
  InFile(MoveFile& file, const void* data, size_t bytes)
      : file_(file), ticket_(file.write(data, bytes)), bytes_(static_cast<double>(bytes)) {}
  ~InFile() override {
    if (file_.is_written(*ticket_)) full = false;
    file_.drop(ticket_);
  }
  bool is_there() const override { return file_.can_read(*ticket_); }
  bool failed() const override { return file_.failed(*ticket_); }
  void wait() override { file_.wait(*ticket_); }
  void read(void* to) override { file_.read(*ticket_, to); }
  uint64_t read_ns() const override { return priced(bytes_ / file_.read_rate(), kLatency); }

 private:
  MoveFile& file_;
  MoveFile::Ticket* ticket_;
  double bytes_;
};

class InHost;
/// Those whose bytes are being brought back ahead; with the lock held.
std::vector<InHost*>& fetched() {
  static auto* all = new std::vector<InHost*>;
  return *all;
}

class InHost final : public Moved {
 public:
  InHost(Device device, DeviceMove* move, size_t bytes)
      : device_(device), hooks_(move_hooks_of(device)), move_(move), bytes_(static_cast<double>(bytes)) {}
  ~InHost() override {
    if (const Ref<Storage> into = take()) hooks_.finish_back(move_);
    hooks_.drop(move_);
  }
  bool is_there() const override { return hooks_.is_out(move_); }
  bool failed() const override { return false; }
  void wait() override { hooks_.wait(move_); }
  void read(void* to) override {
    hooks_.begin_back(move_, to);
    hooks_.finish_back(move_);
  }
  uint64_t read_ns() const override { return time_of(device_, bytes_); }
  static uint64_t time_of(Device device, double bytes) {
    return priced(bytes / move_hooks_of(device).rate(device, true), 0);
  }

  void fetch(const Ref<Storage>& into) override {
    hooks_.begin_back(move_, into->data);
    const Locked locked;
    stream_ = current_stream(device_);
    into_ = into;
    fetched().push_back(this);
  }
  Ref<Storage> take_fetched() override {
    Ref<Storage> into = take();
    if (!into) return {};
    hooks_.finish_back(move_);
    return current_stream(device_) == stream_ ? into : Ref<Storage>();
  }
  /// The same for nobody, with the lock held; who calls takes it off the list.
  size_t give_up(Locked& locked) {
    hooks_.finish_back(move_);  // what is queued later finds the block free
    const size_t bytes = into_->nbytes;
    locked.dead.storages.push_back(std::exchange(into_, Ref<Storage>()));
    return bytes;
  }
  Device device() const { return device_; }

 private:
  Ref<Storage> take() {
    const Locked locked;
    std::erase(fetched(), this);
    return std::exchange(into_, Ref<Storage>());
  }

  const Device device_;
  const MoveHooks& hooks_;
  DeviceMove* move_;
  const double bytes_;
  Stream stream_{};
  Ref<Storage> into_;
};

/// A move that has begun.
struct Move {
  Ref<Cell> cell;
  Ref<Storage> storage;
  std::shared_ptr<Moved> moved;
  bool leaves;  // whether the bytes go as soon as they are there
  uint64_t began = clock_ns();
  bool is_over = false;
  size_t gone = 0;
};
using Moves = std::vector<std::shared_ptr<Move>>;

/// Of all threads; with the lock held.
Moves& moves() {
  static auto* all = new Moves;
  return *all;
}
Moves moves_of(Device device) {
  Moves some;
  std::ranges::copy_if(moves(), std::back_inserter(some), [&](const auto& m) { return m->cell->device == device; });
  return some;
}

/// Whether nobody has been able to change the bytes since the move began.
bool is_true(const Move& move) {
  const Cell& cell = *move.cell;
  const Storage* s = move.storage.get();
  return cell.is_here() && cell.storage == s && s->refs.load() == 2 && s->exposures.load() == 0 &&
         s->current_version() == cell.version;
}

void note_away(const Move& move) {
  const Cell& cell = *move.cell;
  const MadeBy by{cell.step->op->id, cell.step->place};
  Report& report = report_of(cell.device);
  report.note_moved(by, cell.bytes, false, move.leaves ? clock_ns() - move.began : 0);
  if (move.leaves) report.note_let_go(by, cell.result.sizes, cell.result.dtype, cell.bytes, Cause::MovedAway);
}

/// With the lock held; the bytes are there, or the move has failed.
void end(const std::shared_ptr<Move>& move, Locked& locked) {
  std::erase(moves(), move);
  locked.dead.others.push_back(move);
  move->is_over = true;
  if (!move->moved->is_there()) {
    full = move->leaves;
  } else if (is_true(*move)) {
    Cell& cell = *move->cell;
    note_away(*move);
    locked.dead.others.push_back(std::exchange(cell.moved, move->moved));
    if (move->leaves) {
      move->gone = cell.bytes;
      take_away(cell, locked);
    } else {
      move->storage = nullptr;  // the cell has it alone again, and can let go of it
    }
  }
  if (move->storage) locked.dead.storages.push_back(std::move(move->storage));
}

/// A file that is not used any more gives its bytes back to the disk.
void use(MoveFile* next) {
  MoveFile* before = nullptr;
  {
    const Locked locked;
    full = false;
    before = file.exchange(next);
  }
  if (before && before != next) before->trim();
}

}  // namespace

bool Cell::can_be_read() const { return moved && moved->is_there(); }

void set_folder(const std::string& folder) { use(folder.empty() ? nullptr : MoveFile::of_folder(folder)); }
void set_folder_of_environment() { use(MoveFile::of_environment()); }
std::string folder() {
  const MoveFile* used = file.load();
  return used ? used->folder() : std::string();
}
double set_move_price(double factor) { return price.exchange(factor); }

// ---- moves that somebody waits for

uint64_t move_ns(const Cell& cell) {
  if (cell.can_be_read()) return cell.moved->read_ns();
  const MoveFile* used = file.load();
  if (!used || full || !cell.device.is_cpu()) return kNever;
  const auto bytes = static_cast<double>(cell.bytes);
  return priced(bytes / used->write_rate() + bytes / used->read_rate(), 2 * kLatency);
}

void begin_move(Cell& cell) {
  auto moved = std::make_shared<InFile>(*file.load(), cell.storage->data, cell.bytes);
  moves().push_back(
      std::make_shared<Move>(Move{Ref<Cell>::share(&cell), Ref<Storage>::share(cell.storage), std::move(moved), true}));
}

size_t wait_for_moves(Device device, Locked& locked) {
  for (const auto& move : moves_of(device))
    if (move->moved->is_there() || move->moved->failed()) end(move, locked);
  size_t gone = 0;
  std::erase_if(fetched(), [&](InHost* moved) {
    if (moved->device() != device) return false;
    gone += moved->give_up(locked);
    return true;
  });
  return gone;
}

Finished finish_moves(Device device) {
  Moves begun;
  {
    const Locked locked;
    begun = moves_of(device);
  }
  Finished finished;
  if (begun.empty()) return finished;
  for (const auto& move : begun) move->moved->wait();
  Locked locked;
  for (const auto& move : begun) {
    if (!move->is_over) end(move, locked);
    finished.gone += move->gone;
    finished.stayed = finished.stayed || move->gone == 0;
  }
  return finished;
}

Ref<Storage> read_back(const Cell& cell, Moved& moved) {
  if (Ref<Storage> bytes = moved.take_fetched()) return bytes;
  const Tensor bytes = empty({static_cast<int64_t>(cell.bytes)}, DType::UInt8, cell.device);
  moved.read(bytes.storage()->data);
  return Ref<Storage>::share(bytes.storage());
}

// ---- moves beside other work

namespace {

std::array<std::atomic<bool>, kMostDevices + 1> is_short{};  // of memory, in this forward pass

/// What is copied away next, and its storage; none where nothing is worth it.
std::pair<Ref<Cell>, Ref<Storage>> next_ahead(Device device) {
  Locked locked;
  for (const auto& move : moves_of(device))
    if (move->moved->is_there()) end(move, locked);
  Cell* cell = dearest(device);
  if (!cell) return {};
  return {Ref<Cell>::share(cell), Ref<Storage>::share(cell->storage)};
}

/// Values that are wanted next, as far as their bytes are not on the way: saved ones are listed last first.
std::vector<std::pair<Ref<Cell>, std::shared_ptr<Moved>>> next_back(const Cell& cell) {
  constexpr int kAhead = 2, kLooks = 16;
  std::vector<std::pair<Ref<Cell>, std::shared_ptr<Moved>>> next;
  const Locked locked;
  int ahead = 0, looks = 0;
  for (Cell* one = cell.after; one && looks < kLooks && ahead < kAhead; one = one->after, ++looks) {
    if (one->device != cell.device || !one->is_gone() || !one->can_be_read()) continue;
    ++ahead;
    const bool comes = std::ranges::any_of(fetched(), [&](const InHost* moved) { return moved == one->moved.get(); });
    if (!comes) next.emplace_back(Ref<Cell>::share(one), one->moved);
  }
  return next;
}

}  // namespace

uint64_t read_ns_from_host(const Cell& cell) { return InHost::time_of(cell.device, static_cast<double>(cell.bytes)); }

void move_ahead(Device device) {
  std::atomic<bool>& wanted = is_short[number_of(device)];
  const MoveHooks& hooks = move_hooks_of(device);
  if (!wanted.load(std::memory_order_relaxed) || !hooks.begin_out || hooks.is_busy(device)) return;
  const auto [cell, storage] = next_ahead(device);
  DeviceMove* copy = cell ? hooks.begin_out(device, storage->data, cell->bytes) : nullptr;
  if (!copy) {
    wanted = false;  // until memory is short again
    return;
  }
  auto moved = std::make_shared<InHost>(device, copy, cell->bytes);
  const Locked locked;
  moves().push_back(std::make_shared<Move>(Move{cell, storage, std::move(moved), false}));
}

void fetch_next(const Cell& cell) {
  const Device device = cell.device;
  const size_t bound = budget_of(device);
  if (!device.is_cuda() || bound == 0 || move_hooks_of(device).is_busy(device)) return;
  for (const auto& [one, moved] : next_back(cell)) {
    if (budget_bounds[static_cast<size_t>(device.type)].held(device) + one->bytes > bound - bound / 16) return;
    try {
      const Tensor bytes = empty({static_cast<int64_t>(one->bytes)}, DType::UInt8, device);
      moved->fetch(Ref<Storage>::share(bytes.storage()));
    } catch (const Error&) {  // no room in one piece: who wants the bytes reads them, or says so
      return;
    }
  }
}

void note_short(Device device) {
  if (device.is_cuda()) is_short[number_of(device)] = true;
}
void end_moves_ahead() {
  for (std::atomic<bool>& wanted : is_short) wanted = false;
  each_budget([](Device device) {
    Locked locked;
    wait_for_moves(device, locked);
  });
}

}  // namespace facula::budget
