// Declares what the CPU allocator needs from the operating system: address ranges, pages, and how much memory there is.
#pragma once

#include <cstddef>

namespace facula::os {

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;

// Reserves `bytes` of address space aligned to kHugePage. Nothing is usable, and nothing is counted against
// the process, until commit(). Returns null when the system refuses.
char* reserve(size_t bytes);

// Makes a reserved range readable and writable; its pages appear, zeroed, when first touched. False when
// refused.
bool commit(char* begin, size_t bytes);

// Asks for 2 MiB pages in a committed range, or for none from now on. A kernel without them ignores it.
void prefer_huge_pages(char* begin, size_t bytes, bool prefer = true);

// Gives the pages that lie wholly inside the range back to the system; the range stays usable.
void discard(char* begin, size_t bytes);

// Moves the pages of a committed range to another one that does not overlap it, whose own pages go; the range that
// they leave is empty and stays usable. Partly: not, for they come from several moves; parts of the range may be moved
// alone.
enum class Moved { Yes, Partly, No };
Moved move_pages(char* from, char* to, size_t bytes);

// Says whether processes forked from now on get the pages that lie wholly inside the range; where not, nothing is
// mapped there in them until map_anew(). False when refused.
bool keep_from_children(char* begin, size_t bytes, bool keep);

// Maps empty pages in place of those that keep_from_children() took from the same range. False when refused.
bool map_anew(char* begin, size_t bytes);

// Ends a reservation.
void unreserve(char* begin, size_t bytes);

// Physical memory in bytes, or the smallest cgroup limit above this process if that is less.
size_t total_memory();

// Bytes that can be touched now without swapping, under the cgroup limit too. Reads /proc: about 30 us.
size_t available_memory();

}  // namespace facula::os
