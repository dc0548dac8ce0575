#include "distributed/store.h"

#include <algorithm>
#include <charconv>

#include "core/checked.h"
#include "distributed/wire.h"

namespace facula::distributed {
namespace {

// what a request of each kind must have: fewest and most keys, values for each key
constexpr int kMany = 1 << 24;
struct Form {
  StoreOp op;
  int least, most, values;
  bool changes;
};
constexpr Form kForms[] = {
    {StoreOp::Set, 0, kMany, 1, true},   {StoreOp::Get, 0, kMany, 0, false},   {StoreOp::Wait, 0, kMany, 0, false},
    {StoreOp::Add, 1, 1, 0, true},       {StoreOp::CompareSet, 1, 1, 2, true}, {StoreOp::Check, 0, kMany, 0, false},
    {StoreOp::Delete, 1, 1, 0, true},    {StoreOp::NumKeys, 0, 0, 0, false},   {StoreOp::ListKeys, 0, 0, 0, false},
    {StoreOp::Append, 1, 1, 1, true},    {StoreOp::QueuePush, 1, 1, 1, true},  {StoreOp::QueuePop, 1, 1, 0, true},
    {StoreOp::QueueLen, 1, 1, 0, false}, {StoreOp::WaitCount, 1, 1, 0, false}, {StoreOp::Will, 1, 1, 1, false},
};
const Form& form_of(StoreOp op) {
  const auto i = static_cast<size_t>(op);
  if (i >= std::size(kForms)) fail(Trouble::Network, "store: received a request of a kind that there is not, ", i);
  return kForms[i];
}

bool parse(const std::string& text, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

std::string listed(const Texts& keys) {
  std::string text;
  for (size_t i = 0; i < keys.size() && i < 8; ++i) text += (i ? ", '" : "'") + keys[i] + "'";
  return keys.size() > 8 ? text + ", ..." : text;
}

Reply one(std::string value) { return {Answer::Done, {std::move(value)}}; }
Reply count(int64_t n) { return {Answer::Done, {}, n}; }

}  // namespace

std::string encode(const Request& request) {
  Writer w;
  w.number(static_cast<uint8_t>(request.op));
  w.number(request.number);
  w.texts(request.keys);
  w.texts(request.values);
  return w.take();
}

Request decode_request(std::string_view bytes) {
  Reader r(bytes);
  Request request{static_cast<StoreOp>(r.number<uint8_t>())};
  request.number = r.number<int64_t>();
  request.keys = r.texts();
  request.values = r.texts();
  r.end();
  check_request(request);
  return request;
}

std::string encode(const Reply& reply) {
  Writer w;
  w.number(static_cast<uint8_t>(reply.answer));
  w.number(reply.number);
  w.texts(reply.values);
  return w.take();
}

Reply decode_reply(std::string_view bytes) {
  Reader r(bytes);
  Reply reply{static_cast<Answer>(r.number<uint8_t>())};
  reply.number = r.number<int64_t>();
  reply.values = r.texts();
  r.end();
  return reply;
}

void check_request(const Request& request) {
  const Form& form = form_of(request.op);
  const auto keys = static_cast<int64_t>(request.keys.size());
  FACULA_CHECK(
      keys >= form.least && keys <= form.most && static_cast<int64_t>(request.values.size()) == keys * form.values,
      ErrorKind::Value, "store: expected as many values as keys, got ", keys, " keys and ", request.values.size(),
      " values");
}

bool changes(const Request& request) { return form_of(request.op).changes; }

// ---- the table

Reply StoreTable::apply(const Request& request) {
  const auto key = [&]() -> const std::string& { return request.keys[0]; };
  switch (request.op) {
    case StoreOp::Set:
      for (size_t i = 0; i < request.keys.size(); ++i) values_[request.keys[i]] = request.values[i];
      return {};
    case StoreOp::Get: return get(request);
    case StoreOp::Wait:
      for (const std::string& k : request.keys)
        if (!has(k)) return {Answer::Waiting, {k}};
      return {};
    case StoreOp::Add: return add(request);
    case StoreOp::CompareSet: return compare_set(request);
    case StoreOp::Check:
      return count(std::all_of(request.keys.begin(), request.keys.end(), [&](auto& k) { return has(k); }));
    case StoreOp::Delete: return count(values_.erase(key()) + queues_.erase(key()) > 0);
    case StoreOp::NumKeys: return count(static_cast<int64_t>(values_.size() + queues_.size()));
    case StoreOp::ListKeys: {
      Reply reply;
      for (const auto& [k, _] : values_) reply.values.push_back(k);
      for (const auto& [k, _] : queues_) reply.values.push_back(k);
      return reply;
    }
    case StoreOp::Append: values_[key()] += request.values[0]; return {};
    case StoreOp::QueuePush: queues_[key()].push_back(request.values[0]); return {};
    case StoreOp::QueuePop: return pop(request);
    case StoreOp::QueueLen: {
      const auto found = queues_.find(key());
      return count(found == queues_.end() ? 0 : static_cast<int64_t>(found->second.size()));
    }
    case StoreOp::WaitCount: return wait_count(request);
    case StoreOp::Will: break;
  }
  return {Answer::Refused, {"this kind of store does not know who is connected"}};
}

Reply StoreTable::get(const Request& request) {
  Reply reply;
  for (const std::string& k : request.keys) {
    const auto found = values_.find(k);
    if (found == values_.end()) return {Answer::Waiting, {k}};
    reply.values.push_back(found->second);
  }
  return reply;
}

Reply StoreTable::add(const Request& request) {
  int64_t number = 0;
  const auto found = values_.find(request.keys[0]);
  if (found != values_.end() && !parse(found->second, number))
    return {Answer::Refused,
            {"add: the value under '" + request.keys[0] + "' is no number, got '" + found->second.substr(0, 40) + "'"}};
  const Checked sum = Checked(number) + Checked(request.number);
  if (!sum.fits())
    return {Answer::Refused,
            {"add: the sum must fit in 64 bits, got '" + request.keys[0] + "' = " + std::to_string(number) + " and " +
             std::to_string(request.number)}};
  number = sum.value_or(0);
  values_[request.keys[0]] = std::to_string(number);
  return count(number);
}

Reply StoreTable::compare_set(const Request& request) {
  const std::string &expected = request.values[0], &desired = request.values[1];
  const auto found = values_.find(request.keys[0]);
  if (found == values_.end()) {
    if (!expected.empty()) return one(expected);  // as PyTorch's: the expected value, which is not there
    return one(values_[request.keys[0]] = desired);
  }
  if (found->second == expected) found->second = desired;
  return one(found->second);
}

Reply StoreTable::pop(const Request& request) {
  const auto found = queues_.find(request.keys[0]);
  if (found == queues_.end()) return request.number ? Reply{Answer::Waiting, {request.keys[0]}} : Reply{Answer::Empty};
  Reply reply = one(std::move(found->second.front()));
  found->second.pop_front();
  if (found->second.empty()) queues_.erase(found);
  return reply;
}

Reply StoreTable::wait_count(const Request& request) {
  int64_t number = 0;
  const auto found = values_.find(request.keys[0]);
  if (found != values_.end() && parse(found->second, number) && number >= request.number) return count(number);
  return {Answer::Waiting, {request.keys[0]}, number};
}

// ---- any store

Reply Store::ask(const Request& request, double timeout) {
  check_request(request);
  Reply reply = call(request, timeout);
  switch (reply.answer) {
    case Answer::Done: return reply;
    case Answer::Empty: fail(Trouble::QueueEmpty, "queue_pop: the queue '", request.keys[0], "' is empty");
    case Answer::Refused: fail(Trouble::Store, reply.values.empty() ? "store: refused" : reply.values[0]);
    default: break;
  }
  const std::string reached = request.op == StoreOp::WaitCount ? " (" + std::to_string(reply.number) + " of " +
                                                                     std::to_string(request.number) + " came)"
                                                               : "";
  fail(Trouble::Store, "wait timeout after ", static_cast<int64_t>(timeout * 1e3), "ms, keys: ", listed(request.keys),
       "; no process set ", reply.values.empty() ? "them" : listed(reply.values), reached);
}

void Store::barrier(const std::string& key, int64_t world_size, double timeout) {
  add(key, 1);
  wait_count(key, world_size, timeout);
}

Reply HashStore::call(const Request& request, double timeout) {
  const Deadline deadline = Deadline::after(timeout);
  std::unique_lock lock(shared_->mutex);
  for (;;) {
    Reply reply = shared_->table.apply(request);
    if (reply.answer != Answer::Waiting) {
      if (changes(request)) shared_->changed.notify_all();
      return reply;
    }
    if (deadline.passed()) return reply.answer = Answer::Timeout, reply;
    shared_->changed.wait_for(lock, std::chrono::milliseconds(deadline.milliseconds_left(100)));
    lock.unlock();
    Interruptible::check();
    lock.lock();
  }
}

PrefixStore::PrefixStore(std::string prefix, std::shared_ptr<Store> store)
    : Store(store->timeout()), prefix_(std::move(prefix) + "/"), store_(std::move(store)) {}

Reply PrefixStore::call(const Request& request, double timeout) {
  Request prefixed = request;
  for (std::string& key : prefixed.keys) key.insert(0, prefix_);
  return store_->call(prefixed, timeout);
}

std::shared_ptr<Store> PrefixStore::clone() {
  auto copy = std::make_shared<PrefixStore>("", store_->clone());
  copy->prefix_ = prefix_;
  copy->set_timeout(timeout());
  return copy;
}

}  // namespace facula::distributed
