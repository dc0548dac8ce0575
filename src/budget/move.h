// Moves bytes to a file if they take longer to compute again than to read back. The file has no name, so nothing is
// left of it however the process ends. It is read and written past the system's page cache where the file system
// supports this (direct I/O), because cached pages would be the very memory that is needed.
//
// One thread writes, in the order of the calls; whoever needs bytes back reads them itself. A place in the file is the
// smallest gap between those that are in use, or else the end of the file. Nothing here runs ops, calls an allocator or
// takes the interpreter's lock, so all of it may be called from inside of an allocation.
//
// A forked child uses the same folder but has a file of its own. The bytes that its parent has moved are not there,
// which is reported.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace facula::budget {

class MoveFile {
 public:
  struct Ticket;

  /// The process's file in a folder, made when it is first needed; it lives until the end. Throws where no file can
  /// be made and written there. `direct`: with direct I/O where there is some; tests say false.
  static MoveFile* of_folder(const std::string& folder, bool direct = true);
  /// The same for the folder that FACULA_BUDGET_DIR names; null where it names none.
  static MoveFile* of_environment();

  /// Begins to write bytes, which stay until is_written(), failed() or drop(). Never throws: what cannot be written
  /// gives a ticket that has failed.
  Ticket* write(const void* data, size_t bytes);
  bool is_written(const Ticket& ticket) const;
  /// Whether the bytes are not in the file and will not be.
  bool failed(const Ticket& ticket) const;
  /// Whether the bytes are in the file of this process.
  bool can_read(const Ticket& ticket) const;
  /// Returns when the ticket is written or has failed.
  void wait(Ticket& ticket);
  /// Brings the bytes back; the ticket stays. Waits where they are being written.
  void read(Ticket& ticket, void* to);
  /// Ends a ticket: afterwards its bytes are not looked at any more, and its place is used again.
  void drop(Ticket* ticket);
  /// Gives what lies behind the last place in use back to the disk.
  void trim();

  /// Bytes per second, of the last transfers above all; a guess before the first.
  double write_rate() const;
  double read_rate() const;
  /// How far places reach, and how many bytes of that are in use.
  uint64_t length() const;
  uint64_t used() const;
  bool is_direct() const { return direct_; }
  const std::string& folder() const { return folder_; }

  MoveFile(const MoveFile&) = delete;

 private:
  struct Files;  // all of them, around fork() and at the end of the process
  class Bounce {
   public:
    char* memory();  // null where there is none
    void forget();
    std::mutex mutex;

   private:
    char* memory_ = nullptr;
  };

  MoveFile(const std::string& folder, bool direct) : folder_(folder), wants_direct_(direct) {}
  static Ticket& no_memory();
  int open_file();  // 0 or an error of the system
  bool start();
  void place(Ticket* ticket);
  void unplace(Ticket* ticket);
  void work_off();
  int write_out(Ticket& ticket);
  int write_piece(const char* data, size_t bytes, uint64_t at, bool aligned);
  int read_piece(char* to, size_t bytes, uint64_t at, bool aligned);
  int leave_cache(uint64_t at, size_t bytes, bool written);
  void become_child();
  size_t rounded(size_t bytes) const { return (bytes + unit_ - 1) / unit_ * unit_; }

  const std::string folder_;
  const bool wants_direct_;
  int file_ = -1;
  bool direct_ = false;
  size_t unit_ = 4096, memory_unit_ = 4096;  // of places and of addresses, for direct I/O

  mutable std::mutex mutex_;
  std::condition_variable changed_, done_;
  Ticket *first_placed_ = nullptr, *last_placed_ = nullptr;    // by place: what is between them is free
  Ticket *first_waiting_ = nullptr, *last_waiting_ = nullptr;  // to be written
  Ticket* writing_ = nullptr;
  bool cancelled_ = false;  // what is being written is not wanted any more
  bool ends_ = false;
  uint64_t used_ = 0, reserved_ = 0;
  unsigned life_ = 0;  // how many forks lie behind this process
  std::thread thread_;

  Bounce writes_, reads_;  // for memory that direct I/O does not take
  std::atomic<double> write_rate_{1e9}, read_rate_{1e9};
  std::atomic<bool> write_rate_known_{false}, read_rate_known_{false};
};

}  // namespace facula::budget
