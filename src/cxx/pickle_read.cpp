// Reads pickles: a stack machine whose values lie in a list that ends with it.
#include <cstring>
#include <deque>

#include "core/tensor.h"
#include "cxx/pickle.h"
#include "program/archive.h"

namespace torch::serialize::detail {
namespace {

using facula::ErrorKind;

constexpr uint64_t kMostPickle = 1 << 30, kMostByteOrder = 100;  // bytes
constexpr int kDeepest = 200;                                    // lists in lists
constexpr size_t kMostValuesPerByte = 8;                         // what is shared in a pickle is written out: so often

/// A value on the stack.
struct PickleValue {
  enum class Kind { Plain, Tuple, List, Dict, Name, Storage, Object, Mark } kind = Kind::Plain;
  IValue plain;
  std::string text{};                 // of a name
  std::vector<PickleValue*> items{};  // of a list; of a dictionary keys and values in turns; of an object what it holds
  facula::Tensor storage{};           // as bytes
  ScalarType type = kFloat;           // of the storage
  bool is_parameter = false;
};
using Kind = PickleValue::Kind;

struct StorageName {
  const char* name;
  ScalarType type;
};
constexpr StorageName kStorages[] = {
    {"torch FloatStorage", kFloat},
    {"torch DoubleStorage", kDouble},
    {"torch HalfStorage", kHalf},
    {"torch BFloat16Storage", kBFloat16},
    {"torch LongStorage", kLong},
    {"torch IntStorage", kInt},
    {"torch ShortStorage", kShort},
    {"torch CharStorage", kChar},
    {"torch ByteStorage", kByte},
    {"torch BoolStorage", kBool},
    {"torch ComplexFloatStorage", kComplexFloat},
    {"torch ComplexDoubleStorage", kComplexDouble},
};
constexpr std::string_view kObjects = "__torch__";
constexpr std::string_view kBehindLists[] = {"torch.jit._pickle build_intlist", "torch.jit._pickle build_doublelist",
                                             "torch.jit._pickle build_boollist", "torch.jit._pickle build_tensorlist",
                                             "torch.jit._pickle restore_type_tag"};

/// The folder that all records of an archive are in, with its slash.
std::string folder_of(const facula::Archive& archive) {
  for (const auto& [name, record] : archive.records())
    if (name == "data.pkl" || name.substr(name.find('/') + 1) == "data.pkl") return name.substr(0, name.size() - 8);
  facula::throw_error(ErrorKind::Runtime, "archive: it has no data.pkl");
}

class Machine {
 public:
  Machine(const facula::Archive& archive, optional<Device> device)
      : archive_(archive),
        folder_(folder_of(archive)),
        pickle_(archive.read(folder_ + "data.pkl", kMostPickle)),
        code_(pickle_),
        device_(std::move(device)) {
    const std::string order = folder_ + "byteorder";
    FACULA_CHECK(!archive.has(order) || archive.read(order, kMostByteOrder) == "little", ErrorKind::Runtime,
                 "archive: it is of a machine of another byte order");
  }
  PickleValue* run();
  IValue made(const PickleValue* value, int depth = 0);
  void fill(Node& node, const PickleValue* object, int depth = 0);
  void fill_from_dict(Node& node, const PickleValue* dict);

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    facula::throw_error(ErrorKind::Runtime, "archive: data.pkl at ", at_, ": ", parts...);
  }
  std::string_view consume(uint64_t size) {
    if (size > code_.size() - at_) refuse("it ends too early");
    at_ += size;
    return code_.substr(at_ - size, size);
  }
  uint64_t number(int bytes) {
    uint64_t v = 0;
    const std::string_view raw = consume(static_cast<uint64_t>(bytes));
    for (int i = 0; i < bytes; ++i) v |= uint64_t{static_cast<unsigned char>(raw[static_cast<size_t>(i)])} << 8 * i;
    return v;
  }
  std::string_view line() {
    const size_t end = code_.find('\n', at_);
    if (end == std::string_view::npos) refuse("a name without end");
    const std::string_view text = consume(end - at_);
    consume(1);
    return text;
  }
  PickleValue* add(Kind kind) {
    values_.emplace_back();
    values_.back().kind = kind;
    return &values_.back();
  }
  void push(PickleValue* value) { stack_.push_back(value); }
  void push(IValue plain) {
    PickleValue* value = add(Kind::Plain);
    value->plain = std::move(plain);
    push(value);
  }
  PickleValue* pop() {
    if (stack_.empty()) refuse("nothing is on the stack");
    PickleValue* top = stack_.back();
    stack_.pop_back();
    return top;
  }
  PickleValue* top(Kind kind) {
    if (stack_.empty() || stack_.back()->kind != kind) refuse("another kind of value is expected");
    return stack_.back();
  }
  std::vector<PickleValue*> pop_to_mark() {
    size_t mark = stack_.size();
    while (mark && stack_[mark - 1]->kind != Kind::Mark) --mark;
    if (!mark) refuse("no mark is on the stack");
    std::vector<PickleValue*> items(stack_.begin() + static_cast<std::ptrdiff_t>(mark), stack_.end());
    stack_.resize(mark - 1);
    return items;
  }
  void tuple(std::vector<PickleValue*> items) {
    PickleValue* value = add(Kind::Tuple);
    value->items = std::move(items);
    push(value);
  }
  void remember(uint64_t place) {
    if (stack_.empty()) refuse("nothing is on the stack");
    memo_[place] = stack_.back();
  }
  void recall(uint64_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) refuse("value ", place, " was not stored before");
    push(found->second);
  }
  bool step();
  bool number_or_text(unsigned char op);
  bool collection(unsigned char op);
  void name(std::string text);
  void call();
  void build();
  void load_storage();
  void rebuild_tensor(const std::vector<PickleValue*>& arguments);
  const std::vector<PickleValue*>& items_of(const PickleValue* value, Kind kind, size_t least) const {
    if (value->kind != kind || value->items.size() < least) refuse("other arguments are expected");
    return value->items;
  }
  std::vector<int64_t> sizes_of(const PickleValue* value) const;

