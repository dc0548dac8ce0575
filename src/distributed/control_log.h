// Declares what joining, liveness and reports of a world share: names of keys in the store, and its log.
#pragma once

#include <functional>
#include <string>

#include "distributed/store.h"

namespace facula::distributed {

constexpr const char* kLog = "log";
constexpr const char* kWaits = "waits";  // what a rank that waits has said, by rank
constexpr const char* kGone = " is gone: its process ended, or its connection broke";
constexpr double kAskBusy = 3;  // seconds that a process which runs may take for an answer
constexpr double kShort = 1;    // seconds that a store may take for an answer when a rank joins, reports or leaves

std::string key_of(const std::string& what, int rank);
void append_to_log(Store& store, const std::string& line);
/// Whether the launcher, and not rank 0, holds the store.
bool served_by_launcher();
Texts split(const std::string& text, char at);
std::string seconds_text(double seconds);
/// Runs `f` on a thread of its own. Returns whether it was done in time, or later while there is `hope`. It may go on
/// for longer.
bool within(double seconds, std::function<void()> f, const std::function<bool()>& hope = {});

}  // namespace facula::distributed
