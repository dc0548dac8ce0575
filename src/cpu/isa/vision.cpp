// Boxes: which of them stay beside better ones, and how far rotated ones overlap.
#include "ops/vision.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/parallel.h"
#include "cpu/isa.h"
#include "cpu/isa/types.h"

namespace facula::cpu::FACULA_ISA {
namespace {

// Rounds here: a union is a rounded sum minus a rounded product, so that equal boxes are kept or not as elsewhere.
template <class T>
[[gnu::always_inline]] inline T rounded(T value) {
#if defined(__GNUC__) && !defined(__clang__)
  return __builtin_assoc_barrier(value);
#else
  volatile T kept = value;
  return kept;
#endif
}

/// Boxes side by side, and which of them are out.
template <class T>
struct Boxes {
  std::vector<T> x1, y1, x2, y2, area;
  std::vector<int64_t> number;
  std::vector<T> out;  // one where it is out: as wide as what decides it
  int64_t left = 0;

  Boxes(const T* boxes, const int64_t* order, int64_t count) : left(count) {
    for (auto* list : {&x1, &y1, &x2, &y2, &area, &out}) list->resize(static_cast<size_t>(count));
    number.assign(order, order + count);
    for (size_t i = 0; i < number.size(); ++i) {
      const T* box = boxes + number[i] * 4;
      x1[i] = box[0], y1[i] = box[1], x2[i] = box[2], y2[i] = box[3];
      area[i] = (box[2] - box[0]) * (box[3] - box[1]);
    }
  }

  /// Takes out what overlaps box `best` by more than `most`, among those behind it.
  void take_out(int64_t best, T most) {
    const auto b = static_cast<size_t>(best);
    const T left1 = x1[b], top = y1[b], right = x2[b], bottom = y2[b], whole = area[b];
    const T *a1 = x1.data(), *b1 = y1.data(), *a2 = x2.data(), *b2 = y2.data(), *areas = area.data();
    T* o = out.data();
    FACULA_SIMD
    for (int64_t j = best + 1; j < left; ++j) {
      const T width = std::max(T(0), std::min(right, a2[j]) - std::max(left1, a1[j]));
      const T height = std::max(T(0), std::min(bottom, b2[j]) - std::max(top, b1[j]));
      const T common = rounded(width * height);
      o[j] = common / (whole + areas[j] - common) > most ? T(1) : o[j];
    }
  }

  /// Closes the gaps from box `from` on.
  void close_up(int64_t from) {
    int64_t to = from;
    for (int64_t j = from; j < left; ++j) {
      const auto at = static_cast<size_t>(j), free = static_cast<size_t>(to);
      if (out[at] != T(0)) continue;
      for (auto* list : {&x1, &y1, &x2, &y2, &area, &out}) (*list)[free] = (*list)[at];
      number[free] = number[at];
      ++to;
    }
    left = to;
  }
};

/// The largest T that is not above a number: what is above it is above the number, too.
template <class T>
T floor_to(double number) {
  const T nearest = static_cast<T>(number);
  return static_cast<double>(nearest) > number ? std::nextafter(nearest, -std::numeric_limits<T>::infinity()) : nearest;
}

template <class T>
int64_t keep_best(const Tensor& kept, const Tensor& boxes, const Tensor& order, double threshold) {
  constexpr int64_t kRound = 64;
  Boxes<T> all(boxes.data<T>(), order.data<int64_t>(), boxes.size(0));
  const T most = floor_to<T>(threshold);
  int64_t* to = kept.data<int64_t>();
  int64_t count = 0, best = 0;
  while (best < all.left) {
    // slices, so that a long search can be stopped
    sliced_for(0, kRound, std::max<int64_t>(1, kGrain / all.left), [&](int64_t from, int64_t end) {
      for (int64_t i = from; i < end && best < all.left; ++i) {
        while (best < all.left && all.out[static_cast<size_t>(best)] != T(0)) ++best;
        if (best >= all.left) return;
        to[count++] = all.number[static_cast<size_t>(best)];
        all.take_out(best++, most);
      }
    });
    all.close_up(best);
  }
  return count;
}

int64_t nms_cpu(const Tensor& kept, const Tensor& boxes, const Tensor& order, double threshold) {
  LockRelease release(boxes.size(0) > 64);
  int64_t count = 0;
  visit_types(Floats{}, boxes.dtype(),
              [&]<class T>(TypeTag<T>) { count = keep_best<T>(kept, boxes, order, threshold); });
  return count;
}

// ---- rotated boxes

struct Point {
  double x, y;
};

/// A convex polygon: a rectangle that others were cut from has eight corners at most, and one more for each that
/// rounding makes.
struct Polygon {
  Point at[16];
  int corners = 0;

