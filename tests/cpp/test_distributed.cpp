// Worlds whose ranks are threads, on an engine of threads. Meant for the thread and address sanitizers.
#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstring>
#include <random>

#include "autograd/engine.h"
#include "cpu/backend.h"
#include "distributed/reducer.h"
#include "functions.h"
#include "stores.h"
#include "thread_engine.h"

namespace {

using namespace facula;
using namespace facula::distributed;
using namespace std::chrono_literals;

/// Runs `body(world)` for each of `running` ranks, of `size`, with a store of their own.
template <class F>
void as_ranks(int size, int running, const std::shared_ptr<TcpStore>& master, F body) {
  const auto hub = std::make_shared<Hub>();
  in_threads(running, [&](int rank) {
    const auto store = std::make_shared<PrefixStore>("job", client_of(*master));
    announce(*store, rank);
    const auto world =
        std::make_shared<World>(std::make_unique<ThreadEngine>(hub, rank, size), store, rank, size, true);
    store->call({StoreOp::Will, {"log"}, {""}, -1}, 1);  // the world's own connection tells from here on
    body(*world);
    world->leave();
  });
}
template <class F>
void as_ranks(int size, F body) {
  as_ranks(size, size, served(), body);
}

Tensor filled(int64_t n, float value) {
  Tensor t = empty({n}, DType::Float32);
  std::fill_n(t.data<float>(), n, value);
  return t;
}
bool all_are(const Tensor& t, float value) {
  return std::all_of(t.data<float>(), t.data<float>() + t.numel(), [&](float v) { return v == value; });
}

Call all_reduce(const Tensor& t, double timeout = 60) {
  Call call{.kind = Kind::AllReduce, .name = "all_reduce", .in = {}, .out = {t}};
  call.timeout = timeout;
  return call;
}
Call message_call(Kind kind, const Tensor& t, int peer, int tag) {
  Call call{.kind = kind, .name = kind == Kind::Send ? "send" : "recv", .in = {}, .out = {}};
  (kind == Kind::Send ? call.in : call.out) = {t};
  call.root = peer;
  call.tag = tag;
  return call;
}

void reduce_again_and_again(World& world) {
  const auto ranks = static_cast<float>(world.size());
  for (int i = 0; i < 20; ++i) {
    const Tensor t = filled(i % 5 ? 100 : 700'000, static_cast<float>(world.rank() + i));  // three pieces
    const auto op = world.submit(world.everybody(), all_reduce(t));
    std::thread other([&] { world.wait(*op); });
    world.wait(*op);
    other.join();
    EXPECT(all_are(t, ranks * static_cast<float>(i) + ranks * (ranks - 1) / 2));
  }
}

/// Operations that follow each other unwaited, and what is called when they are done.
void broadcast_in_a_row(World& world, const std::shared_ptr<Group>& group) {
  std::atomic<int> called = 0;
  std::vector<Tensor> tensors;
  std::vector<std::shared_ptr<Operation>> operations;
  for (int i = 0; i < 30; ++i) {
    tensors.push_back(filled(50, static_cast<float>(group->rank + i)));
    Call call{.kind = Kind::Broadcast, .name = "broadcast", .in = {}, .out = {tensors.back()}};
    call.root = i % group->size();
    operations.push_back(world.submit(group, std::move(call)));
    world.when_done(operations.back(), [&] { ++called; });
  }
  for (const auto& op : operations) world.wait(*op);
  for (int i = 0; i < 30; ++i)
    EXPECT(all_are(tensors[static_cast<size_t>(i)], static_cast<float>(i % group->size() + i)));
  while (called < 30) std::this_thread::yield();
}

void pass_around(World& world) {
  const int next = (world.rank() + 1) % world.size(), before = (world.rank() + world.size() - 1) % world.size();
  for (int i = 0; i < 20; ++i) {
    const Tensor mine = filled(10 + i, static_cast<float>(world.rank())), got = filled(10 + i, -1);
    const auto sent = world.submit(world.everybody(), message_call(Kind::Send, mine, next, i));
    const auto received = world.submit(world.everybody(), message_call(Kind::Recv, got, before, i));
    world.wait(*received);
    world.wait(*sent);
    EXPECT(all_are(got, static_cast<float>(before)));
  }
}

void test_threads_of_ranks_work_in_groups() {
  as_ranks(3, [](World& world) {
    const auto made = world.make_group({2, 0, 1}, "turned", false, 60, {});
    const auto local = world.make_group({0, 1, 2}, "local", true, 60, {});
    std::atomic<bool> done = false;
    std::thread observer([&] {
      while (!done) {
        for (const Record& r : world.records()) EXPECT(r.number < 1000);
        EXPECT(has(world.state(), "0\t"));
        std::this_thread::sleep_for(1ms);
      }
    });
    in_threads(4, [&](int i) {
      if (i == 0) reduce_again_and_again(world);
      else if (i == 1) broadcast_in_a_row(world, made);
      else if (i == 2) broadcast_in_a_row(world, local);
      else pass_around(world);
    });
    done = true;
    observer.join();
    world.drop_group(made);
    const auto barrier = world.submit(world.everybody(), {.kind = Kind::Barrier, .name = "barrier"});
    world.wait(*barrier);
    EXPECT(has(error_of([&] { world.submit(made, {.kind = Kind::Barrier, .name = "barrier"}); }), "it was destroyed"));
  });
}

void test_ranks_that_call_different_things() {
  as_ranks(3, [](World& world) {
    const auto op = world.submit(world.everybody(), all_reduce(filled(world.rank() == 1 ? 4 : 3, 1)));
    const std::string error = error_of([&] { world.wait(*op); });
    EXPECT(has(error, "the ranks do not agree"));
    EXPECT(has(error, "ranks 0 2: all_reduce (float32[3], SUM)"));
    const Tensor t = filled(3, 1);
    world.wait(*world.submit(world.everybody(), all_reduce(t)));
    EXPECT(all_are(t, 3));
  });
}

void test_a_rank_that_does_not_come() {
  std::barrier<> reported(2);
  as_ranks(2, [&](World& world) {
    if (world.rank() == 0) {
      const auto op = world.submit(world.everybody(), all_reduce(filled(3, 1), 0.5));
      const std::string error = error_of([&] { world.wait(*op); });
      EXPECT(has(error, "gave up after 0.5 s: 1 of 2 ranks arrived"));
      EXPECT(has(error, "missing  rank 1"));
    }
    reported.arrive_and_wait();
  });
}

// ---- who waits for whom

Waiting waits_for(const std::string& group, std::vector<int> ranks, uint64_t sequence,
                  std::map<std::string, uint64_t> issued, bool certain = true) {
  Waiting waiting{.certain = certain, .awaited = {}, .issued = std::move(issued)};
  waiting.awaited.push_back({group, group + "#" + std::to_string(sequence), std::move(ranks), sequence});
  return waiting;
}

void test_deadlocks_are_found() {
  std::map<int, Waiting> said;
  said[0] = waits_for("a", {0, 1}, 5, {{"a", 5}, {"b", 2}});
  said[1] = waits_for("b", {0, 1, 2}, 3, {{"a", 4}, {"b", 3}});
  said[2] = waits_for("b", {0, 1, 2}, 3, {{"b", 3}});
  EXPECT(find_deadlock(said, 0).text == "\n  rank 0: a#5, waits for rank 1\n  rank 1: b#3, waits for rank 0");
  EXPECT(find_deadlock(said, 0).certain && find_deadlock(said, 0).group == "a" && find_deadlock(said, 0).sequence == 5);
  EXPECT(has(find_deadlock(said, 2).text, "\n  rank 2: b#3, waits for rank 0\n  rank 0: a#5, waits for rank 1\n"));

  auto other = said;
  other[1].certain = false;  // another thread may call a#5
  EXPECT(!find_deadlock(other, 0).certain && has(find_deadlock(other, 0).text, "rank 1: b#3"));
  other = said;
  other[1].awaited.push_back({"c", "c#1", {1, 3}, 1});  // after which a callback may
  EXPECT(find_deadlock(other, 0).text.empty());
  other = said;
  other[1].issued["a"] = 5;  // started before, and not waited for
  for (int rank : {0, 1, 2}) EXPECT(find_deadlock(other, rank).text.empty());
  other = said;
  other[0].issued["b"] = 3;
  for (int rank : {0, 1, 2}) EXPECT(find_deadlock(other, rank).text.empty());
  other = said;
  other[1] = {};  // runs
  for (int rank : {0, 1, 2}) EXPECT(find_deadlock(other, rank).text.empty());
}

void test_what_waiting_ranks_say() {
  const Waiting waiting = waits_for("a", {0, 1}, 5, {{"a", 5}, {"b", 2}});
  EXPECT(encode(decode_waiting(encode(waiting))) == encode(waiting));
  EXPECT(decode_waiting("").awaited.empty());
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    const std::string bytes = changed_somewhere(encode(waiting), random);
    refused += !error_of([&] { EXPECT(!encode(decode_waiting(bytes)).empty()); }).empty();
  }
  EXPECT(refused > 1000);
}

void test_ranks_that_wait_for_each_other() {
  program_threads = [] { return 1; };
  as_ranks(2, [](World& world) {
    const auto pair = world.make_group({0, 1}, "pair", false, 60, {});
    const auto other = world.rank() == 0 ? pair : world.everybody();
    // work that is not waited for holds nobody up
    const auto first = world.submit(other, all_reduce(filled(3, 1)));
    const auto second = world.submit(world.rank() == 0 ? world.everybody() : pair, all_reduce(filled(3, 1)));
    if (world.rank() == 0) std::this_thread::sleep_for(800ms);
    world.wait(*first);
    world.wait(*second);
    const std::string error = error_of([&] { world.run(other, all_reduce(filled(3, 1))); });
    EXPECT(has(error, "cannot end: the ranks do not agree on the order of their calls"));
    EXPECT(has(error, "\n  rank 0: all_reduce #2 of group pair (float32[3], SUM), waits for rank 1"));
    EXPECT(has(error, "\n  rank 1: all_reduce #3 of group WORLD (float32[3], SUM), waits for rank 0"));
  });
  program_threads = nullptr;
}

/// An engine that waits for the others for ever when a group is made; beside it everything goes on, also the end.
class StuckEngine final : public ThreadEngine {
 public:
  StuckEngine(const std::shared_ptr<Hub>& hub, int rank, int size, std::shared_ptr<std::atomic<bool>> go)
      : ThreadEngine(hub, rank, size), go_(std::move(go)) {}
  int make_group(const std::vector<int>& ranks, int number) override {
    while (!*go_) std::this_thread::sleep_for(1ms);
    return ThreadEngine::make_group(ranks, number);
  }

