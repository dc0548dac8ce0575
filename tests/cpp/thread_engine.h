// An engine whose ranks are threads of one process: the last rank that comes to a transfer makes it for all, also when
// the others have given it up.
#pragma once

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "check.h"
#include "distributed/world.h"

namespace facula::distributed {

/// What the engines of one world share; memory of all ranks is read and written under its lock.
class Hub {
 public:
  /// One transfer of a group, as each of its ranks gave it.
  struct Meeting {
    explicit Meeting(size_t ranks) : parts(ranks) {}
    std::vector<Transfer> parts;
    size_t arrived = 0;
    bool done = false;
  };
  struct Message {
    int from, to;
    Transfer transfer;
    bool done = false;
  };
  struct Channel {
    std::vector<uint64_t> issued;  // by each rank
    std::map<uint64_t, std::shared_ptr<Meeting>> meetings;
    std::vector<std::shared_ptr<Message>> sends, receives;
  };

  std::mutex mutex;
  std::map<std::pair<int, std::vector<int>>, Channel> channels;

  static void arrive(Channel& channel, Meeting& meeting, size_t rank, const Transfer& t) {
    meeting.parts[rank] = t;
    if (++meeting.arrived < channel.issued.size()) return;
    complete(meeting.parts);
    meeting.done = true;
  }

  /// Pairs the first messages that go together.
  static void pair(Channel& channel) {
    for (const auto& send : channel.sends) {
      for (const auto& receive : channel.receives) {
        if (send->done || receive->done || send->from != receive->from || send->to != receive->to ||
            send->transfer.tag != receive->transfer.tag)
          continue;
        CHECK(send->transfer.count == receive->transfer.count);
        std::memcpy(receive->transfer.out, send->transfer.in, static_cast<size_t>(send->transfer.count));
        send->done = receive->done = true;
      }
    }
    for (auto* list : {&channel.sends, &channel.receives}) std::erase_if(*list, [](const auto& m) { return m->done; });
  }

 private:
  static void agree(const std::vector<Transfer>& parts) {
    Agreement all = *static_cast<const Agreement*>(parts[0].in);
    for (size_t r = 1; r < parts.size(); ++r) combine(*static_cast<const Agreement*>(parts[r].in), all);
    for (const Transfer& t : parts) *static_cast<Agreement*>(t.out) = all;
  }

  static void sum(const std::vector<Transfer>& parts) {
    std::vector<float> all(static_cast<size_t>(parts[0].count));
    for (const Transfer& t : parts)
      for (size_t i = 0; i < all.size(); ++i) all[i] += static_cast<const float*>(t.in)[i];
    for (const Transfer& t : parts) std::memcpy(t.out, all.data(), all.size() * sizeof(float));
  }

  static void complete(const std::vector<Transfer>& parts) {
    const Transfer& first = parts[0];
    const auto bytes = static_cast<size_t>(first.count);
    if (first.kind == Kind::Barrier) {
      agree(parts);
    } else if (first.kind == Kind::AllReduce) {
      CHECK(first.dtype == DType::Float32 && first.reduction == Reduction::Sum);
      sum(parts);
    } else if (first.kind == Kind::Broadcast) {
      const void* from = parts[static_cast<size_t>(first.root)].in;
      for (const Transfer& t : parts)
        if (t.out != from) std::memcpy(t.out, from, bytes);
    } else {
      CHECK(first.kind == Kind::AllGather);
      for (const Transfer& t : parts)
        for (size_t r = 0; r < parts.size(); ++r)
          std::memcpy(static_cast<char*>(t.out) + r * bytes, parts[r].in, bytes);
    }
  }
};

class ThreadEngine : public Engine {
 public:
  ThreadEngine(std::shared_ptr<Hub> hub, int rank, int size) : hub_(std::move(hub)), world_rank_(rank) {
    std::vector<int> all(static_cast<size_t>(size));
    for (int r = 0; r < size; ++r) all[static_cast<size_t>(r)] = r;
    make_group(all, -1);
  }

  Request issue(int group, const Transfer& transfer) override {
    std::scoped_lock lock(hub_->mutex);
    const auto& [channel, rank] = groups_.at(static_cast<size_t>(group));
    Ticket ticket;
    if (is_point_to_point(transfer.kind)) {
      const bool sends = transfer.kind == Kind::Send;
      const int me = static_cast<int>(rank);
      ticket.message = std::make_shared<Hub::Message>(
          Hub::Message{sends ? me : transfer.root, sends ? transfer.root : me, transfer});
      (sends ? channel->sends : channel->receives).push_back(ticket.message);
      Hub::pair(*channel);
    } else {
      auto& meeting = channel->meetings[channel->issued[rank]++];
      if (!meeting) meeting = std::make_shared<Hub::Meeting>(channel->issued.size());
      ticket.meeting = meeting;
      Hub::arrive(*channel, *meeting, rank, transfer);
    }
    tickets_[++last_] = ticket;
    return last_;
  }
  bool test(Request& request, Received& received) override {
    std::scoped_lock lock(hub_->mutex);
    const Ticket& ticket = tickets_.at(request);
    if (!(ticket.meeting ? ticket.meeting->done : ticket.message->done)) return false;
    if (ticket.message) received = {ticket.message->from, ticket.message->transfer.count};
    tickets_.erase(request);
    return true;
  }
  void progress() override {}
  int make_group(const std::vector<int>& ranks, int number) override {
    std::scoped_lock lock(hub_->mutex);
    Hub::Channel& channel = hub_->channels[{number, ranks}];
    channel.issued.resize(ranks.size());
    size_t rank = 0;
    while (ranks[rank] != world_rank_) ++rank;
    groups_.emplace_back(&channel, rank);
    return static_cast<int>(groups_.size()) - 1;
  }
  void abandon() override {}

 private:
  struct Ticket {
    std::shared_ptr<Hub::Meeting> meeting;
    std::shared_ptr<Hub::Message> message;
  };
  std::shared_ptr<Hub> hub_;
  int world_rank_;
  std::vector<std::pair<Hub::Channel*, size_t>> groups_;
  std::map<Request, Ticket> tickets_;
  Request last_ = 0;
};

}  // namespace facula::distributed
