// Convolution by the tensor cores: products of a matrix and one whose elements are found in images that are read as
// they lie, channels innermost.
#pragma once

#include "conv_args.h"
#include "matmul_tensor.cuh"

namespace facula::cuda {

/// Where the element is that a column of the matrix shows in a window; false outside the image.
struct WindowColumn {
  int tap[2], channel;
  FACULA_FN WindowColumn(const WindowMatrix& m, int column) {
    UInt32 rest = column;
    const UInt32 tap_number = m.channels.divide(rest);
    channel = int(rest);
    rest = tap_number;
    tap[0] = int(m.kernel[1].divide(rest));
    tap[1] = int(rest);
  }
  FACULA_FN bool find(const WindowMatrix& m, int window, Int64& offset) const {
    UInt32 rest = window, line = m.out[1].divide(rest);
    const UInt32 image = m.out[0].divide(line), out[2] = {line, rest};
    offset = image * m.image + channel;
    bool inside = true;
#pragma unroll
    for (int d = 0; d < 2; ++d) {
      const int at = int(out[d]) * m.stride[d] + m.start[d] + tap[d] * m.dilation[d];
      inside = inside && UInt32(at) < UInt32(m.in[d]);
      offset += at * m.step[d];
    }
    return inside;
  }
};

/// A side that is such a matrix, whose channels are a multiple of 16 bytes: its lines are windows (kAlong) or columns.
template <class T, int kLines, int kThreads, bool kAlong>
class WindowSide : public SideLayout<T, kLines, kThreads, kAlong> {
  using Layout = SideLayout<T, kLines, kThreads, kAlong>;
  using Layout::kRows, Layout::kTogether;

 public:
  using Layout::kPack, Layout::kDepth;

  FACULA_FN WindowSide(const WindowMatrix& m, const void* data, int first_line, int lines, int begin, int end)
      : matrix(m), images(static_cast<const T*>(data)) {
    window = (kAlong ? first_line : begin) + Layout::first_row();
    column = (kAlong ? begin : first_line) + Layout::first_chunk() * kPack;
    windows = kAlong ? lines : end;
    columns = kAlong ? end : lines;
  }
  FACULA_FN void fetch(T* room) {
    const WindowColumn shown(matrix, column);
#pragma unroll
    for (int j = 0; j < kRows; j += kTogether) {
      Int64 offset = 0;
      const bool there = column < columns && window + j < windows && shown.find(matrix, window + j, offset);
      copy_async(room + Layout::place(Layout::first_row() + j, Layout::first_chunk()), images + (there ? offset : 0),
                 there);
    }
    (kAlong ? column : window) += kDepth;
  }

 private:
  const WindowMatrix& matrix;
  const T* images;
  int window, column, windows, columns;
};

/// The matrix of windows is the left side, and the lines of the right one lie in one piece each; or it is the right
/// one, and the lines of the left one lie next to each other.
template <class T, int kPrecision, bool kLeft, int kSize>
__global__ __launch_bounds__(TensorProducts::threads(kSize), kPrecision == TensorProducts::kWhole
                                                                 ? 1
                                                                 : 2) void windows_by_tensor_cores(MatricesArgs p,
                                                                                                   WindowMatrix m) {
  constexpr int kLines = 16 * kSize, kThreads = TensorProducts::threads(kSize);
  const ProductTiles& t = p.tiles;
  const TensorTile tile(t, kLines);
  const int begin = tile.begin(t), end = tile.end(t);
  const auto element = [&](int window, int column) {
    Int64 offset;
    const T* images = static_cast<const T*>(kLeft ? p.a : p.b);
    return WindowColumn(m, column).find(m, window, offset) ? convert<float>(images[offset]) : 0.0f;
  };
  const auto again = [&](int row, int column) {
    float sum = 0;
#pragma unroll 1
    for (int k = begin; k < end; ++k)
      sum += kLeft ? element(row, k) * convert<float>(static_cast<const T*>(p.b)[column * p.b_column + k])
                   : convert<float>(static_cast<const T*>(p.a)[k * p.a_column + row]) * element(k, column);
    return sum;
  };
  if constexpr (kLeft) {
    WindowSide<T, kLines, kThreads, true> left(m, p.a, tile.row, int(t.rows), begin, end);
    TensorSide<T, kLines, kThreads, true> right(p.b, p.b_column, tile.column, int(t.columns), begin, end);
    multiply_sides<T, kPrecision, kSize>(p, tile, begin, end, left, right, again);
  } else {
    TensorSide<T, kLines, kThreads, false> left(p.a, p.a_column, tile.row, int(t.rows), begin, end);
    WindowSide<T, kLines, kThreads, false> right(m, p.b, tile.column, int(t.columns), begin, end);
    multiply_sides<T, kPrecision, kSize>(p, tile, begin, end, left, right, again);
  }
}

}  // namespace facula::cuda
