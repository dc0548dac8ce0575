// Stores that many threads ask, and connections that break or lie. Meant for the thread and address sanitizers.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <random>

#include "distributed/pmi.h"
#include "distributed/store_server.h"
#include "distributed/wire.h"
#include "stores.h"

namespace {

using namespace facula;
using namespace facula::distributed;
using namespace std::chrono_literals;

// ---- stores

/// Every thread asks by a connection of its own, or all by one, which serves them in turn, so that none may wait.
void test_threads_share_a_store(const std::shared_ptr<Store>& store, bool clones) {
  constexpr int kThreads = 5, kRounds = 10;
  store->set("total", "0");
  in_threads(kThreads, [&](int i) {
    const auto mine = clones ? store->clone() : store;
    const std::string me = std::to_string(i + 1);
    for (int round = 0; round < kRounds; ++round) {
      mine->add("count", i);
      mine->append("log", me);
      while (mine->compare_set("lock", "", me) != me) std::this_thread::sleep_for(1ms);
      mine->set("total", std::to_string(std::stoi(mine->get("total")) + 1));  // safe only under the lock
      EXPECT(mine->compare_set("lock", me, "").empty());
    }
    if (!clones) return;
    mine->set("here/" + me, me);
    mine->wait({"here/1", "here/" + std::to_string(kThreads)}, 60);
    mine->barrier("all", kThreads, 60);
    EXPECT(mine->multi_get({"here/1", "here/2"}) == Texts({"1", "2"}));
  });
  EXPECT(store->get("total") == std::to_string(kThreads * kRounds));
  EXPECT(store->add("count", 0) == kRounds * kThreads * (kThreads - 1) / 2);
  EXPECT(store->get("log").size() == kThreads * kRounds);
  EXPECT(store->delete_key("log") && !store->has({"log"}) && !store->delete_key("log"));
}

void test_queues(const std::shared_ptr<Store>& store) {
  constexpr int kItems = 60;
  std::atomic<int> sum = 0;
  in_threads(6, [&](int i) {
    const auto mine = store->clone();
    for (int n = 0; n < kItems; ++n) {
      if (i % 2) mine->queue_push("q", std::to_string(n));
      else sum += std::stoi(mine->queue_pop("q", true));
    }
  });
  EXPECT(sum == 3 * kItems * (kItems - 1) / 2);
  EXPECT(store->queue_len("q") == 0);
  EXPECT(has(error_of([&] { store->queue_pop("q", false); }), "is empty"));
}

void test_errors_of_a_store(const std::shared_ptr<Store>& store) {
  store->set("word", "seven");
  EXPECT(has(error_of([&] { store->add("word", 1); }), "is no number"));
  store->set("large", std::to_string(std::numeric_limits<int64_t>::max()));
  EXPECT(has(error_of([&] { store->add("large", 1); }), "must fit in 64 bits"));
  EXPECT(has(error_of([&] { store->wait({"word", "never"}, 0.05); }), "keys: 'word', 'never'; no process set '"));
  EXPECT(has(error_of([&] { store->wait_count("few", 2, 0.05); }), "0 of 2 came"));
  EXPECT(has(error_of([&] { store->multi_set({"a", "b"}, {"1"}); }), "as many values as keys"));
  EXPECT(store->get("word") == "seven");  // the connection serves on
}

void test_stores() {
  const auto master = served();
  const auto path = std::filesystem::temp_directory_path() / ("facula-test-store-" + std::to_string(getpid()));
  const std::shared_ptr<Store> stores[] = {std::make_shared<HashStore>(), master,
                                           std::make_shared<PrefixStore>("p", master), make_file_store(path, 1)};
  for (const auto& store : stores) {
    for (const bool clones : {true, false}) {
      test_threads_share_a_store(std::make_shared<PrefixStore>(clones ? "clones" : "one", store), clones);
    }
    test_queues(store);
    test_errors_of_a_store(store);
  }
}

void test_clients_come_before_the_store_and_wait_for_each_other() {
  const int port = [] { return port_of(listen_on(kHost, 0)); }();  // free, most likely still in a moment
  in_threads(4, [&](int i) {
    if (i == 0) std::this_thread::sleep_for(50ms);
    const TcpStore store({.host = kHost, .port = port, .world_size = 4, .is_master = i == 0, .timeout = 60});
    if (i != 0) return;
    EXPECT(has(error_of([&] { listen_on(kHost, port); }), "already in use"));
  });
  EXPECT(has(error_of([&] { TcpStore({.host = kHost, .port = port, .timeout = 0.1}); }), "nobody listens"));
}

void test_tokens() {
  const auto master = served("secret");
  EXPECT(client_of(*master, "secret")->num_keys() == 0);
  for (const char* wrong : {"", "Secret", "secre", "secrets"})
    EXPECT(has(error_of([&] { client_of(*master, wrong); }), "the token is not that of this job"));
  EXPECT(has(error_of([&] { client_of(*master, std::string(kLongestToken + 1, 'x')); }), "at most 256 bytes"));
  EXPECT(has(error_of([&] { client_of(*served(), "secret"); }), "the token is not that of this job"));
}

// ---- connections that break or lie

std::string hello(const std::string& token = "", uint32_t version = kVersion) {
  Writer w;
  w.number(kMagic);
  w.number(version);
  w.text(token);
  return w.take();
}

std::string message(const Request& request, double timeout) {
  Writer w;
  const std::string body = encode(request);
  w.number(static_cast<uint32_t>(body.size() + sizeof timeout));
  w.number(timeout);
  return w.take() + body;
}

/// What a server answers to these bytes, and to the end of the connection.
std::string said(int port, std::string_view bytes) {
  const Deadline deadline = Deadline::after(60);
  const Socket socket = connect_to(kHost, port, deadline);
  std::string heard;
  try {
    socket.send_all(bytes, deadline);
    shutdown(socket.fd(), SHUT_WR);
    for (;;) heard += socket.receive(1, deadline);
  } catch (const DistError& error) {  // closed; or reset where the server has not read all
    EXPECT(has(error.what(), "the connection "));
  }
  return heard;
}

Request some_request(std::mt19937& random) {
  Request request{static_cast<StoreOp>(random() % (static_cast<size_t>(StoreOp::Last) + 1))};
  request.number = static_cast<int>(random() % 5) - 1;
  for (size_t n = random() % 3; n > 0; --n) request.keys.push_back("hostile");
  for (size_t n = random() % 3; n > 0; --n) request.values.emplace_back(random() % 20, 'v');
  return request;
}

/// Bytes that are not quite a message are an error, or another message; never anything else.
void test_decoding() {
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    const Request request = some_request(random);
    const Reply reply{Answer::Done, request.values, request.number};
    const std::string ask = changed_somewhere(encode(request), random);
    const std::string answer = changed_somewhere(encode(reply), random);
    refused += !error_of([&] { EXPECT(encode(decode_request(ask)) == ask); }).empty();
    refused += !error_of([&] { EXPECT(encode(decode_reply(answer)) == answer); }).empty();
  }
  EXPECT(refused > 20000 && refused < 40000);
}

