// A world's groups on devices: what is left to a device to do, and how it ends.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "cuda/allocator.h"
#include "cuda/collectives.h"
#include "distributed/control.h"
#include "distributed/pause.h"
#include "distributed/world.h"

namespace facula::distributed {

/// The lock is held, or nobody else is there yet.
void World::join_devices(Group& group, const std::vector<int>& ranks, int number) {
  if (!device_engine_) device_engine_ = make_nccl_engine(store_ ? store_->clone() : nullptr, rank_, size_);
  group.nccl = true;
  group.device_id = number == 0 ? 0 : device_engine_->make_group(ranks, number);
}

void World::connect(const std::shared_ptr<Group>& group, Device device, double timeout) {
  check_process();
  Pause pause(spins(), longest_nap());
  for (const Deadline deadline = Deadline::after(timeout);;) {
    {
      const std::scoped_lock lock(mutex_);
      if (!broken_.empty()) fail(Trouble::Backend, "init_process_group: ", broken_);
      if (device_engine_->connect(group->device_id, device)) return;
    }
    if (deadline.passed())
      fail(Trouble::Backend, "init_process_group: the devices of all ranks are not connected after ", timeout,
           " s: every rank must give device_id");
    if (pause.next()) Interruptible::check();
  }
}

namespace {

void use_on(const std::vector<Tensor>& tensors, Stream stream) {
  for (const Tensor& t : tensors)
    if (t.defined() && t.device().is_cuda() && t.storage()->data) cuda::record_stream(t.storage()->data, stream);
}

}  // namespace

/// All transfers are queued: what follows them is queued behind, and the event.
void World::leave_to_device(Group& group, Operation& op) {
  const Stream side = op.plan.empty() ? op.caller : device_engine_->stream(group.device_id, op.plan[0]);
  {
    const cuda::StreamGuard guard(side);
    for (const auto& f : op.finish) f();
  }
  op.moved.record(side);
  op.finish.clear();
  if (op.captured) return;  // the memory stays until the capture waits for it
  for (auto* tensors : {&op.memory, &op.call.in, &op.call.out}) {
    use_on(*tensors, side);
    for (Tensor& t : *tensors) t = {};  // the allocator knows that the stream uses it
  }
  op.memory.clear();
  op.phase.store(Phase::OnDevice, std::memory_order_release);
}

/// Whether what was left to the device is done.
bool World::look(Group& group, Operation& op) {
  if (op.done()) return true;
  const cuda::RelaxedCapture relaxed;  // another thread may be capturing a graph
  try {
    if (op.moved.is_done()) {
      complete(group, op);
      return true;
    }
    if (!op.plan.empty()) device_engine_->look(group.device_id, op.plan[0]);
  } catch (const Error& error) {
    break_off(group, op, group.title(op) + " failed: " + error.what());
    return true;
  }
  return false;
}

bool World::is_done(const Operation& op) {
  if (op.done()) return true;
  if (!op.has_left_host()) return false;
  try {
    return op.moved.is_done();
  } catch (const Error&) {
    return true;  // wait() says it
  }
}

/// The rest of a group on devices cannot end well.
void World::end_on_device(Group& group, const std::string& why) {
  cuda::fail_next_wait(std::make_exception_ptr(DistError(Trouble::Backend, why)));
  device_engine_->abandon_group(group.device_id);
  for (const Message& m : on_device_)
    if (m.group.get() == &group) break_off(group, *m.op, group.title(*m.op) + " failed: " + why);
}

bool World::wait_for_device(Operation& op, double timeout) {
  static const bool blocking = [] {
    const char* set = std::getenv("TORCH_NCCL_BLOCKING_WAIT");
    return set && std::strcmp(set, "1") == 0;
  }();
  if (timeout >= 0 || blocking) {
    Pause pause(spins(), longest_nap());
    for (const Deadline deadline = Deadline::after(timeout); !is_done(op);) {
      if (timeout >= 0 && deadline.passed()) return false;
      if (pause.next()) Interruptible::check();
      poll();
    }
    const std::scoped_lock lock(mutex_);
    if (op.error) throw DistError(*op.error);
  }
  op.moved.block(cuda::current_stream(op.device.index));
  return true;
}

/// Before this process leaves in order: what is queued ends, and then the communicators.
void World::drain_devices() {
  constexpr double kPatience = 30;
  const auto wait_until = [this](auto holds) {
    Pause pause(20, 2000);
    for (const Deadline deadline = Deadline::after(kPatience); !deadline.passed(); pause.next()) {
      const auto lock = lock_soon();
      if (!lock || !broken_.empty() || holds()) return;
    }
  };
  wait_until([this] {
    for (const Message& m : on_device_) look(*m.group, *m.op);
    return std::all_of(on_device_.begin(), on_device_.end(), [](const Message& m) { return m.op->done(); });
  });
  if (const auto lock = lock_soon(); lock && broken_.empty()) device_engine_->close();
  wait_until([this] {
    device_engine_->progress();
    return device_engine_->is_closed();
  });
}

}  // namespace facula::distributed
