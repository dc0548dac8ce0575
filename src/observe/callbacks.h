// States what observers do while they are notified.
#pragma once

namespace facula {

/// Whether this thread notifies observers now. remove_observer() then waits for no other thread: a notification that
/// has begun there goes on, so that the observer must live until remove_observer() of another one, called elsewhere,
/// has returned.
bool in_observer();

}  // namespace facula
