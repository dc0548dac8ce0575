// Errors, in units in the last place (ULP), of the elementary functions of CUDA devices in float32, as the emulated
// device computes them: with instructions that round well, and with ones as wrong as NVIDIA says that they may be, in
// one direction, the other, or any. Prints a line for each; exits non-zero if a bound is exceeded or an edge is wrong.
#define FACULA_EMULATED_KERNEL 1
#include "../../src/kernels/activation.h"
#include "check.h"
#include "units.h"

namespace k = facula::kernels;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

/// The float that is furthest from `value` among those at most `error` away, upwards or downwards.
float wrong_by(double value, double error, bool upwards) {
  const double target = upwards ? value + error : value - error;
  const auto rounded = static_cast<float>(target);
  return std::fabs(rounded - value) <= error ? rounded : std::nextafterf(rounded, static_cast<float>(value));
}

enum class Direction { Down, Up, Any };

/// Parts of functions that are as wrong as they may be. Where results are not normal numbers, they are as they ought to
/// be.
template <Direction direction>
struct Wrong {
  static bool upwards() {
    static unsigned state = 1;
    state = state * 1664525u + 1013904223u;
    return direction == Direction::Up || (direction == Direction::Any && state >> 31);
  }
  static bool is_normal(double value) {
    return std::fabs(value) > 1.001 * k::Float<float>::smallest_normal && std::fabs(value) < 3.4e38;
  }
  static float exp2(float x) {
    const double power = std::exp2(static_cast<double>(x));
    return is_normal(power) ? wrong_by(power, power * 0x1.6ap-23, upwards()) : k::device::Parts::exp2(x);
  }
  static float reciprocal(float x) {
    const double inverse = 1 / static_cast<double>(x);
    return is_normal(inverse) ? wrong_by(inverse, std::fabs(inverse) * 0x1p-23, upwards())
                              : k::device::Parts::reciprocal(x);
  }
  static float exp(float x) {
    const double power = std::exp(static_cast<double>(x));
    return is_normal(power) ? wrong_by(power, static_cast<double>(ulp<float>(power)), upwards())
                            : k::device::Parts::exp(x);
  }
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x * sigmoid(x); }
double gelu_erf(double x) { return x * 0.5 * std::erfc(-x / k::sqrt_2); }
double gelu_tanh(double x) { return x * sigmoid(2 * k::sqrt_2 / k::sqrt_pi * (x + 0.044715 * x * x * x)); }

