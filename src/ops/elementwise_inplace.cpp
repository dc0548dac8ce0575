// In-place forms of composites that would otherwise compute beside the tensor and copy.
#include "core/error.h"
#include "core/number.h"
#include "raw_elementwise.h"

namespace facula::ops {

void clamp_(const Tensor& self, const std::optional<Scalar>& min, const std::optional<Scalar>& max) {
  FACULA_CHECK(min || max, ErrorKind::Runtime, "clamp_: expected min, max or both, got None for both");
  for (const auto& bound : {min, max}) {
    FACULA_CHECK(!bound || !bound->is_complex() || !self.is_floating(), ErrorKind::Runtime,
                 "clamp_: real bounds for a tensor of ", self.dtype(), ", got ", *bound);
    if (bound) require_value_if_kept(*bound, self.dtype(), "clamp_");
  }
  if (min && max) _clamp_into(self, Into::Part, self, *min, *max);
  else if (min) clamp_min_into(self, Into::Part, self, *min);
  else clamp_max_into(self, Into::Part, self, *max);
}

}  // namespace facula::ops