  double area() const {
    double twice = 0;
    for (int i = 0; i < corners; ++i) {
      const Point &a = at[i], &b = at[i + 1 < corners ? i + 1 : 0];
      twice += a.x * b.y - b.x * a.y;
    }
    return std::abs(twice) / 2;
  }

  /// What lies on the left of the line from a to b.
  Polygon cut(const Point& a, const Point& b) const {
    Polygon made;
    auto side = [&](const Point& p) { return (b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x); };
    for (int i = 0; i < corners; ++i) {
      const Point &p = at[i], &q = at[i + 1 < corners ? i + 1 : 0];
      const double here = side(p), there = side(q);
      if (here >= 0 && made.corners < 16) made.at[made.corners++] = p;
      if ((here >= 0) != (there >= 0) && made.corners < 16) {
        const double share = here / (here - there);
        made.at[made.corners++] = {p.x + share * (q.x - p.x), p.y + share * (q.y - p.y)};
      }
    }
    return made;
  }
};

/// The corners of a box, counter-clockwise where its sides are positive, around a center near it.
template <class T>
Polygon corners_of(const T* box, const Point& center) {
  const double angle = static_cast<double>(box[4]) * (3.14159265358979323846 / 180);
  const double c = std::cos(angle) / 2, s = std::sin(angle) / 2;
  const double w = static_cast<double>(box[2]), h = static_cast<double>(box[3]);
  const double x = static_cast<double>(box[0]) - center.x, y = static_cast<double>(box[1]) - center.y;
  Polygon p;
  p.corners = 4;
  constexpr int sides[4][2] = {{-1, -1}, {1, -1}, {1, 1}, {-1, 1}};
  for (int i = 0; i < 4; ++i) {
    const double across = sides[i][0] * w, along = sides[i][1] * h;
    p.at[i] = {x + across * c + along * s, y - across * s + along * c};
  }
  return p;
}

template <class T>
T rotated_iou(const T* a, const T* b) {
  const double areas[2] = {static_cast<double>(a[2]) * static_cast<double>(a[3]),
                           static_cast<double>(b[2]) * static_cast<double>(b[3])};
  if (areas[0] < 1e-14 || areas[1] < 1e-14) return T(0);
  const Point center{(static_cast<double>(a[0]) + static_cast<double>(b[0])) / 2,
                     (static_cast<double>(a[1]) + static_cast<double>(b[1])) / 2};
  Polygon common = corners_of(a, center);
  const Polygon other = corners_of(b, center);
  for (int i = 0; i < 4; ++i) common = common.cut(other.at[i], other.at[(i + 1) % 4]);
  const double shared = common.area();
  return static_cast<T>(shared / (areas[0] + areas[1] - shared));
}

void rotated_iou_cpu(const Tensor& out, const Tensor& a, const Tensor& b) {
  LockRelease release(out.numel() > 256);
  visit_types(Floats{}, out.dtype(), [&]<class T>(TypeTag<T>) {
    const int64_t columns = b.size(0);
    const T *first = a.data<T>(), *second = b.data<T>();
    T* to = out.data<T>();
    parallel_for(0, out.numel(), kGrain / 256, [&](int64_t from, int64_t end) {
      for (int64_t i = from; i < end; ++i) to[i] = rotated_iou(first + i / columns * 5, second + i % columns * 5);
    });
  });
}

}  // namespace

void register_vision() {
  nms_kernel.set(DeviceType::CPU, nms_cpu);
  rotated_iou_kernel.set(DeviceType::CPU, rotated_iou_cpu);
}

}  // namespace facula::cpu::FACULA_ISA
