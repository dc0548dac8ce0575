#include "program/modules.h"

#include <algorithm>
#include <set>

namespace facula {
namespace {

/// The part before a separator, which is taken from the text with it.
std::string_view consume(std::string_view& text, char separator) {
  const size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> called_modules(const Json& graph) {
  std::vector<std::pair<std::string, std::string>> found;
  std::set<std::string, std::less<>> known;
  std::set<std::string_view> stacks;
  for (const Json& node : graph.at("nodes").items()) {
    const Json* metadata = node.find("metadata");
    const Json* stack =
        metadata && metadata->kind() == Json::Kind::Object ? metadata->find("nn_module_stack") : nullptr;
    if (!stack || stack->kind() != Json::Kind::String || !stacks.insert(stack->to_string()).second) continue;
    for (std::string_view rest = stack->to_string(); !rest.empty();) {
      std::string_view entry = consume(rest, ';');  // a key, a path, a class
      consume(entry, ',');
      std::string_view path = consume(entry, ',');
      const std::string_view name = consume(path, '@');  // a further call of the same module has its number behind this
      if (known.emplace(name).second) found.emplace_back(name, entry);
    }
  }
  return found;
}

}  // namespace facula
