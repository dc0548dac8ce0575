// Defines stores: keys and values that processes share, by which they find each other.
//
// Every call is a Request. A StoreTable answers it from its entries, or says for which key it has to wait. The kinds of
// stores differ in how a request gets to the table: HashStore has one in this process, TCPStore sends the request to
// the server (tcp_store.h), FileStore repeats a log in a file, and PrefixStore calls another store.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "distributed/socket.h"

namespace facula::distributed {

using Texts = std::vector<std::string>;

enum class StoreOp : uint8_t {
  Set,         // keys, values
  Get,         // keys -> values; waits for all of them
  Wait,        // keys; waits
  Add,         // key, number -> number: the sum
  CompareSet,  // key, expected and desired -> the value that is there then
  Check,       // keys -> number: whether all are there
  Delete,      // key -> number: whether it was there
  NumKeys,     // -> number
  ListKeys,    // -> values
  Append,      // key, value
  QueuePush,   // key, value
  QueuePop,    // key, number: whether to wait -> value
  QueueLen,    // key -> number
  WaitCount,   // key, number: waits until the number under the key is as large
  Will,        // key, value: the line "lost <value>" for the log under the key when the connection ends, "silent" when
               // no request comes for `number` seconds beyond what a request may wait, "back" when it is again;
               // a negative number revokes it
  Last = Will,
};

/// A log is text under a key; how many lines it has is the number under the key with this behind it.
constexpr const char* kLines = "/lines";

struct Request {
  StoreOp op;
  Texts keys, values;
  int64_t number = 0;
};

enum class Answer : uint8_t { Done, Waiting, Timeout, Empty, Refused };

struct Reply {
  Answer answer = Answer::Done;
  Texts values;  // of Waiting and Timeout: the key that is missing; of Refused: why
  int64_t number = 0;
};

std::string encode(const Request& request);
Request decode_request(std::string_view bytes);
std::string encode(const Reply& reply);
Reply decode_reply(std::string_view bytes);

/// Throws for a request whose parts do not go together.
void check_request(const Request& request);
/// Whether a request can change the table.
bool changes(const Request& request);

class StoreTable {
 public:
  Reply apply(const Request& request);

 private:
  bool has(const std::string& key) const { return values_.count(key) || queues_.count(key); }
  Reply get(const Request& request);
  Reply add(const Request& request);
  Reply compare_set(const Request& request);
  Reply pop(const Request& request);
  Reply wait_count(const Request& request);
  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, std::deque<std::string>> queues_;
};

class Store {
 public:
  static constexpr double kNever = 1e300;
  explicit Store(double timeout) : timeout_(timeout) {}
  virtual ~Store() = default;
  /// Answers within `timeout` seconds: Done, Timeout, Empty or Refused.
  virtual Reply call(const Request& request, double timeout) = 0;
  /// The same store by another connection, for another thread.
  virtual std::shared_ptr<Store> clone() = 0;
  /// How many seconds an answer may take beyond the time that a request may wait, where a process far away answers.
  virtual void set_grace(double) {}
  /// No answer is waited for longer than so many seconds from now, beside half a second, whatever requests say. A
  /// negative number ends that.
  virtual void set_until(double) {}
  virtual double until() const { return kNever; }  // seconds from now

  void set(const std::string& key, std::string value) { ask({StoreOp::Set, {key}, {std::move(value)}}); }
  void multi_set(Texts keys, Texts values) { ask({StoreOp::Set, std::move(keys), std::move(values)}); }
  std::string get(const std::string& key) { return ask({StoreOp::Get, {key}}).values.at(0); }
  Texts multi_get(Texts keys) { return ask({StoreOp::Get, std::move(keys)}).values; }
  void wait(Texts keys, double timeout) { ask({StoreOp::Wait, std::move(keys)}, timeout); }
  int64_t add(const std::string& key, int64_t amount) { return ask({StoreOp::Add, {key}, {}, amount}).number; }
  std::string compare_set(const std::string& key, std::string expected, std::string desired) {
    return ask({StoreOp::CompareSet, {key}, {std::move(expected), std::move(desired)}}).values.at(0);
  }
  bool has(Texts keys) { return ask({StoreOp::Check, std::move(keys)}).number != 0; }
  bool delete_key(const std::string& key) { return ask({StoreOp::Delete, {key}}).number != 0; }
  int64_t num_keys() { return ask({StoreOp::NumKeys}).number; }
  Texts list_keys() { return ask({StoreOp::ListKeys}).values; }
  void append(const std::string& key, std::string value) { ask({StoreOp::Append, {key}, {std::move(value)}}); }
  void queue_push(const std::string& key, std::string value) { ask({StoreOp::QueuePush, {key}, {std::move(value)}}); }
  std::string queue_pop(const std::string& key, bool block) {
    return ask({StoreOp::QueuePop, {key}, {}, block}).values.at(0);
  }
  int64_t queue_len(const std::string& key) { return ask({StoreOp::QueueLen, {key}}).number; }
  void wait_count(const std::string& key, int64_t count, double timeout) {
    ask({StoreOp::WaitCount, {key}, {}, count}, timeout);
  }
  /// Waits until `world_size` processes are here; one key serves once.
  void barrier(const std::string& key, int64_t world_size, double timeout);

  double timeout() const { return timeout_; }
  void set_timeout(double seconds) { timeout_ = seconds; }

 private:
  Reply ask(const Request& request) { return ask(request, timeout_); }
  /// call(), with what is not Done as an exception.
  Reply ask(const Request& request, double timeout);
  double timeout_;
};

class HashStore final : public Store {
 public:
  explicit HashStore(double timeout = 300) : Store(timeout), shared_(std::make_shared<Shared>()) {}
  Reply call(const Request& request, double timeout) override;
  std::shared_ptr<Store> clone() override { return std::shared_ptr<Store>(new HashStore(*this)); }

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    StoreTable table;
  };
  std::shared_ptr<Shared> shared_;
};

class PrefixStore final : public Store {
 public:
  PrefixStore(std::string prefix, std::shared_ptr<Store> store);
  Reply call(const Request& request, double timeout) override;
  std::shared_ptr<Store> clone() override;
  void set_grace(double seconds) override { store_->set_grace(seconds); }
  void set_until(double seconds) override { store_->set_until(seconds); }
  double until() const override { return store_->until(); }

 private:
  std::string prefix_;
  std::shared_ptr<Store> store_;
};

std::shared_ptr<Store> make_file_store(const std::string& path, int64_t world_size);

}  // namespace facula::distributed
