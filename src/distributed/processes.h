// Reports what the system says of the processes on this machine. A process is named as in "host pid 7".
#pragma once

#include <string>

namespace facula::distributed {

/// The name of this process.
std::string process_name();
/// The letter that ps shows for it ("R", "S", "Z", ...), or 0 for one that is elsewhere or gone.
char process_state(const std::string& who);
bool is_stopped(const std::string& who);
/// Whether it runs here, or wants to: it answers when the machine is less busy.
bool is_busy(const std::string& who);
/// How the process ended, for people, as far as the system still knows: " is gone: ...".
std::string end_of_process(const std::string& who);

}  // namespace facula::distributed