 private:
  std::shared_ptr<std::atomic<bool>> go_;
};

void test_a_group_that_the_engine_does_not_make() {
  const auto go = std::make_shared<std::atomic<bool>>(false);
  const auto hub = std::make_shared<Hub>();
  const auto master = served();
  std::barrier<> left(2);
  in_threads(2, [&](int rank) {
    const auto store = std::make_shared<PrefixStore>("job", client_of(*master));
    announce(*store, rank);
    auto engine = std::make_unique<StuckEngine>(hub, rank, 2, go);
    const auto world = std::make_shared<World>(std::move(engine), store, rank, 2, true);
    std::thread late([&] {
      std::this_thread::sleep_for(200ms);
      EXPECT(has(world->state(), "0\t"));
      world->fail_all("the reason");
    });
    EXPECT(has(error_of([&] { world->make_group({0, 1}, "pair", false, 60, {}); }), "new_group (ranks 0 1) failed: "));
    late.join();
    EXPECT(
        has(error_of([&] { world->submit(world->everybody(), all_reduce(filled(3, 1))); }), "cannot be used any more"));
    world->leave();
    left.arrive_and_wait();
  });
  *go = true;
}

/// A connection that leaves the will of rank 2 stands for its process.
void test_a_rank_that_is_lost() {
  const auto master = served();
  auto doomed = std::make_shared<PrefixStore>("job", client_of(*master));
  doomed->set("who/2", "elsewhere pid 7");
  leave_will(*doomed, "2", 60);
  std::barrier<> submitted(2);
  as_ranks(3, 2, master, [&](World& world) {
    const auto op = world.submit(world.everybody(), all_reduce(filled(3, 1)));
    submitted.arrive_and_wait();
    if (world.rank() == 0) doomed.reset();
    const std::string error = error_of([&] { world.wait(*op); });
    EXPECT(has(error, "rank 2 (elsewhere pid 7) is gone"));
    EXPECT(
        has(error_of([&] { world.submit(world.everybody(), all_reduce(filled(3, 1))); }), "cannot be used any more"));
  });
}

void test_a_rank_that_leaves() {
  as_ranks(3, [](World& world) {
    if (world.rank() == 2) return;
    const auto op = world.submit(world.everybody(), all_reduce(filled(3, 1)));
    EXPECT(has(error_of([&] { world.wait(*op); }), "rank 2 has left the group"));
  });
}

void test_the_store_goes() {
  auto master = served();
  std::barrier<> submitted(2);
  as_ranks(3, 2, master, [&](World& world) {
    const auto op = world.submit(world.everybody(), all_reduce(filled(3, 1)));
    submitted.arrive_and_wait();
    if (world.rank() == 0) master.reset();
    EXPECT(has(error_of([&] { world.wait(*op); }), "which holds the store, is gone"));
  });
}

void test_memory_of_what_was_given_up_outlives_its_world() {
  const auto hub = std::make_shared<Hub>();
  const auto world = [&](int rank) {
    auto engine = std::make_unique<ThreadEngine>(hub, rank, 2);
    return std::make_shared<World>(std::move(engine), std::make_shared<HashStore>(), rank, 2, false);
  };
  std::weak_ptr<Operation> given_up;
  {
    const auto receiver = world(0);
    Call call = message_call(Kind::Recv, filled(3000, 0), 1, 0);
    call.timeout = 0.05;
    const auto op = receiver->submit(receiver->everybody(), std::move(call));
    given_up = op;
    EXPECT(has(error_of([&] { receiver->wait(*op); }), "gave up after"));
  }
  EXPECT(!given_up.expired());
  const auto sender = world(1);
  sender->wait(*sender->submit(sender->everybody(), message_call(Kind::Send, filled(3000, 1), 0, 0)));
}

void test_the_recorder_keeps_the_last() {
  const auto world = std::make_shared<World>(make_local_engine(0, 1), std::make_shared<HashStore>(), 0, 1, false);
  std::atomic<bool> done = false;
  std::thread reader([&] {
    while (!done) {
      const std::deque<Record> records = world->records();
      for (size_t i = 1; i < records.size(); ++i) EXPECT(records[i].number == records[i - 1].number + 1);
    }
  });
  const Tensor t = filled(3, 1);
  for (int i = 0; i < 2500; ++i) world->wait(*world->submit(world->everybody(), all_reduce(t)));
  done = true;
  reader.join();
  const std::deque<Record> records = world->records();
  EXPECT(records.size() == 2000 && records.back().sequence == 2500 && records.back().completed > 0);
  EXPECT(records.back().out == std::vector<std::vector<int64_t>>{{3}});
}

// ---- gradients of ranks that are threads

/// A rank with some parameters, two of which share a bucket.
struct Trainee {
  explicit Trainee(World& w) : world(w) {
    std::vector<Reducer::Parameter> parameters;
    for (int64_t n : {100, 3, 5}) {
      leaves.push_back(filled(n, 1));
      set_requires_grad(leaves.back(), true);
      parameters.push_back({std::to_string(n), leaves.back()});
    }
    const auto fails = [](auto&&...) { ++failures; };
    reducer = std::make_shared<Reducer>(
        parameters, world.shared_from_this(), world.everybody(), 60,
        Reducer::Hooks{.site = [] { return CallSite{}; }, .launch = fails, .land = fails, .failed = [] {}});
    reducer->set_buckets({{2, 1}, {0}});
    reducer->watch();
  }
  /// The gradient of each chosen leaf is `factor`, twice where it is chosen twice.
  void backward(const std::vector<int>& chosen, float factor) const {
    std::vector<Edge> roots;
    std::vector<Tensor> grads;
    for (int i : chosen) {
      const Tensor loss = sum(mul(leaves[static_cast<size_t>(i)], Scalar(factor)), std::nullopt, false, std::nullopt);
      roots.push_back(gradient_edge(loss.impl()));
      grads.push_back(scalar_tensor(Scalar(1), DType::Float32));
    }
    run_backward(roots, grads, {}, {});
  }
  Tensor grad(int i) const { return grad_of(leaves[static_cast<size_t>(i)]); }
  void forget() const {
    for (const Tensor& leaf : leaves) set_grad_of(leaf, {});
  }