/// `act` on floats of all exponents and signs between two numbers, and some that are closer together.
template <class Act>
void for_floats(float low, float high, Act act) {
  for (unsigned long long pattern = 0; pattern < 1ull << 32; pattern += 1999) {
    const float x = k::from_bits(static_cast<k::UInt32>(pattern));
    if (x >= low && x <= high) act(x);
  }
  const float from = std::max(low, -12.0f), to = std::min(high, 12.0f);
  for (int i = 0; i <= 400'000; ++i) act(from + (to - from) * static_cast<float>(i) * 2.5e-6f);
}

template <class Function, class Reference>
void check_units(const char* name, float low, float high, double bound, Function function, Reference reference) {
  double worst = 0;
  float worst_at = low;
  for_floats(low, high, [&](float x) {
    const auto error = static_cast<double>(error_in_ulp(function(x), static_cast<long double>(reference(x))));
    if (error > worst) worst = error, worst_at = x;
  });
  std::printf("%-22s from %10g to %10g: %7.3f ULP at %.9g\n", name, low, high, worst, worst_at);
  EXPECT(worst <= bound);
}

/// Below -1, where what is multiplied with x is small: its error, in halves of the last place of numbers below 1.
template <class Function, class Reference>
void check_tail(const char* name, double bound, double relative, Function function, Reference reference) {
  double worst = 0, worst_relative = 0;
  for_floats(-1e30f, -1.0f, [&](float x) {
    const double expected = reference(x), error = std::fabs(function(x) - expected);
    worst = std::max(worst, error / -x * 0x1p24);
    if (x > -6.0f) worst_relative = std::max(worst_relative, error / -expected);
  });
  std::printf("%-22s below -1: %.3f / 2^24 of x; above -6: %.3g\n", name, worst, worst_relative);
  EXPECT(worst <= bound && worst_relative <= relative);
}

/// The functions that are made of parts, of which `P` are some; `wrong` is what these add to the bounds.
template <class P>
void check_composed(double wrong) {
  const auto own_sigmoid = [](float x) { return k::device::sigmoid<P>(x); };
  const auto own_silu = [](float x) { return x * k::device::sigmoid<P>(x); };
  const auto own_gelu = [](float x) { return k::device::gelu_erf<P>(x); };
  const auto own_gelu_tanh = [](float x) { return k::device::gelu_tanh<P>(x); };
  check_units("sigmoid", -1e30f, 1e30f, 1.9 + wrong, own_sigmoid, sigmoid);
  check_units("silu", -80.0f, 1e30f, 2.7 + wrong, own_silu, silu);
  check_units("gelu", -1.0f, 1e30f, 2.9 + 2.3 * wrong, own_gelu, gelu_erf);
  check_units("gelu by tanh", -1.0f, 1e18f, 2.6 + 2.3 * wrong, own_gelu_tanh, gelu_tanh);
  check_tail("gelu", 0.7 + 0.5 * wrong, 8e-6, own_gelu, gelu_erf);
  check_tail("gelu by tanh", 0.7 + 0.5 * wrong, 5e-6, own_gelu_tanh, gelu_tanh);

  for (const auto own : {+own_silu, +own_gelu, +own_gelu_tanh}) {
    EXPECT(std::isnan(own(kNan)) && std::isnan(own(-kInfinity)) && own(kInfinity) == kInfinity);  // as PyTorch's
    EXPECT(own(0.0f) == 0.0f && !std::signbit(own(0.0f)) && own(-0.0f) == 0.0f && std::signbit(own(-0.0f)));
    EXPECT(own(-1e30f) == 0.0f && std::fabs(own(1e18f) - 1e18f) < 3e11f && own(-100.0f) > -1e-30f);
  }
  EXPECT(std::isnan(own_sigmoid(kNan)) && own_sigmoid(-kInfinity) == 0.0f && own_sigmoid(kInfinity) == 1.0f);
  EXPECT(own_sigmoid(-104.5f) == 0.0f && own_sigmoid(-100.0f) > 0.0f && own_sigmoid(100.0f) == 1.0f);
  EXPECT(own_sigmoid(-0.0f) == own_sigmoid(0.0f));
}

/// Those that kernels take as they are.
void check_whole() {
  const auto sin = [](double x) { return std::sin(x); };
  const auto cos = [](double x) { return std::cos(x); };
  check_units("exp", -1e30f, 1e30f, 1, [](float x) { return k::exp(x); }, [](double x) { return std::exp(x); });
  check_units("tanh", -1e30f, 1e30f, 2.2, [](float x) { return k::tanh(x); }, [](double x) { return std::tanh(x); });
  check_units("log", 0.0f, 3e38f, 1, [](float x) { return k::log(x); }, [](double x) { return std::log(x); });
  check_units("erf", -1e30f, 1e30f, 2, [](float x) { return k::erf(x); }, [](double x) { return std::erf(x); });
  check_units("sin", -k::moderate_angle, k::moderate_angle, 1.9, [](float x) { return k::sin(x); }, sin);
  check_units("cos", -k::moderate_angle, k::moderate_angle, 1.9, [](float x) { return k::cos(x); }, cos);
  check_units("sin", -3e38f, 3e38f, 1.9, [](float x) { return k::sin(x); }, sin);
  check_units("cos", -3e38f, 3e38f, 1.9, [](float x) { return k::cos(x); }, cos);
  EXPECT(k::exp(-kInfinity) == 0 && k::exp(kInfinity) == kInfinity && std::isnan(k::exp(kNan)) && k::exp(-0.0f) == 1);
  EXPECT(k::log(0.0f) == -kInfinity && k::log(-0.0f) == -kInfinity && std::isnan(k::log(-1.0f)) &&
         k::log(kInfinity) == kInfinity && std::isnan(k::log(kNan)) && k::log(1.0f) == 0);
  EXPECT(std::isnan(k::sin(kInfinity)) && std::isnan(k::cos(-kInfinity)) && std::isnan(k::sin(kNan)));
  EXPECT(std::signbit(k::sin(-0.0f)) && std::signbit(k::tanh(-0.0f)) && std::signbit(k::erf(-0.0f)));
  EXPECT(k::tanh(kInfinity) == 1 && k::tanh(-kInfinity) == -1 && k::erf(kInfinity) == 1 && std::isnan(k::erf(kNan)));
}

}  // namespace

int main() {
  check_whole();
  check_composed<k::device::Parts>(0);
  check_composed<Wrong<Direction::Down>>(1);
  check_composed<Wrong<Direction::Up>>(1);
  check_composed<Wrong<Direction::Any>>(1);
  std::printf("%d failures\n", failures.load());
  return failures != 0;
}
