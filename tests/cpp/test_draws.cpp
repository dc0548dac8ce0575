// Draws that are made again (core/draws.h): whatever draws numbers is called, drawn past, and called twice more from
// the states that were noted: the same bits, and the program's streams stay where they are. On the CPU, and on the
// emulated CUDA device, where a library keeps states of its own.
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "autograd/rnn_network.h"
#include "child.h"
#include "core/backend.h"
#include "core/draws.h"
#include "core/error.h"
#include "core/generators.h"
#include "cpu/backend.h"
#include "cuda/backend.h"
#include "functions.h"
#include "ops/contiguous.h"

using namespace facula;

namespace {

using Bytes = std::vector<uint8_t>;

Bytes state_of(Generator& generator) {
  const std::lock_guard lock(generator.mutex);
  Bytes state(generator.state_bytes());
  generator.get_state(state.data());
  return state;
}

Bytes bits_of(const Tensor& t) {
  const Tensor here = facula::empty(t.sizes(), t.dtype(), kCPU);
  copy_elements(here, t);
  Bytes bits(static_cast<size_t>(here.numel() * here.item_size()));
  if (!bits.empty()) std::memcpy(bits.data(), here.data(), bits.size());
  return bits;
}

/// What draws, by name; each call gives what it has drawn.
using Draws = std::map<std::string, std::function<Tensor(Generator*)>>;

Draws draws_on(Device device) {
  const auto values = [device](IntList sizes, double from, double to) {
    return facula::uniform_(facula::empty(sizes, DType::Float32, device), from, to);
  };
  const Tensor x = values({6, 50}, -1, 1), shares = values({3, 20}, 0.1, 1), rates = values({300}, 0.5, 20),
               large = values({70000}, -1, 1), counts = facula::full({300}, 12.0, DType::Float32, device),
               probabilities = values({300}, 0.1, 0.9);
  const auto filled = [=](auto fill) {
    return [=](Generator* g) {
      const Tensor t = facula::empty({7, 43}, DType::Float32, device);
      fill(t, g);
      return t;
    };
  };
  Draws all;
  all["normal_"] = filled([](const Tensor& t, Generator* g) { normal_(t, 1, 2, g); });
  all["uniform_"] = filled([](const Tensor& t, Generator* g) { uniform_(t, 1, 2, g); });
  all["random_"] = filled([](const Tensor& t, Generator* g) { random_(t, g); });
  all["random_ from"] = filled([](const Tensor& t, Generator* g) { random_(t, -5, 1000, g); });
  all["exponential_"] = filled([](const Tensor& t, Generator* g) { exponential_(t, 2, g); });
  all["cauchy_"] = filled([](const Tensor& t, Generator* g) { cauchy_(t, 0, 1, g); });
  all["geometric_"] = filled([](const Tensor& t, Generator* g) { geometric_(t, 0.2, g); });
  all["log_normal_"] = filled([](const Tensor& t, Generator* g) { log_normal_(t, 0, 1, g); });
  all["bernoulli_"] = filled([](const Tensor& t, Generator* g) { bernoulli_(t, 0.3, g); });
  all["one number"] = [=](Generator* g) { return normal_(facula::empty({}, DType::Float64, device), 0, 1, g); };
  all["many numbers"] = [=](Generator* g) { return rand_like(large, g); };
  all["across"] = [=](Generator* g) {
    return Tensor(normal_(facula::transpose(facula::empty({9, 8}, DType::Float32, device), 0, 1), 0, 1, g));
  };
  all["randperm"] = [=](Generator* g) { return randperm(500, g, std::nullopt, device); };
  all["bernoulli of tensors"] = [=](Generator* g) { return bernoulli(probabilities, g); };
  all["normal of tensors"] = [=](Generator* g) { return normal(x, facula::abs(x), g); };
  all["multinomial"] = [=](Generator* g) { return multinomial(shares, 5, false, g); };
  all["multinomial, again"] = [=](Generator* g) { return multinomial(shares, 40, true, g); };
  all["poisson"] = [=](Generator* g) { return poisson(rates, g); };
  all["gamma"] = [=](Generator* g) { return _standard_gamma(rates, g); };
  all["dirichlet"] = [=](Generator* g) { return _sample_dirichlet(shares, g); };
  all["binomial"] = [=](Generator* g) { return binomial(counts, probabilities, g); };
  all["rrelu"] = [=](Generator* g) { return rrelu(x, 0.1, 0.3, true, g); };
  // these have no generator of their own
  all["dropout"] = [=](Generator*) { return dropout(x, 0.3, true); };
  all["feature_dropout"] = [=](Generator*) { return feature_dropout(x, 0.3, true); };
  all["alpha_dropout"] = [=](Generator*) { return alpha_dropout(x, 0.3, true); };
  all["native_dropout"] = [=](Generator*) { return std::get<1>(native_dropout(x, 0.3, true)); };
  const Tensor heads = values({2, 2, 9, 16}, -1, 1);
  all["attention"] = [=](Generator*) { return scaled_dot_product_attention(heads, heads, heads, Tensor(), 0.4); };
  return all;
}

/// Two layers by the library of the device.
Tensor network(Device device) {
  static const Tensor input = uniform_(facula::empty({12, 5}, DType::Float32, device), -1, 1);
  static const std::vector<Tensor> weights = [&] {
    std::vector<Tensor> made;
    for (const Dims& sizes : {Dims{24, 5}, Dims{24, 6}, Dims{24, 6}, Dims{24, 6}})
      made.push_back(uniform_(facula::empty(sizes, DType::Float32, device), -1, 1));
    return made;
  }();
  const Tensor states = facula::zeros({2, 3, 6}, DType::Float32, device);
  const std::optional<RnnNetworkResults> r = rnn_by_library(
      {RnnMode::Lstm, 5, 6, 0, 2, false, false, false, true, 0.5, {3, 3, 3, 3}}, {input, states, states, weights});
  CHECK(r.has_value());
  return r->output;
}

/// `named`: from a generator of the program's, else from the device's.
void check_draws(const std::string& name, Device device, const std::function<Tensor(Generator*)>& draw, bool named) {
  const std::unique_ptr<Generator> own = named ? make_generator(device) : nullptr;
  Generator& generator = named ? *own : default_generator(device);
  const auto said = [&](const char* what) {
    std::fprintf(stderr, "%s%s on %s: %s\n", name.c_str(), named ? " (named)" : "", to_string(device).c_str(), what);
    std::_Exit(1);
  };
  {
    const std::lock_guard lock(generator.mutex);
    generator.seed(20);
  }
  for (int round = 0; round < 3; ++round) {  // a library goes on with the states that it has
    DrawStates states;
    const Bytes before = state_of(generator);
    Tensor first;
    {
      const NotedDraws noting(states);
      first = draw(own.get());
    }
    if (state_of(generator) == before) said("nothing was drawn");
    if (states.empty() || states[0].bytes != before) said("the draw was not noted");
    if (!(states[0].device == generator.device())) said("the draw was noted for another device");
    const Bytes bits = bits_of(first);
    for (int repeated = 0; repeated < 2; ++repeated) {
      if (bits_of(draw(own.get())) == bits) said("the next draw is the same");
      const Bytes there = state_of(generator);
      DrawStates noted;
      {
        const NotedDraws outer(noted);
        const RepeatedDraws again(states);
        if (bits_of(draw(own.get())) != bits) said("drawn again, it is not the same");
      }
      if (state_of(generator) != there) said("drawing again has moved the stream");
      if (!noted.empty()) said("drawing again was noted");
    }
    // and what it would have drawn without that
    if (round > 0) continue;
    const Bytes there = state_of(generator);
    const Bytes next = bits_of(draw(own.get()));
    {
      const std::lock_guard lock(generator.mutex);
      generator.set_state(there.data(), there.size());
    }
    if (name != "network" && bits_of(draw(own.get())) != next) said("the stream goes on otherwise");
  }
}

/// A call that draws more often than it did, or on another device, is an error and not something else's numbers.
void test_too_many() {
  DrawStates states;
  {
    const NotedDraws noting(states);
    facula::rand({3});
  }
  CHECK(states.size() == 1);
  bool refused = false;
  try {
    const RepeatedDraws again(states);
    facula::rand({3});
    facula::rand({3});
  } catch (const Error& error) {
    refused = std::string(error.what()).find("memory budget: ") == 0;
  }
  CHECK(refused);
}

/// What a library had drawn elsewhere meanwhile is not drawn again, and it goes on as if nothing had been.
void test_network(Device device) {
  Generator& generator = default_generator(device);
  const auto seeded = [&] {
    const std::lock_guard lock(generator.mutex);
    generator.seed(3);
  };
  seeded();
  std::vector<Bytes> plain, noted;
  for (int i = 0; i < 4; ++i) plain.push_back(bits_of(network(device)));
  seeded();
  std::vector<DrawStates> states(4);
  for (int i = 0; i < 4; ++i) {
    {
      const NotedDraws noting(states[static_cast<size_t>(i)]);
      noted.push_back(bits_of(network(device)));
    }
    for (int k = 0; k <= i; k += 2) {
      const RepeatedDraws again(states[static_cast<size_t>(k)]);
      CHECK(bits_of(network(device)) == noted[static_cast<size_t>(k)]);
    }
  }
  CHECK(noted == plain);
}

void run_all(Device device) {
  for (const auto& [name, draw] : draws_on(device)) {
    check_draws(name, device, draw, false);
    const bool takes_one = name.find("dropout") == std::string::npos && name != "attention";
    if (takes_one) check_draws(name, device, draw, true);
  }
}

void run_cuda() {
  CHECK(has_backend(DeviceType::CUDA));
  const Device device{DeviceType::CUDA, 0};
  run_all(device);
  network(device);  // draws its weights
  check_draws("network", device, [&](Generator*) { return network(device); }, false);
  test_network(device);
}

}  // namespace

int main() {
  cpu::register_backend();
  cuda::register_backend();
  std::string folder = (std::filesystem::temp_directory_path() / "facula-draws-XXXXXX").string();
  CHECK(mkdtemp(folder.data()));
  expect_good("CUDA",
              in_child({"FACULA_CUDA=emulated", "FACULA_EMULATED_FLAGS=-O0", "FACULA_CACHE_DIR=" + folder}, run_cuda));
  std::filesystem::remove_all(folder);
  run_all(kCPU);
  test_too_many();
  std::puts("ok");
}
