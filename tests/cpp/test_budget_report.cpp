// The report of a memory budget: sums, rings, watches, notes of several threads; and the text of an error, which is
// made of what is known of the bytes that are held.
#include <string>
#include <thread>

#include "budget/report.h"
#include "budget/why_full.h"
#include "check.h"
#include "op_ids_activation.h"
#include "op_ids_conv.h"
#include "op_ids_elementwise.h"
#include "op_ids_matmul.h"

namespace {

using namespace facula;
using namespace facula::budget;

constexpr size_t kMiB = size_t{1} << 20;
const MadeBy kLinear{op_id::linear, 7}, kGelu{op_id::_gelu_erf, 0};

std::string line_of_test(uint32_t place) { return "/home/me/train.py:" + std::to_string(place) + " in step"; }

const Row& row_of(const Totals& totals, MadeBy by) {
  for (const Row& row : totals.rows)
    if (row.by == by) return row;
  CHECK(!"no such row");
  std::abort();
}

void test_sums() {
  Report report{kCPU};
  report.note_let_go(kLinear, {8, 64}, DType::Float32, 2048, Cause::Request);
  report.note_let_go(kLinear, {8, 64}, DType::Float32, 2048, Cause::MovedAway);
  report.note_let_go(kGelu, {3}, DType::BFloat16, 6, Cause::Request);
  report.note_again(kLinear, 2048, 500);
  report.note_again(kLinear, 2048, 700);
  report.note_moved(kLinear, 2048, false, 10);
  report.note_moved(kLinear, 2048, true, 20);
  report.note_copied({64, 3}, DType::Float32, 768, 12);
  report.note_copied({64, 3}, DType::Float32, 768, 12);
  report.note_copied({64, 3}, DType::Float64, 1536, 12);
  const Totals totals = report.totals();
  EXPECT(totals.rows.size() == 2 && totals.copied.size() == 2);
  const Row& linear = row_of(totals, kLinear);
  EXPECT(linear.let_go == 2 && linear.let_go_bytes == 4096 && linear.again == 2 && linear.again_ns == 1200);
  EXPECT(linear.moved == 2 && linear.moved_bytes == 4096 && linear.moved_ns == 30);
  EXPECT(row_of(totals, kGelu).let_go_bytes == 6);
  EXPECT(totals.copied[0].count == 2 && totals.copied[0].bytes == 1536 && totals.copied[1].dtype == DType::Float64);

  const std::vector<Event> events = report.events(0);
  EXPECT(events.size() == 9);  // the move away is told when the bytes go
  const EventKind kinds[] = {EventKind::LetGo,  EventKind::MovedAway, EventKind::LetGo,
                             EventKind::Again,  EventKind::Again,     EventKind::MovedBack,
                             EventKind::Copied, EventKind::Copied,    EventKind::Copied};
  for (size_t i = 0; i < events.size(); ++i) EXPECT(events[i].kind == kinds[i]);
  EXPECT(IntList(events[0].sizes.dims()) == IntList(Dims{8, 64}) && events[0].shaped && !events[3].shaped);
  for (size_t i = 1; i < events.size(); ++i) EXPECT(events[i - 1].time <= events[i].time);
  EXPECT(report.events(events.back().time + 1).empty());
}

void test_sizes() {
  for (const Dims& dims : {Dims{}, Dims{5}, Dims{1, 2, 3, 4, 5, 6}, Dims{1, 2, 3, 4, 5, 6, 7},
                           Dims{int64_t{1} << 40, 2}, Dims{0, int64_t{UINT32_MAX}}}) {
    EXPECT(EventSizes(dims).dims() == dims);
    const EventSizes copy = EventSizes(dims);
    EXPECT(copy.dims() == dims);
  }
}

void test_ring_keeps_the_last() {
  Report report{kCPU};
  for (size_t i = 0; i < Report::kMostValues + 10; ++i) report.note_again(kLinear, i, 1);
  const std::vector<Event> events = report.events(0);
  EXPECT(events.size() == Report::kMostValues && events.front().bytes == 10 &&
         events.back().bytes == Report::kMostValues + 9);
  EXPECT(row_of(report.totals(), kLinear).again == Report::kMostValues + 10);
  for (size_t i = 0; i < Report::kMostValues + 3; ++i) report.note_sample(i, 0);
  EXPECT(report.samples(0).size() == Report::kMostValues && report.samples(0).front().held == 3);
}

void test_watches() {
  Report report{kCPU};
  report.note_sample(900, 0, 50);
  const uint32_t outer = report.begin_watch(100);
  report.note_room(500, 200, 80);
  report.note_let_go(kLinear, {}, DType::Float32, 200, Cause::Request);
  report.note_sample(400, 10, 300);
  const uint32_t inner = report.begin_watch(400);
  EXPECT(report.smallest() == 0 && report.let_go_bytes() == 0);  // of the last one
  report.note_room(450, 0, 100);
  report.note_let_go(kLinear, {}, DType::Float32, 7, Cause::Request);
  EXPECT(report.smallest() == 550 && report.let_go_bytes() == 7);
  EXPECT(report.watched(outer).held == 500 && report.watched(outer).plain == 700);
  EXPECT(report.watched(outer).smallest == 550 && report.watched(outer).let_go == 207);
  EXPECT(report.watched(inner).held == 450 && report.watched(inner).plain == 400);
  report.end_watch(inner);
  EXPECT(report.watched(inner).held == 0 && report.smallest() == 550 && report.let_go_bytes() == 207);
  report.note_room(10, 20, 1);          // what can go is counted at another time than what is held
  report.note_room(900, 100, 50, 700);  // a bound that was kept
  EXPECT(report.smallest() == 700 && report.totals().rooms == 4);
  report.note_refused(720);
  EXPECT(report.smallest() == 720 && report.watched(outer).smallest == 720);
}

void test_passes_and_gradients() {
  Report report{kCPU};
  report.note_gradient(5);
  report.note_pass(true);
  EXPECT(report.new_gradients() == 0 && report.passes(0).back().end == 0);
  report.note_gradient(100);
  report.note_pass(true);  // of another thread
  report.note_gradient(20);
  report.note_sample(1000, 300);
  report.note_pass(false);
  report.note_pass(false);
  const std::vector<Pass> passes = report.passes(0);
  EXPECT(passes.size() == 1 && passes[0].end >= passes[0].begin && report.new_gradients() == 120);
  EXPECT(report.samples(0).back().gradients == 120 && report.samples(0).back().saved == 300);
  EXPECT(report.totals().passes == 2 && report.totals().last_pass_end == passes[0].end);
}

void test_threads() {
  Report report{kCPU};
  std::vector<std::thread> threads;
  for (uint32_t number = 0; number < 4; ++number) {
    threads.emplace_back([&report, number] {
      for (int i = 0; i < 1000; ++i) {
        report.note_let_go({op_id::mul, number}, {i}, DType::Float32, 4, Cause::Request);
        report.note_sample(static_cast<size_t>(i), 0);
        if (i % 100 == 0) EXPECT(report.events(0).size() <= 4000 && report.totals().rows.size() <= 4);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint32_t number = 0; number < 4; ++number) EXPECT(row_of(report.totals(), {op_id::mul, number}).let_go == 1000);
  EXPECT(&report_of(kCPU) == &report_of(Device{DeviceType::CPU, -1}) &&
         &report_of(kCPU) != &report_of({DeviceType::CUDA, 0}));
  EXPECT(&report_of({DeviceType::CUDA, -1}) == &report_of({DeviceType::CUDA, 0}));
}

// ---- texts

void test_small_texts() {
  EXPECT(text_of_bytes(0) == "0 B" && text_of_bytes(1023) == "1023 B" && text_of_bytes(98 * kMiB) == "98.0 MiB");
  EXPECT(text_of_bytes(371 * kMiB) == "371 MiB" && text_of_bytes(kMiB + kMiB / 2) == "1.50 MiB");
  EXPECT(text_of_bytes(1024 * kMiB - 1) == "1.00 GiB");
  EXPECT(text_of_tensor({8, 64}, DType::Float32) == "(8, 64) float32" &&
         text_of_tensor({3}, DType::Bool) == "(3,) bool");
  EXPECT(text_of_tensor({}, DType::Int64) == "() int64");
  EXPECT(short_place(31) == "train.py:31" && short_place(0).empty());
  EXPECT(public_name_of(op_id::_gelu_erf) == "gelu" && public_name_of(op_id::linear) == "linear");
}

Holdings example() {
  static const int storages[4] = {};
  Holdings h;
  h.held = 400 * kMiB;
  h.can_go = 29 * kMiB;
  h.request = 98 * kMiB;
  h.let_go = 512 * kMiB;
  h.smallest = 470 * kMiB;
  h.model_known = true;
  h.memory = {
      {&storages[0], HeldKind::Model, 125 * kMiB, {}, DType::Float32, {}},
      {&storages[1], HeldKind::Gradient, 42 * kMiB, {}, DType::Float32, {}},
      {&storages[2], HeldKind::Program, 24 * kMiB, Dims{8, 64, 112, 112}, DType::Float32, {op_id::conv2d, 31}},
      {&storages[3], HeldKind::Program, 172 * kMiB, Dims{8, 4}, DType::Float64, {op_id::linear, 0}},
      {nullptr, HeldKind::NeededNow, 8 * kMiB, {}, DType::Float32, {}},
  };
  return h;
}

void test_error() {
  EXPECT(
      text_of(example()) ==
      "371 MiB are held that cannot go: 125 MiB parameters and optimizer, 42.0 MiB gradients, 196 MiB in tensors that "
      "the program holds (largest: (8, 4) float64, 172 MiB, made by linear; (8, 64, 112, 112) float32, 24.0 MiB, "
      "train.py:31), 8.00 MiB needed by the op itself. 512 MiB were let go before. This step needs a budget of at "
      "least "
      "470 MiB.");
}

void test_error_without_the_program() {
  Holdings h = example();
  h.model_known = false;
  h.new_gradients = 40 * kMiB;
  std::erase_if(h.memory, [](const HeldMemory& m) { return m.kind != HeldKind::Program; });
  const std::string text = text_of(h);
  EXPECT(text.find("371 MiB are held that cannot go: 40.0 MiB gradients, 196 MiB in tensors") == 0);
  EXPECT(text.find("), 135 MiB parameters, optimizer and other memory. 512 MiB") != std::string::npos);
}

void test_error_names_each_storage_once() {
  Holdings h = example();
  const void* parameter = h.memory[0].storage;
  h.memory.push_back({parameter, HeldKind::Program, 125 * kMiB, Dims{5}, DType::Float32, {}});
  const HeldMemory cell = h.memory[3];  // the program's walk knows no line, the cell does
  h.memory.push_back({cell.storage, HeldKind::Program, cell.bytes, cell.sizes, cell.dtype, {op_id::linear, 9}});
  for (int i = 0; i < 3; ++i) h.memory.push_back({nullptr, HeldKind::Program, 1, Dims{1}, DType::UInt8, {}});
  const std::string text = text_of(h);
  EXPECT(text.find("125 MiB parameters and optimizer") != std::string::npos && text.find("(5,)") == std::string::npos);
  EXPECT(text.find("(8, 4) float64, 172 MiB, train.py:9; (8, 64, 112, 112) float32, 24.0 MiB, train.py:31; (1,) uint8, "
                   "1 B; ...)") != std::string::npos);
}

void test_error_of_unknown_memory_and_saved_values() {
  Holdings h;
  h.held = 100 * kMiB;
  h.request = 3 * kMiB;
  h.model_known = true;
  EXPECT(text_of(h) ==
         "100 MiB are held that cannot go: 100 MiB in other memory. 0 B were let go before. This step needs a budget "
         "of at "
         "least 103 MiB.");
  const int storage = 0;
  h.memory = {{&storage, HeldKind::Saved, 100 * kMiB, Dims{2}, DType::Float32, {op_id::mul, 0}}};
  EXPECT(text_of(h).find(
             "100 MiB saved values that cannot be made again (largest: (2,) float32, 100 MiB, made by mul). 0") !=
         std::string::npos);
}

void test_error_of_a_device() {
  const Device device{DeviceType::CUDA, 5};
  Report& report = report_of(device);
  report.note_room(10 * kMiB, 4 * kMiB, kMiB, 12 * kMiB);
  report.note_pass(true);
  report.note_gradient(kMiB);
  const std::string text = why_full(device, 2 * kMiB, 10 * kMiB, 4 * kMiB, {});
  EXPECT(text ==
         "6.00 MiB are held that cannot go: 1.00 MiB gradients, 5.00 MiB parameters, optimizer and other memory. 0 B "
         "were let "
         "go before. This step needs a budget of at least 8.00 MiB.");
  EXPECT(report.smallest() == 8 * kMiB);
}

bool may_look = false;
bool find_a_parameter(Device, std::vector<HeldMemory>& found) {
  static const int parameter = 0;
  if (may_look) found.push_back({&parameter, HeldKind::Model, 3 * kMiB, Dims{3}, DType::Float32, {}});
  return may_look;
}

void test_error_that_is_completed_later() {
  const Device device{DeviceType::CUDA, 6};
  const auto why = [&] { return why_full(device, kMiB, 10 * kMiB, 0, {}); };
  find_held_memory = find_a_parameter;
  const std::string text = "mul: cannot get it: " + why() + " That is all.";
  may_look = true;
  EXPECT(with_held_memory("another error") == "another error");  // and what was told is forgotten with it
  EXPECT(with_held_memory(text) == text);
  may_look = false;
  EXPECT("mul: cannot get it: " + why() + " That is all." == text);
  EXPECT(text.find("10.0 MiB parameters, optimizer and other memory.") != std::string::npos);
  may_look = true;
  const std::string later = with_held_memory(text);
  EXPECT(
      later.find("mul: cannot get it: 10.0 MiB are held that cannot go: 3.00 MiB parameters and optimizer, 7.00 MiB in "
                 "other memory. 0 B were") == 0);
  EXPECT(later.ends_with("at least 11.0 MiB. That is all."));
  EXPECT(with_held_memory(text) == text && why().find("3.00 MiB parameters") != std::string::npos);
  find_held_memory = nullptr;
}

}  // namespace

int main() {
  place_text = line_of_test;
  test_sums();
  test_sizes();
  test_ring_keeps_the_last();
  test_watches();
  test_passes_and_gradients();
  test_threads();
  test_small_texts();
  test_error();
  test_error_without_the_program();
  test_error_names_each_storage_once();
  test_error_of_unknown_memory_and_saved_values();
  test_error_of_a_device();
  test_error_that_is_completed_later();
  return failures ? 1 : 0;
}