  const facula::Archive& archive_;
  const std::string folder_, pickle_;
  const std::string_view code_;
  optional<Device> device_;
  uint64_t at_ = 0;
  size_t made_ = 0;
  std::deque<PickleValue> values_;
  std::vector<PickleValue*> stack_;
  std::unordered_map<uint64_t, PickleValue*> memo_;
  std::unordered_map<std::string, PickleValue*> storages_;
};

PickleValue* Machine::run() {
  while (step()) continue;
  return pop();
}

bool Machine::step() {
  const auto op = static_cast<unsigned char>(consume(1)[0]);
  switch (op) {
    case 0x80: consume(1); return true;  // the version
    case 0x95: consume(8); return true;  // a frame
    case '.': return false;
    case '(': push(add(Kind::Mark)); return true;
    case '0': pop(); return true;
    case 'c': {
      const std::string module(line());
      name(module + " " + std::string(line()));
      return true;
    }
    case 0x93: {
      const IValue second = pop()->plain, first = pop()->plain;
      name(first.toStringRef() + " " + second.toStringRef());
      return true;
    }
    case 'q': remember(number(1)); return true;
    case 'r': remember(number(4)); return true;
    case 0x94: remember(memo_.size()); return true;
    case 'h': recall(number(1)); return true;
    case 'j': recall(number(4)); return true;
    case 'R':
    case 0x81: call(); return true;
    case 'b': build(); return true;
    case 'Q': load_storage(); return true;
    default: break;
  }
  if (!number_or_text(op) && !collection(op)) refuse("instruction ", int{op}, " is not known");
  return true;
}

bool Machine::number_or_text(unsigned char op) {
  switch (op) {
    case 'N': push(IValue()); return true;
    case 0x88: push(true); return true;
    case 0x89: push(false); return true;
    case 'J': push(static_cast<int64_t>(static_cast<int32_t>(number(4)))); return true;
    case 'K': push(static_cast<int64_t>(number(1))); return true;
    case 'M': push(static_cast<int64_t>(number(2))); return true;
    case 0x8a: {
      const auto bytes = static_cast<int>(number(1));
      if (bytes > 8) refuse("an integer of ", bytes, " bytes");
      uint64_t v = number(bytes);
      if (bytes && bytes < 8 && v >> (8 * bytes - 1)) v |= ~uint64_t{0} << 8 * bytes;
      push(static_cast<int64_t>(v));
      return true;
    }
    case 'G': {
      uint64_t bits = 0;
      for (const char c : consume(8)) bits = bits << 8 | static_cast<unsigned char>(c);
      double v;
      std::memcpy(&v, &bits, sizeof v);
      push(v);
      return true;
    }
    case 'X': push(std::string(consume(number(4)))); return true;
    case 0x8c: push(std::string(consume(number(1)))); return true;
    default: return false;
  }
}

