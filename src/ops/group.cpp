#include "ops/group.h"

namespace facula {

void collapse(Group& group, IntList sizes, const Dims& order) {
  std::vector<Dims> strides;
  for (GroupValue& v : group.values) {
    if (v.kind != GroupValue::Kind::Stream) continue;
    strides.push_back(v.strides);
    v.strides.clear();
  }
  group.shape.clear();
  for (int64_t d : order) {
    if (sizes[d] == 1 && !(group.row && group.shape.empty())) continue;
    bool merges = group.shape.size() > (group.row ? 1u : 0u);
    size_t k = 0;
    for (const GroupValue& v : group.values) {
      if (v.kind != GroupValue::Kind::Stream) continue;
      merges = merges && v.strides.back() * group.shape.back() == strides[k][d];
      ++k;
    }
    if (merges) {
      group.shape.back() *= sizes[d];
      continue;
    }
    group.shape.push_back(sizes[d]);
    k = 0;
    for (GroupValue& v : group.values)
      if (v.kind == GroupValue::Kind::Stream) v.strides.push_back(strides[k++][d]);
  }
  if (!group.shape.empty()) return;
  group.shape.push_back(1);
  for (GroupValue& v : group.values)
    if (v.kind == GroupValue::Kind::Stream) v.strides.push_back(0);
}

}  // namespace facula
