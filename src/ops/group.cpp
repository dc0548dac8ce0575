#include "ops/group.h"

namespace facula {

void collapse(Group& group, IntList sizes, const Dims& order) {
  std::vector<GroupValue*> placed;
  std::vector<Dims> strides;
  for (GroupValue& v : group.values) {
    if (!v.is_placed()) continue;
    placed.push_back(&v);
    strides.push_back(v.strides);
    v.strides.clear();
  }
  group.shape.clear();
  for (int64_t d : order) {
    if (sizes[d] == 1 && !(group.row && group.shape.empty())) continue;
    bool merges = group.shape.size() > (group.row ? 1u : 0u);
    for (size_t k = 0; k < placed.size(); ++k)
      merges = merges && placed[k]->strides.back() * group.shape.back() == strides[k][d];
    if (merges) {
      group.shape.back() *= sizes[d];
      continue;
    }
    group.shape.push_back(sizes[d]);
    for (size_t k = 0; k < placed.size(); ++k) placed[k]->strides.push_back(strides[k][d]);
  }
  if (!group.shape.empty()) return;
  group.shape.push_back(1);
  for (GroupValue* v : placed) v->strides.push_back(0);
}

}  // namespace facula
