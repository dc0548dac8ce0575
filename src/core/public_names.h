// Maps private ops to the names under which users know them.
#pragma once

#include <string>
#include <string_view>

namespace facula {

struct OpInfo;
/// What is known of the first op of that name; null where there is none. Looks at all ops: for errors.
const OpInfo* find_op_info(std::string_view name);
/// The public name of a private op such as _cross_entropy; other names as they are.
std::string_view public_op_name(std::string_view op);
/// An error's text that begins with a private op's name, with the public one in its place.
std::string with_public_name(std::string_view text);

}  // namespace facula
