// Writes pickles, the bytes of tensors beside them, and the source that says what the classes of a tree hold.
#include <cstring>

#include "core/tensor.h"
#include "cxx/pickle.h"
#include "program/archive_writer.h"

namespace torch::serialize::detail {
namespace {

using facula::ArchiveWriter;
using facula::ErrorKind;

const char* storage_name(ScalarType type) {
  switch (type) {
    case kFloat: return "FloatStorage";
    case kDouble: return "DoubleStorage";
    case kHalf: return "HalfStorage";
    case kBFloat16: return "BFloat16Storage";
    case kLong: return "LongStorage";
    case kInt: return "IntStorage";
    case kShort: return "ShortStorage";
    case kChar: return "CharStorage";
    case kByte: return "ByteStorage";
    case kBool: return "BoolStorage";
    case kComplexFloat: return "ComplexFloatStorage";
    case kComplexDouble: return "ComplexDoubleStorage";
    default: facula::throw_error(ErrorKind::NotImplemented, "save: tensors of dtype ", toString(type));
  }
}

/// The pickle of an archive, and the storages that it names.
class Pickler {
 public:
  explicit Pickler(bool typed_lists) : typed_lists_(typed_lists) { text_ = {'\x80', 2}; }
  void value(const IValue& v);
  void object(const Node& node, const std::string& module);
  std::string finish() { return std::move(text_) + "."; }
  void write_storages(ArchiveWriter& zip) const;
  size_t next_class = 0;

 private:
  void op(char code) { text_.push_back(code); }
  void fixed(uint64_t v, int bytes) {
    for (int i = 0; i < bytes; ++i) text_.push_back(static_cast<char>(v >> 8 * i));
  }
  void text(std::string_view s) {
    op('X');
    fixed(s.size(), 4);
    text_ += s;
  }
  void name(std::string_view module, std::string_view what) {
    op('c');
    ((text_ += module) += "\n");
    ((text_ += what) += "\n");
  }
  void integer(int64_t v) {
    if (v == static_cast<int32_t>(v)) {
      op('J');
      fixed(static_cast<uint64_t>(v), 4);
    } else {
      op('\x8a');
      fixed(8, 1);
      fixed(static_cast<uint64_t>(v), 8);
    }
  }
  void real(double v) {
    uint64_t bits;
    std::memcpy(&bits, &v, sizeof bits);
    op('G');
    for (int i = 7; i >= 0; --i) text_.push_back(static_cast<char>(bits >> 8 * i));
  }
  void sizes(IntArrayRef list) {
    op('(');
    for (const int64_t v : list) integer(v);
    op('t');
  }
  template <class List>
  void items(char begin, const List& list, const char* after) {
    op(begin);
    if (*after == 'e') op('(');
    for (const auto& item : list) value(IValue(item));
    text_ += after;
  }
  /// A list of one type: archives of modules say which.
  template <class List>
  void typed(const char* builder, const List& list) {
    if (!typed_lists_) return items(']', list, "e");
    name("torch.jit._pickle", builder);
    op('(');
    op(']');
    op('(');
    for (const auto& item : list) value(IValue(item));
    text_ += "etR";
  }
  void tensor(const Tensor& t);

