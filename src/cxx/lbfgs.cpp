// torch::optim::LBFGS: quasi-Newton steps from the last changes of parameters and gradient.
#include <cmath>
#include <deque>

#include "torch/serialize.h"

namespace torch::optim {

using facula::ErrorKind;

struct LBFGS::History {
  int64_t func_evals = 0, n_iter = 0;
  double t = 0, prev_loss = 0;
  Tensor d, H_diag, prev_flat_grad;
  std::deque<Tensor> old_dirs, old_stps, ro;
};

namespace {

double biggest(const Tensor& t) { return t.abs().max().item<double>(); }

/// A step length with the loss, the gradient and the slope along the direction there.
struct Point {
  double t, loss, slope;
  Tensor grad;
};

/// The minimum between two points of the cubic with their values and slopes (Nocedal and Wright, 3.59).
double cubic_minimum(const Point& one, const Point& other, double least, double most) {
  const bool in_order = one.t <= other.t;
  const double d1 = one.slope + other.slope - 3 * (one.loss - other.loss) / (one.t - other.t);
  const double square = d1 * d1 - one.slope * other.slope;
  if (square < 0) return (least + most) / 2;
  const double root = std::sqrt(square);
  const Point &a = in_order ? one : other, &b = in_order ? other : one;
  const double at = b.t - (b.t - a.t) * ((b.slope + root - d1) / (b.slope - a.slope + 2 * root));
  return std::min(std::max(at, least), most);
}

/// Finds a step length that lowers the loss enough and flattens the slope enough (the strong Wolfe conditions).
class LineSearch {
 public:
  LineSearch(std::function<Point(double)> evaluate, Point start, double size, int64_t most, double tolerance_change)
      : evaluate_(std::move(evaluate)),
        start_(std::move(start)),
        size_(size),
        tolerance_change_(tolerance_change),
        most_(most) {}
  Point search(double t) {
    bracket(t);
    narrow();
    return points_[points_.size() > 1 && points_[1].loss < points_[0].loss ? 1 : 0];
  }
  int64_t evaluations = 0;

 private:
  Point at(double t) {
    ++evaluations;
    return evaluate_(t);
  }
  bool too_high(const Point& p) const {
    constexpr double kEnough = 1e-4;
    return p.loss > start_.loss + kEnough * p.t * start_.slope;
  }
  bool flat(const Point& p) const {
    constexpr double kEnough = 0.9;
    return std::fabs(p.slope) <= -kEnough * start_.slope;
  }

  void found(std::vector<Point> points, bool done, int64_t used) {
    points_ = std::move(points);
    done_ = done;
    used_ = used;
  }
  /// Two points around a good one, or the good one alone.
  void bracket(double t) {
    Point before = start_, now = at(t);
    for (int64_t used = 0; used < most_; ++used) {
      if (too_high(now) || (used > 1 && now.loss >= before.loss)) return found({before, now}, false, used);
      if (flat(now)) return found({now}, true, used);
      if (now.slope >= 0) return found({before, now}, false, used);
      const double least = now.t + 0.01 * (now.t - before.t), next = cubic_minimum(before, now, least, now.t * 10);
      before = now;
      now = at(next);
    }
    found({start_, now}, false, most_);
  }
  /// A new length inside the bracket, not too near its ends twice running.
  double next_inside(bool& slow) const {
    const Point &a = points_[0], &b = points_[1];
    const double first = std::min(a.t, b.t), last = std::max(a.t, b.t), margin = 0.1 * (last - first);
    const double t = cubic_minimum(a, b, first, last);
    if (std::min(last - t, t - first) >= margin) {
      slow = false;
      return t;
    }
    if (!slow && t < last && t > first) {
      slow = true;
      return t;
    }
    slow = false;
    return std::fabs(t - last) < std::fabs(t - first) ? last - margin : first + margin;
  }
  void narrow() {
    bool slow = false;
    while (!done_ && used_ < most_ && std::fabs(points_[1].t - points_[0].t) * size_ >= tolerance_change_) {
      const Point now = at(next_inside(slow));
      ++used_;
      const size_t low = points_[0].loss <= points_[1].loss ? 0 : 1, high = 1 - low;
      if (too_high(now) || now.loss >= points_[low].loss) {
        points_[high] = now;
        continue;
      }
      if (flat(now)) done_ = true;
      else if (now.slope * (points_[high].t - points_[low].t) >= 0) points_[high] = points_[low];
      points_[low] = now;
    }
  }

