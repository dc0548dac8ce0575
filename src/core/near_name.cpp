#include "core/near_name.h"

#include <algorithm>
#include <array>

namespace facula {

namespace {

constexpr size_t kLongest = 63;  // letters; longer names are not compared

/// The edits between two names, or `most + 1` for more.
size_t edits(std::string_view a, std::string_view b, size_t most) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) > most) return most + 1;
  std::array<size_t, kLongest + 1> before{}, last{}, row{};
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    size_t least = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) row[j] = std::min(row[j], before[j - 2] + 1);
      least = std::min(least, row[j]);
    }
    if (least > most) return most + 1;
    before = last;
    last = row;
  }
  return last[b.size()];
}

}  // namespace

std::string near_name(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_edits = kLongest;
  for (const std::string& candidate : candidates) {
    if (candidate == name || candidate.empty() || std::max(name.size(), candidate.size()) > kLongest) continue;
    const size_t allowed = (name.size() + candidate.size() + 3) / 6;
    const size_t most = std::min(allowed, best_edits - 1);
    const size_t found = edits(name, candidate, most);
    if (found > most) continue;
    best = candidate;
    best_edits = found;
    if (found <= 1) break;
  }
  return best;
}

std::string suggestion(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string meant = near_name(name, candidates);
  return meant.empty() ? meant : ". Did you mean: '" + meant + "'?";
}

std::string alternatives(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    text += i == 0 ? "" : i + 1 < words.size() ? ", " : " or ";
    text += "'" + words[i] + "'";
  }
  return text;
}

std::string one_of(const std::vector<std::string>& words, std::string_view given) {
  return alternatives(words) + ", got '" + std::string(given) + "'" + suggestion(given, words);
}

}  // namespace facula