bool Machine::collection(unsigned char op) {
  switch (op) {
    case ')': tuple({}); return true;
    case 't': tuple(pop_to_mark()); return true;
    case 0x85:
    case 0x86:
    case 0x87: {
      std::vector<PickleValue*> items(op - 0x84u);
      for (size_t i = items.size(); i-- > 0;) items[i] = pop();
      tuple(std::move(items));
      return true;
    }
    case ']': push(add(Kind::List)); return true;
    case '}': push(add(Kind::Dict)); return true;
    case 'a': {
      PickleValue* item = pop();
      top(Kind::List)->items.push_back(item);
      return true;
    }
    case 'e': {
      const auto items = pop_to_mark();
      auto& to = top(Kind::List)->items;
      to.insert(to.end(), items.begin(), items.end());
      return true;
    }
    case 's': {
      PickleValue *value = pop(), *key = pop();
      auto& to = top(Kind::Dict)->items;
      to.insert(to.end(), {key, value});
      return true;
    }
    case 'u': {
      const auto items = pop_to_mark();
      if (items.size() % 2) refuse("a key without value");
      auto& to = top(Kind::Dict)->items;
      to.insert(to.end(), items.begin(), items.end());
      return true;
    }
    default: return false;
  }
}

void Machine::name(std::string text) {
  PickleValue* value = add(Kind::Name);
  value->text = std::move(text);
  push(value);
}

void Machine::call() {
  PickleValue *arguments = pop(), *callee = pop();
  const auto& items = items_of(arguments, Kind::Tuple, 0);
  if (callee->kind != Kind::Name) refuse("a name is expected before its arguments");
  const std::string& what = callee->text;
  for (const std::string_view list : kBehindLists)
    if (what == list) return push(items_of(arguments, Kind::Tuple, 1)[0]);
  if (what == "torch._utils _rebuild_tensor_v2") return rebuild_tensor(items);
  if (what == "torch._utils _rebuild_parameter") {
    PickleValue* tensor = items_of(arguments, Kind::Tuple, 2)[0];
    tensor->is_parameter = true;
    if (tensor->plain.isTensor() && items[1]->plain.isBool())
      tensor->plain.toTensor().detach_().set_requires_grad(items[1]->plain.toBool());
    return push(tensor);
  }
  if (what == "collections OrderedDict") return push(add(Kind::Dict));
  if (what == "torch device") return push(items_of(arguments, Kind::Tuple, 1)[0]);
  if (what.compare(0, kObjects.size(), kObjects) == 0) return push(add(Kind::Object));
  refuse("'", what, "' is not among the names that archives may use");
}

void Machine::build() {
  PickleValue *state = pop(), *object = stack_.empty() ? pop() : stack_.back();
  if (object->kind == Kind::Dict) return;  // a dictionary has a state besides its items
  if (object->kind != Kind::Object || state->kind != Kind::Dict) refuse("an object and its state are expected");
  object->items = state->items;
}

void Machine::load_storage() {
  const PickleValue* id = pop();
  const auto& parts = items_of(id, Kind::Tuple, 5);
  if (!parts[0]->plain.isString() || parts[0]->plain.toStringRef() != "storage") refuse("a storage is expected");
  const std::string& key = parts[2]->plain.toStringRef();
  if (const auto found = storages_.find(key); found != storages_.end()) return push(found->second);
  const StorageName* known = nullptr;
  for (const StorageName& each : kStorages)
    if (parts[1]->text == each.name) known = &each;
  if (!known) refuse("a storage of ", parts[1]->text);
  const auto stored = archive_.storage(folder_ + "data/" + key, false);
  const auto bytes = static_cast<int64_t>(stored->nbytes);
  const int64_t count = parts[4]->plain.toInt(), item = static_cast<int64_t>(elementSize(known->type));
  if (count < 0 || count != bytes / item) refuse("storage ", key, " of ", count, " elements has ", bytes, " bytes");
  const Device home = device_ ? *device_ : Device(parts[3]->plain.toStringRef());
  Tensor raw(facula::tensor_on_storage(stored.get(), facula::DType::UInt8, 0, {bytes}, {1}, "load"));
  if (!home.is_cpu()) raw = raw.to(home);
  PickleValue* storage = add(Kind::Storage);
  storage->storage = raw.core();
  storage->type = known->type;
  storages_.emplace(key, storage);
  push(storage);
}

std::vector<int64_t> Machine::sizes_of(const PickleValue* value) const {
  std::vector<int64_t> sizes;
  for (const PickleValue* item : items_of(value, Kind::Tuple, 0)) sizes.push_back(item->plain.toInt());
  return sizes;
}

void Machine::rebuild_tensor(const std::vector<PickleValue*>& arguments) {
  if (arguments.size() < 5 || arguments[0]->kind != Kind::Storage) refuse("the parts of a tensor are expected");
  const PickleValue* from = arguments[0];
  const auto sizes = sizes_of(arguments[2]), strides = sizes_of(arguments[3]);
  if (sizes.size() != strides.size()) refuse("as many strides as sizes are expected");
  Tensor t(facula::tensor_on_storage(from->storage.storage(), torch::detail::dtype_of(from->type),
                                     arguments[1]->plain.toInt(), torch::detail::in(IntArrayRef(sizes)),
                                     torch::detail::in(IntArrayRef(strides)), "load"));
  if (arguments[4]->plain.toBool()) t.set_requires_grad(true);
  push(IValue(t));
}