  std::function<Point(double)> evaluate_;
  Point start_;
  double size_, tolerance_change_;
  int64_t most_, used_ = 0;
  bool done_ = false;
  std::vector<Point> points_;
};

Tensor flat_grad(const std::vector<Tensor>& params) {
  std::vector<Tensor> parts;
  for (const Tensor& p : params)
    parts.push_back((p.grad().defined() ? p.grad() : torch::zeros_like(p.detach())).reshape({-1}));
  return torch::cat(parts);
}
void move(const std::vector<Tensor>& params, double t, const Tensor& direction) {
  int64_t at = 0;
  for (const Tensor& p : params) {
    p.add_(direction.slice(0, at, at + p.numel()).reshape(p.sizes()), t);
    at += p.numel();
  }
}

}  // namespace

LBFGS::LBFGS(std::vector<OptimizerParamGroup> groups, LBFGSOptions o)
    : Optimizer(std::move(groups), std::make_unique<LBFGSOptions>(o)), history_(std::make_shared<History>()) {
  FACULA_CHECK(param_groups_.size() == 1, ErrorKind::Runtime, "LBFGS: one group of parameters is possible, got ",
               param_groups_.size());
  auto& mine = static_cast<LBFGSOptions&>(param_groups_[0].options());
  if (!mine.max_eval()) mine.max_eval(mine.max_iter() * 5 / 4);
}

namespace {

/// The direction from what the last steps changed, after noting the last change.
template <class History>
Tensor new_direction(History& h, const Tensor& grad, size_t history_size) {
  if (h.n_iter == 1) {
    h.old_dirs.clear(), h.old_stps.clear(), h.ro.clear();
    h.H_diag = torch::ones({}, grad.options());
    return grad.neg();
  }
  constexpr double kLeastCurvature = 1e-10;
  const Tensor change = grad - h.prev_flat_grad, moved = h.d * h.t, curvature = change.dot(moved);
  if (curvature.template item<double>() > kLeastCurvature) {
    if (h.old_dirs.size() == history_size) h.old_dirs.pop_front(), h.old_stps.pop_front(), h.ro.pop_front();
    h.old_dirs.push_back(change), h.old_stps.push_back(moved), h.ro.push_back(1.0 / curvature);
    h.H_diag = curvature / change.dot(change);
  }
  std::vector<Tensor> alphas(h.old_dirs.size());
  Tensor q = grad.neg();
  for (size_t i = h.old_dirs.size(); i-- > 0;) {
    alphas[i] = h.old_stps[i].dot(q) * h.ro[i];
    q.add_(h.old_dirs[i] * -alphas[i]);
  }
  Tensor r = q * h.H_diag;
  for (size_t i = 0; i < h.old_dirs.size(); ++i) r.add_(h.old_stps[i] * (alphas[i] - h.old_dirs[i].dot(r) * h.ro[i]));
  return r;
}

}  // namespace

Tensor LBFGS::step(LossClosure closure) {
  FACULA_CHECK(closure, ErrorKind::Runtime, "LBFGS: step needs a closure that computes the loss, got none");
  NoGradGuard off;
  const auto& params = param_groups_[0].params();
  const auto& o = static_cast<const LBFGSOptions&>(param_groups_[0].options());
  FACULA_CHECK(!o.line_search_fn() || *o.line_search_fn() == "strong_wolfe", ErrorKind::Runtime,
               "LBFGS: line_search_fn must be 'strong_wolfe' or unset, got '", *o.line_search_fn(), "'");
  History& h = *history_;
  const int64_t max_eval = o.max_eval().value_or(o.max_iter() * 5 / 4);
  const Tensor first_loss = evaluate(closure);
  double loss = first_loss.item<double>();
  Tensor grad = flat_grad(params);
  int64_t evaluations = 1;
  ++h.func_evals;
  const bool optimal = biggest(grad) <= o.tolerance_grad();
  for (int64_t i = 0; i < (optimal ? 0 : o.max_iter()); ++i) {
    ++h.n_iter;
    h.d = new_direction(h, grad, static_cast<size_t>(o.history_size()));
    h.prev_flat_grad = grad.clone();
    h.prev_loss = loss;
    h.t = h.n_iter == 1 ? std::min(1.0, 1.0 / grad.abs().sum().item<double>()) * o.lr() : o.lr();
    const double slope = grad.dot(h.d).item<double>();
    if (slope > -o.tolerance_change()) break;
    int64_t used = 0;
    if (o.line_search_fn()) {
      std::vector<Tensor> origin;
      for (const Tensor& p : params) origin.push_back(p.detach().clone());
      const auto at = [&](double t) {
        move(params, t, h.d);
        const double value = evaluate(closure).item<double>();
        const Tensor there = flat_grad(params);
        for (size_t p = 0; p < params.size(); ++p) params[p].copy_(origin[p]);
        return Point{t, value, there.dot(h.d).item<double>(), there};
      };
      LineSearch line(at, {0, loss, slope, grad}, biggest(h.d), max_eval - evaluations, o.tolerance_change());
      const Point best = line.search(h.t);
      loss = best.loss, grad = best.grad, h.t = best.t, used = line.evaluations;
      move(params, h.t, h.d);
    } else {
      move(params, h.t, h.d);
      if (i + 1 < o.max_iter()) {
        loss = evaluate(closure).item<double>();
        grad = flat_grad(params);
        used = 1;
      }
    }
    evaluations += used;
    h.func_evals += used;
    if (evaluations >= max_eval || biggest(grad) <= o.tolerance_grad() || biggest(h.d * h.t) <= o.tolerance_change() ||
        std::fabs(loss - h.prev_loss) < o.tolerance_change())
      break;
  }
  state_of(params[0]).step = h.n_iter;  // so that an archive has a state of the first parameter
  return first_loss;
}

// ---- archives

Optimizer::StateNames LBFGS::state_names() const { return {false, {}}; }

void LBFGS::save_state(const State&, serialize::OutputArchive& archive) const {
  const History& h = *history_;
  archive.write("func_evals", IValue(h.func_evals));
  archive.write("n_iter", IValue(h.n_iter));
  archive.write("t", IValue(h.t));
  archive.write("prev_loss", IValue(h.prev_loss));
  const std::pair<const char*, const Tensor*> tensors[] = {
      {"d", &h.d}, {"H_diag", &h.H_diag}, {"prev_flat_grad", &h.prev_flat_grad}};
  for (const auto& [name, tensor] : tensors)
    if (tensor->defined()) archive.write(name, IValue(*tensor));
  const std::pair<const char*, const std::deque<Tensor>*> lists[] = {
      {"old_dirs", &h.old_dirs}, {"old_stps", &h.old_stps}, {"ro", &h.ro}};
  for (const auto& [name, list] : lists) archive.write(name, IValue(std::vector<Tensor>(list->begin(), list->end())));
}
void LBFGS::load_state(State& state, serialize::InputArchive& archive) const {
  History& h = *history_;
  const auto read = [&](const char* name) {
    IValue value;
    archive.read(name, value);
    return value;
  };
  h.func_evals = read("func_evals").toInt();
  h.n_iter = state.step = read("n_iter").toInt();
  h.t = read("t").toDouble();
  h.prev_loss = read("prev_loss").toDouble();
  const std::pair<const char*, Tensor*> tensors[] = {
      {"d", &h.d}, {"H_diag", &h.H_diag}, {"prev_flat_grad", &h.prev_flat_grad}};
  for (const auto& [name, tensor] : tensors) {
    tensor->reset();
    archive.try_read(name, *tensor);
  }
  const std::pair<const char*, std::deque<Tensor>*> lists[] = {
      {"old_dirs", &h.old_dirs}, {"old_stps", &h.old_stps}, {"ro", &h.ro}};
  for (const auto& [name, list] : lists) {
    list->clear();
    for (const IValue& item : read(name).toListRef()) list->push_back(item.toTensor());
  }
  FACULA_CHECK(h.old_dirs.size() == h.old_stps.size() && h.old_dirs.size() == h.ro.size(), ErrorKind::Runtime,
               "load: LBFGS: the lists of the last steps are of different lengths");
}

}  // namespace torch::optim
