#include "core/budget_refusal.h"

#include <cstdio>

#include "core/budget_hooks.h"

namespace facula {

std::string size_text(size_t bytes) {
  static constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit < 6; ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

namespace {

/// "400 MiB", as the user wrote it, where that is true.
std::string budget_text(size_t bytes) {
  std::string text = size_text(bytes);
  const size_t at = text.find(".0 ");
  if (at != std::string::npos && bytes % (size_t{1} << 20) == 0) text.erase(at, 2);
  return text;
}

}  // namespace

std::string budget_refusal(Device device, const char* op, size_t bytes, size_t budget, size_t held) {
  const std::string known = budget_hooks.present_op ? budget_hooks.present_op() : std::string();
  const std::string why = budget_hooks.why_full ? budget_hooks.why_full(device, bytes) : std::string();
  return (known.empty() ? op : known) + ": cannot get " + size_text(bytes) + " within the memory budget of " +
         budget_text(budget) + ": " + (why.empty() ? size_text(held) + " are held" : why);
}

}  // namespace facula
