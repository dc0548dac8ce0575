// One time step of a recurrent layer: a thread for every unit of every row.
#pragma once

#include "activation.h"
#include "rnn_args.h"
#include "types.cuh"

namespace facula::cuda {

template <class T, int kCell>
__global__ __launch_bounds__(256) void rnn_step(RnnStepArgs s) {
  constexpr int kGates = kCell == kLstmCell ? 4 : kCell == kGruCell ? 3 : 1, kSaved = kGates == 1 ? 1 : 4;
  const Int64 n = s.hidden;
  for (Int64 i = thread_number(); i < s.rows * n; i += thread_count()) {
    const Int64 row = i / n, j = i - row * n;
    const T *x = static_cast<const T*>(s.x) + row * kGates * n + j,
            *g = static_cast<const T*>(s.gates) + row * kGates * n + j, *bias = static_cast<const T*>(s.bias);
    T* saved = static_cast<T*>(s.saved) + row * kSaved * n + j;
    T* h = static_cast<T*>(s.h) + i;
    const auto recurrent = [&](int gate) { return bias ? g[gate * n] + bias[gate * n + j] : g[gate * n]; };
    const T before = *h;
    T now;
    if constexpr (kCell == kLstmCell) {
      T* c = static_cast<T*>(s.c) + i;
      const T in = kernels::sigmoid(x[0] + recurrent(0)), forget = kernels::sigmoid(x[n] + recurrent(1)),
              fresh = kernels::tanh(x[2 * n] + recurrent(2)), out = kernels::sigmoid(x[3 * n] + recurrent(3)),
              cell = forget * *c + in * fresh;
      saved[0] = in, saved[n] = forget, saved[2 * n] = fresh, saved[3 * n] = out;
      static_cast<T*>(s.c_before)[i] = *c;
      *c = cell;
      now = out * kernels::tanh(cell);
    } else if constexpr (kCell == kGruCell) {
      const T reset = kernels::sigmoid(x[0] + recurrent(0)), update = kernels::sigmoid(x[n] + recurrent(1)),
              part = recurrent(2), fresh = kernels::tanh(x[2 * n] + reset * part);
      saved[0] = reset, saved[n] = update, saved[2 * n] = fresh, saved[3 * n] = part;
      now = (before - fresh) * update + fresh;
    } else {
      const T sum = x[0] + recurrent(0);
      now = kCell == kReluCell ? kernels::relu(sum) : kernels::tanh(sum);
      saved[0] = now;
    }
    static_cast<T*>(s.h_before)[i] = before;
    *h = static_cast<T*>(s.output)[i] = now;
  }
}

template <class T, int kCell>
__global__ __launch_bounds__(256) void rnn_step_backward(RnnStepBackwardArgs s) {
  constexpr int kGates = kCell == kLstmCell ? 4 : kCell == kGruCell ? 3 : 1, kSaved = kGates == 1 ? 1 : 4;
  const Int64 n = s.hidden;
  for (Int64 i = thread_number(); i < s.rows * n; i += thread_count()) {
    const Int64 row = i / n, j = i - row * n;
    const T* saved = static_cast<const T*>(s.saved) + row * kSaved * n + j;
    T* grad = static_cast<T*>(s.grad_gates) + row * kGates * n + j;
    T* grad_h = static_cast<T*>(s.grad_h) + i;
    const T dh = s.grad_output ? *grad_h + static_cast<const T*>(s.grad_output)[i] : *grad_h;
    if constexpr (kCell == kLstmCell) {
      T* grad_c = static_cast<T*>(s.grad_c) + i;
      const T in = saved[0], forget = saved[n], fresh = saved[2 * n], out = saved[3 * n],
              before = static_cast<const T*>(s.c_before)[i], t = kernels::tanh(forget * before + in * fresh),
              dc = *grad_c + dh * out * (T(1) - t * t);
      grad[0] = dc * fresh * in * (T(1) - in);
      grad[n] = dc * before * forget * (T(1) - forget);
      grad[2 * n] = dc * in * (T(1) - fresh * fresh);
      grad[3 * n] = dh * t * out * (T(1) - out);
      *grad_c = dc * forget;
      *grad_h = T(0);
    } else if constexpr (kCell == kGruCell) {
      T* through = static_cast<T*>(s.grad_gates_h) + row * kGates * n + j;
      const T reset = saved[0], update = saved[n], fresh = saved[2 * n], part = saved[3 * n],
              dz = dh * (static_cast<const T*>(s.h_before)[i] - fresh) * update * (T(1) - update),
              dn = dh * (T(1) - update) * (T(1) - fresh * fresh), dr = dn * part * reset * (T(1) - reset);
      grad[0] = through[0] = dr;
      grad[n] = through[n] = dz;
      grad[2 * n] = dn;
      through[2 * n] = dn * reset;
      *grad_h = dh * update;
    } else {
      const T h = saved[0];
      grad[0] = kCell == kReluCell ? (h > T(0) ? dh : T(0)) : dh * (T(1) - h * h);
      *grad_h = T(0);
    }
  }
}

}  // namespace facula::cuda