  World& world;
  std::vector<Tensor> leaves;
  std::shared_ptr<Reducer> reducer;
};

struct Failing final : TensorHook {
  Tensor call(const Tensor&) override {
    FACULA_CHECK(!armed, ErrorKind::Runtime, "a hook fails");
    return {};
  }
  bool armed = true;
};

void average_gradients(World& world) {
  Trainee t(world);
  const auto rank = static_cast<float>(world.rank());
  for (int pass = 0; pass < 10; ++pass) {
    t.forget();
    t.backward({0, 1, 2}, rank + 1);
    for (int i : {0, 1, 2}) EXPECT(all_are(t.grad(i), 1.5f));
    EXPECT(t.grad(1).storage() == t.grad(2).storage() && t.grad(0).storage() != t.grad(1).storage());
  }
  EXPECT(t.reducer->passes() == 10);
  const Tensor kept = t.grad(0);
  t.forget();
  t.backward({0, 1, 1, 2}, 2 * rank);
  EXPECT(all_are(kept, 1.5f) && all_are(t.grad(0), 1) && all_are(t.grad(1), 2));
  t.backward({0, 1, 2}, 1);  // on top of what is there
  EXPECT(all_are(t.grad(0), 2) && all_are(t.grad(1), 3));
}

/// Ranks use different parameters, and nobody the third.
void average_some(World& world) {
  Trainee t(world);
  for (int pass = 0; pass < 4; ++pass) {
    t.forget();
    t.backward({(world.rank() + pass) % 2}, 4);
    EXPECT(all_are(t.grad(0), 2) && all_are(t.grad(1), 2) && !t.grad(2).defined());
  }
  t.reducer->enable(false);
  t.backward({0, 2}, 4);
  EXPECT(all_are(t.grad(0), 6) && all_are(t.grad(2), 4));
  t.reducer->enable(true);
  t.backward({1}, 0);  // brings those of the pass before along
  EXPECT(all_are(t.grad(0), 6) && all_are(t.grad(2), 4) && all_are(t.grad(1), 2));
}

void fail_and_go_on(World& world) {
  Trainee t(world);
  const auto hook = std::make_shared<Failing>();
  const Ref<Node> node = gradient_edge(t.leaves[0].impl()).node;
  static_cast<AccumulateGrad&>(*node).after_accumulate.add(hook);  // the last of the backward pass
  EXPECT(has(error_of([&] { t.backward({0}, 7); }), "a hook fails"));
  hook->armed = false;
  t.forget();
  t.backward({0, 1, 2}, 3);
  EXPECT(all_are(t.grad(0), 3) && all_are(t.grad(2), 3));
  t.reducer = nullptr;  // and its hooks do nothing from here on
  t.forget();
  t.backward({0}, static_cast<float>(world.rank()));
  EXPECT(all_are(t.grad(0), static_cast<float>(world.rank())));
}

void test_gradients_are_averaged() {
  as_ranks(2, average_gradients);
  as_ranks(2, average_some);
  as_ranks(2, fail_and_go_on);
}

}  // namespace

int main() {
  setenv("FACULA_DIST_WARN_AFTER", "0.3", 1);
  facula::cpu::register_backend();
  test_threads_of_ranks_work_in_groups();
  test_ranks_that_call_different_things();
  test_a_rank_that_does_not_come();
  test_deadlocks_are_found();
  test_what_waiting_ranks_say();
  test_ranks_that_wait_for_each_other();
  test_a_group_that_the_engine_does_not_make();
  test_a_rank_that_is_lost();
  test_a_rank_that_leaves();
  test_the_store_goes();
  test_memory_of_what_was_given_up_outlives_its_world();
  test_the_recorder_keeps_the_last();
  test_gradients_are_averaged();
  std::printf(failures ? "%d failures\n" : "ok\n", failures.load());
  return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