// ---- what it became

template <class T, class Get>
optional<std::vector<T>> all_of(const std::vector<IValue>& items, bool (IValue::*is)() const, Get&& get) {
  std::vector<T> found;
  for (const IValue& item : items) {
    if (!(item.*is)()) return nullopt;
    found.push_back(get(item));
  }
  return found;
}
IValue list_of(std::vector<IValue> items) {
  if (items.empty()) return IValue(std::move(items));
  if (auto list = all_of<Tensor>(items, &IValue::isTensor, [](const IValue& v) { return v.toTensor(); })) return *list;
  if (auto list = all_of<int64_t>(items, &IValue::isInt, [](const IValue& v) { return v.toInt(); })) return *list;
  if (auto list = all_of<double>(items, &IValue::isDouble, [](const IValue& v) { return v.toDouble(); })) return *list;
  if (auto list = all_of<bool>(items, &IValue::isBool, [](const IValue& v) { return v.toBool(); })) return *list;
  return IValue(std::move(items));
}

IValue Machine::made(const PickleValue* value, int depth) {
  if (depth > kDeepest) refuse("values are nested more than ", kDeepest, " deep");
  if (++made_ > kMostValuesPerByte * code_.size()) refuse("it stands for too many values");
  if (value->kind == Kind::Plain) return value->plain;
  if (value->kind == Kind::Dict || value->kind == Kind::Object) {
    impl::GenericDict dict;
    for (size_t i = 0; i + 1 < value->items.size(); i += 2)
      dict.items()->emplace_back(made(value->items[i], depth + 1), made(value->items[i + 1], depth + 1));
    return dict;
  }
  if (value->kind != Kind::List && value->kind != Kind::Tuple) refuse("a value is expected");
  std::vector<IValue> items;
  for (const PickleValue* item : value->items) items.push_back(made(item, depth + 1));
  return value->kind == Kind::Tuple ? IValue(ivalue::Tuple::create(std::move(items))) : list_of(std::move(items));
}

void Machine::fill(Node& node, const PickleValue* object, int depth) {
  if (depth > kDeepest) refuse("modules are nested more than ", kDeepest, " deep");
  for (size_t i = 0; i + 1 < object->items.size(); i += 2) {
    const std::string& key = object->items[i]->plain.toStringRef();
    const PickleValue* value = object->items[i + 1];
    if (value->kind != Kind::Object) {
      node.put(key, Node::Kind::Value).value = made(value);
      continue;
    }
    if (++made_ > kMostValuesPerByte * code_.size()) refuse("it stands for too many values");
    auto nested = std::make_shared<Node>();
    fill(*nested, value, depth + 1);
    node.put(key, Node::Kind::Nested).nested = std::move(nested);
  }
}

void Machine::fill_from_dict(Node& root, const PickleValue* dict) {
  for (size_t i = 0; i + 1 < dict->items.size(); i += 2) {
    const std::string& path = dict->items[i]->plain.toStringRef();
    if (std::count(path.begin(), path.end(), '.') > kDeepest) refuse("names are nested more than ", kDeepest, " deep");
    Node* node = &root;
    size_t begin = 0;
    for (size_t dot = path.find('.'); dot != std::string::npos; begin = dot + 1, dot = path.find('.', begin)) {
      const std::string part = path.substr(begin, dot - begin);
      Node::Item* item = node->find(part);
      if (!item || !item->nested) (item = &node->put(part, Node::Kind::Nested))->nested = std::make_shared<Node>();
      node = item->nested.get();
    }
    node->put(path.substr(begin), Node::Kind::Value).value = made(dict->items[i + 1]);
  }
}

}  // namespace

std::shared_ptr<Node> read_tree(std::string_view archive, const optional<Device>& device) {
  const facula::Archive zip(facula::ByteSource::memory(archive), true);
  Machine machine(zip, device);
  const PickleValue* top = machine.run();
  auto tree = std::make_shared<Node>();
  if (top->kind == Kind::Object) machine.fill(*tree, top);
  else if (top->kind == Kind::Dict) machine.fill_from_dict(*tree, top);
  else
    facula::throw_error(ErrorKind::Runtime,
                        "archive: a module or a dictionary of tensors is expected, got another value");
  return tree;
}

IValue read_value(std::string_view archive) {
  const facula::Archive zip(facula::ByteSource::memory(archive), true);
  Machine machine(zip, nullopt);
  return machine.made(machine.run());
}

}  // namespace torch::serialize::detail
