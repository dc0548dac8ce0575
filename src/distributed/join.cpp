// How the ranks of a store become a world: MPI brings them together, while the store says who is lost.
#include <algorithm>
#include <future>

#include "distributed/control_log.h"
#include "distributed/processes.h"
#include "distributed/world.h"

namespace facula::distributed {

void announce(Store& store, int rank) {
  store.multi_set({key_of("who", rank), key_of(kWaits, rank)}, {process_name(), ""});
  constexpr int64_t kSilence = 1 << 30;  // its own thread gives signs of life later
  store.call({StoreOp::Will, {kLog}, {std::to_string(rank)}, kSilence}, 10);
}

std::string lost_one(Store& store) {
  if (!store.has({kLog})) return {};
  for (const std::string& line : split(store.get(kLog), '\n')) {
    if (line.rfind("lost ", 0) != 0) continue;
    const int rank = std::atoi(line.c_str() + 5);
    const std::string who = store.get(key_of("who", rank));
    return "rank " + std::to_string(rank) + " (" + who + ")" + end_of_process(who);
  }
  return {};
}

namespace {

constexpr std::chrono::milliseconds kLook(20);  // between looks whether somebody is gone, while MPI brings all together

/// For people; who it is as far as the store still says it.
std::string store_holder(Store& store) {
  if (served_by_launcher()) return "the launcher";
  try {
    return "rank 0 (" + store.get(key_of("who", 0)) + ")";
  } catch (const DistError&) {
    return "rank 0";
  }
}

/// Waits for MPI, and looks whether somebody is gone meanwhile.
std::unique_ptr<Engine> wait_for_engine(std::future<std::unique_ptr<Engine>>& engine, Store& watch, double timeout) {
  const std::string host = store_holder(watch);
  const auto look = [&] {
    try {
      return lost_one(watch);
    } catch (const NoAnswer&) {
      return std::string();
    } catch (const DistError&) {
      return host + ", which holds the store," + kGone;
    }
  };
  const Deadline deadline = Deadline::after(timeout);
  while (engine.wait_for(kLook) != std::future_status::ready) {
    Interruptible::check();
    if (const std::string lost = look(); !lost.empty()) fail(Trouble::Backend, "init_process_group: ", lost);
    if (deadline.passed())
      fail(Trouble::Backend, "init_process_group: MPI did not bring the ranks together within ", seconds_text(timeout),
           ", though all of them came: one may be stopped, or cannot be reached");
  }
  try {
    return engine.get();
  } catch (const DistError&) {  // somebody may be gone, of which the store hears as soon
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    if (const std::string lost = look(); !lost.empty()) fail(Trouble::Backend, "init_process_group: ", lost);
    throw;
  }
}

}  // namespace

std::shared_ptr<World> join_world(const std::shared_ptr<Store>& store, int rank, int size, double timeout, bool nccl) {
  // MPI waits for the others without a deadline: on a thread of its own, which is left behind when they do not come
  const auto made = std::make_shared<std::promise<std::unique_ptr<Engine>>>();
  auto engine = made->get_future();
  const auto own = store->clone(), watch = store->clone();
  for (const auto& s : {own, watch}) s->set_until(std::min(timeout, store->until()));
  std::thread([made, own, rank, size, timeout] {
    try {
      made->set_value(make_mpi_engine(own, rank, size, timeout));
    } catch (...) {
      made->set_exception(std::current_exception());
    }
  }).detach();
  watch->set_timeout(kShort);
  watch->set_grace(kShort);
  const auto end = [rank] {
    forget_shared_names();
    if (rank == 0 && !served_by_launcher()) std::this_thread::sleep_for(4 * kLook);  // with the store: others look, too
  };
  try {
    auto world = std::make_shared<World>(wait_for_engine(engine, *watch, timeout), store, rank, size, true, nccl);
    store->call({StoreOp::Will, {kLog}, {""}, -1}, kShort);  // the world's own connection tells from here on
    return world;
  } catch (const DistError& error) {
    end();
    if (error.trouble() != Trouble::Network) throw;
    const bool silent = dynamic_cast<const NoAnswer*>(&error);
    fail(Trouble::Backend, "init_process_group: ", store_holder(*watch), ", which holds the store,",
         silent ? " does not answer" : kGone, " (", error.what(), ")");
  } catch (...) {
    end();
    throw;
  }
}

}  // namespace facula::distributed