/// Others go on while some send what is no message.
void test_malformed_messages() {
  const auto master = served();
  const std::string greeting = said(master->port(), hello());
  EXPECT(greeting.size() > 8);
  EXPECT(said(master->port(), "GET / HTTP/1.1\r\n\r\n").empty());
  EXPECT(has(said(master->port(), hello("", kVersion + 1)), "another version"));
  in_threads(4, [&](int i) {
    if (i == 0) {
      const auto good = client_of(*master);
      for (int n = 1; n <= 500; ++n) EXPECT(good->add("good", 1) == n);
      return;
    }
    std::mt19937 random(static_cast<unsigned>(i));
    for (int n = 0; n < 150; ++n) {
      const std::string whole = hello() + message(some_request(random), 0.01) + message(some_request(random), 0.01);
      said(master->port(), n % 10 ? changed_somewhere(whole, random) : whole);
    }
  });
  const Request wait{StoreOp::Wait, {"never"}};
  EXPECT(said(master->port(), hello() + message(wait, 9) + message(wait, 9)) ==
         greeting);  // asks before it is answered
  EXPECT(master->get("good") == "500");
}

/// A client chooses how long it waits.
void test_hostile_times() {
  const auto master = served();
  const double times[] = {std::nan(""), -1, -1e300, 0, std::numeric_limits<double>::infinity(), 1e300, 1e18};
  for (const double seconds : times) {
    const Deadline deadline = Deadline::after(10);
    const Socket socket = connect_to(kHost, master->port(), deadline);
    socket.send_all(hello(), deadline);
    socket.receive(said(master->port(), hello()).size(), deadline);
    for (const int64_t silence : {std::numeric_limits<int64_t>::max(), int64_t{5}}) {
      socket.send_all(message({StoreOp::Will, {"log"}, {"1"}, silence}, seconds), deadline);
      const std::string answer = encode(Reply{});
      EXPECT(socket.receive(sizeof(uint32_t) + answer.size(), deadline).ends_with(answer));
    }
    socket.send_all(message({StoreOp::Wait, {"never"}}, seconds), deadline);
    if (seconds > 0) continue;
    const std::string answer = encode(Reply{Answer::Timeout, {"never"}});
    EXPECT(socket.receive(sizeof(uint32_t) + answer.size(), deadline).ends_with(answer));
  }
}

