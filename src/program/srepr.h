// Reads sizes in files, which are written as SymPy's srepr: "Mul(Integer(2), Symbol('s0', positive=True,
// integer=True))".
#pragma once

#include <optional>
#include <string_view>

#include "program/expr.h"

namespace facula {

/// None for what cannot be read: functions that sizes of programs do not have, and expressions beyond any program's.
std::optional<Expr> parse_srepr(std::string_view text);

}  // namespace facula
