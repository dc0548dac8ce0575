// Recurrent cells on the CPU.
#include "ops/rnn.h"

#include "core/parallel.h"
#include "cpu/isa.h"
#include "kernels/activation.h"

namespace facula::cpu::FACULA_ISA {
namespace {

template <class F>
void visit_floating(DType dtype, F&& f) {
  if (dtype == DType::Float32) return f(float{});
  if (dtype == DType::Float64) return f(double{});
  throw_error(ErrorKind::NotImplemented, "rnn: not implemented for dtype ", dtype);
}

int64_t row_grain(int64_t hidden) { return std::max<int64_t>(1, kGrain / 32 / std::max<int64_t>(hidden, 1)); }

/// The pointers of one row of a step.
template <class T>
struct Row {
  const T *x, *g, *bias;
  T *h, *c, *saved, *h_before, *c_before, *output;
  Row(const RnnStep& s, int64_t row)
      : x(static_cast<const T*>(s.gates_x) + row * gate_factor(s.mode) * s.hidden),
        g(static_cast<const T*>(s.gates_h) + row * gate_factor(s.mode) * s.hidden),
        bias(static_cast<const T*>(s.bias)),
        h(static_cast<T*>(s.h) + row * s.hidden),
        c(s.c ? static_cast<T*>(s.c) + row * s.hidden : nullptr),
        saved(static_cast<T*>(s.saved) + row * saved_factor(s.mode) * s.hidden),
        h_before(static_cast<T*>(s.h_before) + row * s.hidden),
        c_before(s.c_before ? static_cast<T*>(s.c_before) + row * s.hidden : nullptr),
        output(static_cast<T*>(s.output) + row * s.hidden) {}
  T recurrent(int64_t i) const { return bias ? g[i] + bias[i] : g[i]; }
};

template <class T>
void plain_row(const Row<T>& r, int64_t n, bool relu) {
  FACULA_SIMD
  for (int64_t i = 0; i < n; ++i) {
    const T sum = r.x[i] + r.recurrent(i);
    r.h_before[i] = r.h[i];
    r.output[i] = r.h[i] = r.saved[i] = relu ? kernels::relu(sum) : kernels::tanh(sum);
  }
}

template <class T>
void lstm_row(const Row<T>& r, int64_t n) {
  FACULA_SIMD
  for (int64_t j = 0; j < n; ++j) {
    const T i = kernels::sigmoid(r.x[j] + r.recurrent(j));
    const T f = kernels::sigmoid(r.x[n + j] + r.recurrent(n + j));
    const T g = kernels::tanh(r.x[2 * n + j] + r.recurrent(2 * n + j));
    const T o = kernels::sigmoid(r.x[3 * n + j] + r.recurrent(3 * n + j));
    const T c = f * r.c[j] + i * g;
    r.saved[j] = i, r.saved[n + j] = f, r.saved[2 * n + j] = g, r.saved[3 * n + j] = o;
    r.h_before[j] = r.h[j];
    r.c_before[j] = r.c[j];
    r.c[j] = c;
    r.output[j] = r.h[j] = o * kernels::tanh(c);
  }
}

template <class T>
void gru_row(const Row<T>& row, int64_t n) {
  FACULA_SIMD
  for (int64_t j = 0; j < n; ++j) {
    const T r = kernels::sigmoid(row.x[j] + row.recurrent(j));
    const T z = kernels::sigmoid(row.x[n + j] + row.recurrent(n + j));
    const T part = row.recurrent(2 * n + j);
    const T fresh = kernels::tanh(row.x[2 * n + j] + r * part);
    row.saved[j] = r, row.saved[n + j] = z, row.saved[2 * n + j] = fresh, row.saved[3 * n + j] = part;
    const T before = row.h[j];
    row.h_before[j] = before;
    row.output[j] = row.h[j] = (before - fresh) * z + fresh;
  }
}

void rnn_step_cpu(const RnnStep& s) {
  const LockRelease release(s.rows * s.hidden > kGrain);
  visit_floating(s.dtype, [&]<class T>(T) {
    parallel_for(0, s.rows, row_grain(s.hidden), [&](int64_t from, int64_t to) {
      for (int64_t row = from; row < to; ++row) {
        const Row<T> r(s, row);
        if (s.mode == RnnMode::Lstm) lstm_row(r, s.hidden);
        else if (s.mode == RnnMode::Gru) gru_row(r, s.hidden);
        else plain_row(r, s.hidden, s.mode == RnnMode::Relu);
      }
    });
  });
}

// ---- derivatives

template <class T>
struct BackwardRow {
  const T *saved, *h_before, *c_before, *grad_output;
  T *grad_h, *grad_c, *grad_gates, *grad_gates_h;
  BackwardRow(const RnnStepBackward& s, int64_t row)
      : saved(static_cast<const T*>(s.saved) + row * saved_factor(s.mode) * s.hidden),
        h_before(static_cast<const T*>(s.h_before) + row * s.hidden),
        c_before(s.c_before ? static_cast<const T*>(s.c_before) + row * s.hidden : nullptr),
        grad_output(s.grad_output ? static_cast<const T*>(s.grad_output) + row * s.hidden : nullptr),
        grad_h(static_cast<T*>(s.grad_h) + row * s.hidden),
        grad_c(s.grad_c ? static_cast<T*>(s.grad_c) + row * s.hidden : nullptr),
        grad_gates(static_cast<T*>(s.grad_gates) + row * gate_factor(s.mode) * s.hidden),
        grad_gates_h(s.grad_gates_h ? static_cast<T*>(s.grad_gates_h) + row * gate_factor(s.mode) * s.hidden
                                    : nullptr) {}
  T incoming(int64_t i) const { return grad_output ? grad_h[i] + grad_output[i] : grad_h[i]; }
};

template <class T>
void plain_row_backward(const BackwardRow<T>& r, int64_t n, bool relu) {
  FACULA_SIMD
  for (int64_t i = 0; i < n; ++i) {
    const T h = r.saved[i], g = r.incoming(i);
    r.grad_gates[i] = relu ? (h > T(0) ? g : T(0)) : g * (T(1) - h * h);
    r.grad_h[i] = 0;
  }
}

template <class T>
void lstm_row_backward(const BackwardRow<T>& r, int64_t n) {
  FACULA_SIMD
  for (int64_t j = 0; j < n; ++j) {
    const T i = r.saved[j], f = r.saved[n + j], g = r.saved[2 * n + j], o = r.saved[3 * n + j], before = r.c_before[j];
    const T t = kernels::tanh(f * before + i * g), dh = r.incoming(j);
    const T dc = r.grad_c[j] + dh * o * (T(1) - t * t);
    r.grad_gates[j] = dc * g * i * (T(1) - i);
    r.grad_gates[n + j] = dc * before * f * (T(1) - f);
    r.grad_gates[2 * n + j] = dc * i * (T(1) - g * g);
    r.grad_gates[3 * n + j] = dh * t * o * (T(1) - o);
    r.grad_c[j] = dc * f;
    r.grad_h[j] = 0;
  }
}

template <class T>
void gru_row_backward(const BackwardRow<T>& row, int64_t n) {
  FACULA_SIMD
  for (int64_t j = 0; j < n; ++j) {
    const T r = row.saved[j], z = row.saved[n + j], fresh = row.saved[2 * n + j], part = row.saved[3 * n + j];
    const T dh = row.incoming(j);
    const T dz = dh * (row.h_before[j] - fresh) * z * (T(1) - z);
    const T dn = dh * (T(1) - z) * (T(1) - fresh * fresh);
    const T dr = dn * part * r * (T(1) - r);
    row.grad_gates[j] = row.grad_gates_h[j] = dr;
    row.grad_gates[n + j] = row.grad_gates_h[n + j] = dz;
    row.grad_gates[2 * n + j] = dn;
    row.grad_gates_h[2 * n + j] = dn * r;
    row.grad_h[j] = dh * z;
  }
}

void rnn_step_backward_cpu(const RnnStepBackward& s) {
  const LockRelease release(s.rows * s.hidden > kGrain);
  visit_floating(s.dtype, [&]<class T>(T) {
    parallel_for(0, s.rows, row_grain(s.hidden), [&](int64_t from, int64_t to) {
      for (int64_t row = from; row < to; ++row) {
        const BackwardRow<T> r(s, row);
        if (s.mode == RnnMode::Lstm) lstm_row_backward(r, s.hidden);
        else if (s.mode == RnnMode::Gru) gru_row_backward(r, s.hidden);
        else plain_row_backward(r, s.hidden, s.mode == RnnMode::Relu);
      }
    });
  });
}

}  // namespace

void register_rnn() {
  rnn_step_kernel.set(DeviceType::CPU, rnn_step_cpu);
  rnn_step_backward_kernel.set(DeviceType::CPU, rnn_step_backward_cpu);
}

}  // namespace facula::cpu::FACULA_ISA
