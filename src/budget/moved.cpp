#include "budget/moved.h"

#include "budget/move.h"
#include "budget/report.h"

namespace facula::budget {
namespace {

constexpr uint64_t kLatency = 100'000;  // ns, of one transfer however small

std::atomic<MoveFile*> file{nullptr};
std::atomic<bool> full{false};  // the last write has failed, and nothing has been given up since
std::atomic<double> price{1};

uint64_t priced(double seconds, int transfers) {
  return static_cast<uint64_t>(price.load() * (1e9 * seconds + static_cast<double>(kLatency) * transfers));
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
  uint64_t read_ns() const override { return priced(bytes_ / file_.read_rate(), 1); }

 private:
  MoveFile& file_;
  MoveFile::Ticket* ticket_;
  double bytes_;
};

/// A move that has begun.
struct Move {
  Ref<Cell> cell;
  Ref<Storage> storage;
  std::shared_ptr<Moved> moved;
  uint64_t began;
  bool is_over = false;
  size_t gone = 0;
};
/// Of all threads; with the lock held.
std::vector<std::shared_ptr<Move>>& moves() {
  static auto* all = new std::vector<std::shared_ptr<Move>>;
  return *all;
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
  report.note_moved(by, cell.bytes, false, clock_ns() - move.began);
  report.note_let_go(by, cell.result.sizes, cell.result.dtype, cell.bytes, Cause::MovedAway);
}

/// With the lock held; the move's result is there, or has failed.
void end(Move& move, Locked& locked) {
  move.is_over = true;
  std::erase_if(moves(), [&](const auto& m) { return m.get() == &move; });
  if (!move.moved->is_there()) {
    full = true;
  } else if (is_true(move)) {
    Cell& cell = *move.cell;
    note_away(move);
    move.gone = cell.bytes;
    if (cell.moved) locked.dead.moved.push_back(std::move(cell.moved));
    cell.moved = move.moved;
    take_away(cell, locked);
  }
  locked.dead.storages.push_back(std::move(move.storage));
}

/// Returns the folder before. A file that is not used any more gives its bytes back to the disk.
void use(MoveFile* next) {
  full = false;
  if (MoveFile* before = file.exchange(next); before && before != next) before->trim();
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

uint64_t move_ns(const Cell& cell) {
  if (cell.can_be_read()) return cell.moved->read_ns();
  const MoveFile* used = file.load();
  if (!used || full || !cell.device.is_cpu()) return kNever;
  const auto bytes = static_cast<double>(cell.bytes);
  return priced(bytes / used->write_rate() + bytes / used->read_rate(), 2);
}

void begin_move(Cell& cell) {
  auto move =
      std::make_shared<Move>(Move{.cell = Ref<Cell>::share(&cell),
                                  .storage = Ref<Storage>::share(cell.storage),
                                  .moved = std::make_shared<InFile>(*file.load(), cell.storage->data, cell.bytes),
                                  .began = clock_ns()});
  moves().push_back(std::move(move));
}

Finished finish_moves(Device device) {
  std::vector<std::shared_ptr<Move>> begun;
  {
    const Locked locked;
    for (const auto& move : moves())
      if (move->cell->device == device) begun.push_back(move);
  }
  Finished finished;
  if (begun.empty()) return finished;
  for (const auto& move : begun) move->moved->wait();
  Locked locked;
  for (const auto& move : begun) {
    if (!move->is_over) end(*move, locked);
    finished.gone += move->gone;
    finished.stayed = finished.stayed || move->gone == 0;
  }
  return finished;
}

}  // namespace facula::budget
