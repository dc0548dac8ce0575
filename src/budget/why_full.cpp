#include "budget/why_full.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <mutex>
#include <sstream>
#include <unordered_map>

#include "core/op_id.h"
#include "core/public_names.h"

namespace facula::budget {

bool (*find_held_memory)(Device device, std::vector<HeldMemory>& found) = nullptr;

std::string text_of_bytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  auto amount = static_cast<double>(bytes);
  while (amount >= 1023.95 && unit + 1 < std::size(kUnits)) {
    amount /= 1024;
    ++unit;
  }
  char text[32];
  const bool whole = unit == 0 || amount >= 99.95;
  std::snprintf(text, sizeof text, whole ? "%.0f %s" : amount >= 9.995 ? "%.1f %s" : "%.2f %s", amount, kUnits[unit]);
  return text;
}

std::string text_of_tensor(IntList sizes, DType dtype) {
  std::ostringstream text;
  text << '(';
  for (size_t i = 0; i < sizes.size(); ++i) text << (i ? ", " : "") << sizes[i];
  text << (sizes.size() == 1 ? ",) " : ") ") << dtype;
  return text.str();
}

std::string short_place(uint32_t place) {
  std::string text = text_of_place(place);
  text.resize(std::min(text.size(), text.rfind(" in ")));
  const size_t folder = text.rfind('/');
  return folder == std::string::npos ? text : text.substr(folder + 1);
}

std::string public_name_of(uint16_t op) { return std::string(public_op_name(op_name(op))); }

namespace {

constexpr size_t kLargest = 3;  // that are named

using Sums = std::array<size_t, 5>;
size_t& sum_of(Sums& sums, HeldKind kind) { return sums[static_cast<size_t>(kind)]; }

/// The largest of a kind: "largest: (8, 64) float32, 24.5 MiB, train.py:31; ...".
std::string largest_of(std::vector<HeldMemory>& memory, HeldKind kind) {
  const auto end = std::partition(memory.begin(), memory.end(), [&](const HeldMemory& m) { return m.kind == kind; });
  std::stable_sort(memory.begin(), end, [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  const auto count = static_cast<size_t>(end - memory.begin());
  std::string text;
  for (size_t i = 0; i < std::min(count, kLargest); ++i) {
    const HeldMemory& m = memory[i];
    const std::string place = short_place(m.by.place);
    text += (i ? "; " : "") + text_of_tensor(m.sizes, m.dtype) + ", " + text_of_bytes(m.bytes);
    if (!place.empty()) text += ", " + place;
    else if (m.by.op) text += ", made by " + public_name_of(m.by.op);
  }
  return count > kLargest ? text + "; ..." : text;
}

}  // namespace

std::vector<HeldMemory> each_once(std::vector<HeldMemory> memory) {
  std::unordered_map<const void*, size_t> known;
  std::vector<HeldMemory> distinct;
  for (HeldMemory& m : memory) {
    const auto [found, fresh] =
        m.storage ? known.try_emplace(m.storage, distinct.size()) : std::pair(known.end(), true);
    if (fresh) {
      distinct.push_back(std::move(m));
      continue;
    }
    HeldMemory& before = distinct[found->second];
    before.kind = std::min(before.kind, m.kind);
    if (!before.by.place) before.by.place = m.by.place;
    if (!before.by.op) before.by.op = m.by.op;
  }
  return distinct;
}

std::string text_of(Holdings h) {
  h.memory = each_once(std::move(h.memory));
  Sums sums{};
  size_t known = 0;
  for (const HeldMemory& m : h.memory) {
    sum_of(sums, m.kind) += m.bytes;
    known += m.bytes;
  }
  const size_t stays = h.held - std::min(h.held, h.can_go);
  size_t rest = stays - std::min(stays, known);
  if (!h.model_known) {
    const size_t gradients = std::min(rest, h.new_gradients);
    sum_of(sums, HeldKind::Gradient) += gradients;
    rest -= gradients;
  }
  std::vector<std::string> parts;
  const auto say = [&](size_t bytes, const std::string& what) {
    if (bytes) parts.push_back(text_of_bytes(bytes) + " " + what);
  };
  say(sum_of(sums, HeldKind::Model), "parameters and optimizer");
  say(sum_of(sums, HeldKind::Gradient), "gradients");
  if (const size_t bytes = sum_of(sums, HeldKind::Program))
    say(bytes, "in tensors that the program holds (largest: " + largest_of(h.memory, HeldKind::Program) + ")");
  if (const size_t bytes = sum_of(sums, HeldKind::Saved))
    say(bytes, "saved values that cannot be made again (largest: " + largest_of(h.memory, HeldKind::Saved) + ")");
  say(sum_of(sums, HeldKind::NeededNow), "needed by the op itself");
  say(rest, h.model_known ? "in other memory" : "parameters, optimizer and other memory");

  std::string text = text_of_bytes(stays) + " are held that cannot go";
  for (size_t i = 0; i < parts.size(); ++i) text += (i ? ", " : ": ") + parts[i];
  text += ". " + text_of_bytes(h.let_go) + " were let go before.";
  const size_t smallest = std::max(h.smallest, stays + h.request);
  return text + " This step needs a budget of at least " + text_of_bytes(smallest) + ".";
}

namespace {

/// What an error says that was made without the program's objects.
struct LastReport {
  std::mutex lock;
  std::string text;
  Device device;
  Holdings holdings;
};
LastReport& last_report() {
  static LastReport* instance = new LastReport;
  return *instance;
}

}  // namespace

std::string with_held_memory(const std::string& error) {
  std::string text;
  Device device;
  Holdings h;
  {
    std::lock_guard guard(last_report().lock);
    if (last_report().text.empty()) return error;
    text = std::exchange(last_report().text, {});
    device = last_report().device;
    h = std::exchange(last_report().holdings, {});
  }
  const size_t at = error.find(text);
  if (at == std::string::npos || !find_held_memory) return error;
  h.model_known = find_held_memory(device, h.memory);
  return error.substr(0, at) + text_of(std::move(h)) + error.substr(at + text.size());
}

std::string why_full(Device device, size_t request, size_t held, size_t can_go, std::vector<HeldMemory> cells) {
  Report& report = report_of(device);
  report.note_refused(held - std::min(held, can_go) + request);
  Holdings h;
  h.held = held;
  h.can_go = can_go;
  h.request = request;
  h.let_go = report.let_go_bytes();
  h.smallest = report.smallest();
  h.new_gradients = report.new_gradients();
  h.memory = std::move(cells);
  h.model_known = find_held_memory && find_held_memory(device, h.memory);
  const bool may_be_reported_later = !h.model_known && find_held_memory;
  const Holdings saved = may_be_reported_later ? h : Holdings();
  const std::string text = text_of(std::move(h));
  if (may_be_reported_later) {
    std::lock_guard guard(last_report().lock);
    last_report().text = text;
    last_report().device = device;
    last_report().holdings = saved;
  }
  return text;
}

}  // namespace facula::budget
