// What observers do while they are told something.
#pragma once

namespace facula {

/// Whether this thread tells observers something. remove_observer() then waits for no other thread: one that has begun
/// to tell the observer something goes on, so that it must live until remove_observer() of another one, called
/// elsewhere, has returned.
bool in_observer();

}  // namespace facula