  bool typed_lists_;
  std::string text_;
  std::vector<Tensor> storages_;  // tensors that hold them
  std::unordered_map<const void*, size_t> places_;
};

void Pickler::value(const IValue& v) {
  if (v.isNone()) op('N');
  else if (v.isTensor()) tensor(v.toTensor());
  else if (v.isDouble()) real(v.toDouble());
  else if (v.isInt()) integer(v.toInt());
  else if (v.isBool()) op(v.toBool() ? '\x88' : '\x89');
  else if (v.isString()) text(v.toStringRef());
  else if (v.isIntList()) typed("build_intlist", v.toIntVector());
  else if (v.isDoubleList()) typed("build_doublelist", v.toDoubleVector());
  else if (v.isBoolList()) typed("build_boollist", v.toBoolVector());
  else if (v.isTensorList()) typed("build_tensorlist", v.toTensorVector());
  else if (v.isTuple()) items('(', v.toTupleRef().elements(), "t");
  else if (v.isGenericDict()) {
    op('}');
    op('(');
    for (const auto& [key, item] : *v.toGenericDict().items()) {
      value(key);
      value(item);
    }
    op('u');
  } else {
    items(']', v.toListRef(), "e");
  }
}

void Pickler::tensor(const Tensor& t) {
  if (!t.defined()) return op('N');
  const Tensor detached = t.detach();
  facula::Tensor host = detached.is_cpu() ? detached.core() : detached.cpu().core();
  if (detached.is_conj()) host = detached.clone().core();
  facula::materialize(host);
  const auto [place, is_new] = places_.emplace(host.storage(), storages_.size());
  if (is_new) storages_.emplace_back(host);
  name("torch._utils", "_rebuild_tensor_v2");
  op('(');
  op('(');
  text("storage");
  name("torch", storage_name(t.scalar_type()));
  text(std::to_string(place->second));
  text(t.device().str());
  integer(static_cast<int64_t>(host.storage()->nbytes / elementSize(t.scalar_type())));
  text_ += "tQ";
  integer(host.storage_offset());
  sizes(host.sizes());
  sizes(host.strides());
  op(t.requires_grad() ? '\x88' : '\x89');
  name("collections", "OrderedDict");
  text_ += ")RtR";
}

void Pickler::write_storages(ArchiveWriter& zip) const {
  for (size_t i = 0; i < storages_.size(); ++i) {
    const facula::Storage* storage = storages_[i].core().storage();
    zip.add("data/" + std::to_string(i), storage->data, storage->nbytes);
  }
}

// ---- classes: the outermost is __torch__.Module, the others have a number in their module's name

std::string module_of(size_t number) {
  return number ? "__torch__.___torch_mangle_" + std::to_string(number - 1) : "__torch__";
}

void Pickler::object(const Node& node, const std::string& module) {
  name(module, "Module");
  text_ += ")\x81}(";
  for (const Node::Item& item : node.items) {
    text(item.name);
    if (item.nested) object(*item.nested, module_of(++next_class));
    else value(item.value);
  }
  text_ += "ub";
}

bool is_identifier(const std::string& name) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) return false;
  for (const char c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
  return true;
}
std::string type_text(const IValue& v) {
  if (v.isNone()) return "NoneType";
  if (v.isTensor()) return "Tensor";
  if (v.isDouble()) return "float";
  if (v.isInt()) return "int";
  if (v.isBool()) return "bool";
  if (v.isString()) return "str";
  if (v.isIntList()) return "List[int]";
  if (v.isDoubleList()) return "List[float]";
  if (v.isBoolList()) return "List[bool]";
  if (v.isTensorList()) return "List[Tensor]";
  if (v.isTuple()) {
    std::string text = "Tuple[";
    for (const IValue& item : v.toTupleRef().elements()) text += (text.back() == '[' ? "" : ", ") + type_text(item);
    return text + "]";
  }
  facula::throw_error(ErrorKind::NotImplemented, "save: an archive with a value of kind ", v.tagKind());
}

std::string quoted(const Node& node, Node::Kind kind) {
  std::string text = "[";
  for (const Node::Item& item : node.items)
    if (item.kind == kind) text += "\"" + item.name + "\", ";
  return text + "]";
}

/// The source of a class, and of those inside it.
void write_class(const Node& node, size_t own, size_t& last, ArchiveWriter& zip) {
  std::string text = "class Module(Module):\n  __parameters__ = " + quoted(node, Node::Kind::Parameter) +
                     "\n  __buffers__ = " + quoted(node, Node::Kind::Buffer) + "\n";
  std::string awkward;
  std::vector<std::pair<const Node*, size_t>> inside;
  for (const Node::Item& item : node.items) {
    const size_t first = last + 1;
    if (item.nested) write_class(*item.nested, ++last, last, zip);
    const std::string type = item.nested ? module_of(first) + ".Module" : type_text(item.value);
    if (is_identifier(item.name)) text += "  " + item.name + " : " + type + "\n";
    else awkward += "  __annotations__[\"" + item.name + "\"] = " + type + "\n";
  }
  if (!awkward.empty()) text += "  __annotations__ = []\n" + awkward;
  const std::string file =
      own ? "code/__torch__/___torch_mangle_" + std::to_string(own - 1) + ".py" : "code/__torch__.py";
  zip.add(file, text);
}

}  // namespace

void write_tree(const Node& tree, const Sink& sink) {
  ArchiveWriter zip(sink, "archive");
  Pickler pickler(true);
  pickler.object(tree, module_of(0));
  zip.add("data.pkl", pickler.finish());
  zip.add("byteorder", std::string_view("little"));
  pickler.write_storages(zip);
  size_t last = 0;
  write_class(tree, 0, last, zip);
  zip.add("constants.pkl", std::string_view("\x80\x02).", 4));
  zip.add("version", std::string_view("3\n"));
  zip.finish();
}

void write_value(const IValue& value, const Sink& sink) {
  ArchiveWriter zip(sink, "archive");
  Pickler pickler(false);
  pickler.value(value);
  zip.add("data.pkl", pickler.finish());
  zip.add("byteorder", std::string_view("little"));
  pickler.write_storages(zip);
  zip.add("version", std::string_view("3\n"));
  zip.finish();
}

}  // namespace torch::serialize::detail
