// What a process has once. The variables that headers declare are defined in the library, not `inline` in the headers:
// the Python module and programs in C++ would else have their own copies of what they use.
#include "core/budget_bound.h"
#include "core/budget_hooks.h"
#include "core/host.h"
#include "core/kernel.h"
#include "core/making.h"
#include "core/mode.h"
#include "core/parallel.h"
#include "core/short_memory.h"
#include "core/small_block.h"

namespace facula {

thread_local constinit ThreadState thread_state __attribute__((tls_model("initial-exec")));
thread_local constinit const MadeTensor* made_tensor __attribute__((tls_model("initial-exec"))) = nullptr;
thread_local constinit int Uninterrupted::depth __attribute__((tls_model("initial-exec"))) = 0;

constinit Host host;
BudgetHooks budget_hooks;
std::atomic<bool> memory_is_short{false};
size_t (*let_go_of_waiting)(Device device) = nullptr;
std::array<BudgetBound, kDeviceTypes> budget_bounds;
const char* device_names[kDeviceTypes] = {"cpu", "cuda", "meta", nullptr};
constinit std::array<Backend, kDeviceTypes> backends;

void (*on_kernel)(const char* name) = nullptr;
void (*on_piece)(bool begins) = nullptr;
void (*on_storage_change)(Storage* storage, int64_t bytes) = nullptr;
void (*on_identity_end)(uint32_t identity) = nullptr;
bool (*small_block_admission)(size_t bytes, bool beyond_budget) = nullptr;
bool (*small_block_room)(size_t bytes) = nullptr;
constinit std::atomic<bool> small_block_counts_spans{false};
void (*small_block_failure)(size_t bytes) = nullptr;

Kernel<void(const Tensor& out, const Tensor& in)> copy_kernel{"copy_", true};
Kernel<void(const Tensor& out, const Scalar& value)> fill_kernel{"fill_"};
Kernel<void(const Tensor& in, std::array<char, 16>& bytes)> read_kernel{"item", false, true};

}  // namespace facula