void test_what_is_no_store() {
  for (const std::string& reply : {std::string("HTTP/1.1 400 Bad Request\r\n\r\n"), std::string("x"), hello("", 7)}) {
    const Socket listener = listen_on(kHost, 0);
    std::thread liar([&] {
      int fd;
      while ((fd = accept(listener.fd(), nullptr, nullptr)) < 0) std::this_thread::sleep_for(1ms);
      const Socket socket(fd);
      socket.send_all(reply, Deadline::after(10));
    });
    const std::string error = error_of([&] { TcpStore({.host = kHost, .port = port_of(listener), .timeout = 10}); });
    EXPECT(has(error, reply[0] == 'F' ? "speaks version 7" : "is no store of Facula"));
    liar.join();
  }
}

// ---- wills: who was lost, who says nothing

void test_wills() {
  const auto master = served();
  const std::string lines = std::string("log") + kLines;
  in_threads(8, [&](int i) {
    const auto client = client_of(*master);
    EXPECT(leave_will(*client, std::to_string(i), 60).answer == Answer::Done);
    if (i % 2) EXPECT(leave_will(*client, "", -1).answer == Answer::Done);
  });
  master->wait_count(lines, 4, 60);
  std::string log = master->get("log");
  for (const char* line : {"lost 0\n", "lost 2\n", "lost 4\n", "lost 6\n"}) EXPECT(has(log, line));
  EXPECT(log.size() == 4 * 7);

  auto slow = client_of(*master);
  leave_will(*slow, "slow", 1);
  master->wait_count(lines, 5, 60);
  EXPECT(slow->num_keys() == 2);
  slow.reset();
  master->wait_count(lines, 7, 60);
  EXPECT(has(master->get("log"), "silent slow\nback slow\nlost slow\n"));
  HashStore table;
  EXPECT(leave_will(table, "x", 1).answer == Answer::Refused);
}

// ---- PMI

struct PmiClient {
  Socket socket;
  std::string ask(const std::string& line) {
    const Deadline deadline = Deadline::after(60);
    socket.send_all(line + "\n", deadline);
    std::string answer;
    while (!answer.ends_with('\n')) answer += socket.receive(1, deadline);
    return answer;
  }
};

void test_pmi() {
  constexpr int kRanks = 4;
  const auto master = served();
  in_threads(kRanks, [&](int rank) {
    const PmiJob job{.name = "job", .mapping = process_mapping({"a", "a", "b", "a"}), .rank = rank, .size = kRanks};
    PmiClient mpi{Socket(serve_pmi(master->clone(), job))};
    EXPECT(has(mpi.ask("cmd=init pmi_version=1 pmi_subversion=1"), "rc=0"));
    EXPECT(has(mpi.ask("cmd=get_universe_size"), "size=4"));
    EXPECT(has(mpi.ask("cmd=get kvsname=job key=PMI_process_mapping"), "value=(vector,(0,1,2),(1,1,1),(0,1,1))"));
    EXPECT(
        has(mpi.ask("cmd=put kvsname=job key=" + std::to_string(rank) + " value=a b=" + std::to_string(rank)), "rc=0"));
    EXPECT(has(mpi.ask("cmd=barrier_in"), "rc=0"));
    for (int r = 0; r < kRanks; ++r)
      EXPECT(has(mpi.ask("cmd=get kvsname=job key=" + std::to_string(r)), "value=a b=" + std::to_string(r) + "\n"));
    for (const char* odd : {"", "=", "cmd", "cmd=", "a=b=c =", "cmd=nothing key", "value"})
      EXPECT(has(mpi.ask(odd), "msg=unknown"));
    EXPECT(has(mpi.ask("cmd=finalize"), "finalize_ack"));
    EXPECT(has(error_of([&] { mpi.ask("cmd=init"); }), "the connection"));
  });
}

}  // namespace

int main() {
  test_stores();
  test_clients_come_before_the_store_and_wait_for_each_other();
  test_tokens();
  test_decoding();
  test_malformed_messages();
  test_hostile_times();
  test_what_is_no_store();
  test_wills();
  test_pmi();
  std::printf(failures ? "%d failures\n" : "ok\n", failures.load());
  return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
