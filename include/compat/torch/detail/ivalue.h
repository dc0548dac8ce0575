// A value of one of several types: what functions of autograd keep, archives hold, and programs take and give.
#pragma once

#include <torch/detail/tensor.h>

#include <unordered_map>
#include <variant>

namespace torch {

class IValue;
template <class Key, class Value>
class Dict;
template <class T>
class List;
namespace impl {
using GenericDict = Dict<IValue, IValue>;
using GenericList = List<IValue>;
}  // namespace impl
namespace ivalue {
class Tuple;
}
namespace jit {
class Module;
}

class IValue {
 public:
  IValue() = default;
  IValue(nullopt_t) {}
  IValue(Tensor t) : value_(std::move(t)) {}
  template <class T>
    requires std::is_floating_point_v<T>
  IValue(T number) : value_(static_cast<double>(number)) {}
  template <class T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
  IValue(T number) : value_(static_cast<int64_t>(number)) {}
  template <class T>
    requires std::is_same_v<T, bool>
  IValue(T yes) : value_(yes) {}
  IValue(std::string text) : value_(std::move(text)) {}
  IValue(const char* text) : value_(std::string(text)) {}
  IValue(const Scalar& s);
  IValue(std::vector<int64_t> list) : value_(std::move(list)) {}
  IValue(IntArrayRef list) : value_(list.vec()) {}
  IValue(std::vector<double> list) : value_(std::move(list)) {}
  IValue(std::vector<bool> list) : value_(std::move(list)) {}
  IValue(std::vector<Tensor> list) : value_(std::move(list)) {}
  IValue(std::vector<IValue> list);
  IValue(const impl::GenericList& list);
  IValue(const impl::GenericDict& dict);
  IValue(std::shared_ptr<ivalue::Tuple> tuple) : value_(std::move(tuple)) {}
  IValue(const jit::Module& module);
  template <class... T>
  IValue(const std::tuple<T...>& tuple)
      : IValue(tuple_of(std::apply([](const auto&... each) { return std::vector<IValue>{IValue(each)...}; }, tuple))) {}
  template <class T>
  IValue(const optional<T>& value) {
    if (value) *this = IValue(*value);
  }

  bool isNone() const { return std::holds_alternative<std::monostate>(value_); }
  bool isTensor() const { return std::holds_alternative<Tensor>(value_); }
  bool isDouble() const { return std::holds_alternative<double>(value_); }
  bool isInt() const { return std::holds_alternative<int64_t>(value_); }
  bool isBool() const { return std::holds_alternative<bool>(value_); }
  bool isString() const { return std::holds_alternative<std::string>(value_); }
  bool isIntList() const { return std::holds_alternative<std::vector<int64_t>>(value_); }
  bool isDoubleList() const { return std::holds_alternative<std::vector<double>>(value_); }
  bool isBoolList() const { return std::holds_alternative<std::vector<bool>>(value_); }
  bool isTensorList() const { return std::holds_alternative<std::vector<Tensor>>(value_); }
  bool isTuple() const { return std::holds_alternative<std::shared_ptr<ivalue::Tuple>>(value_); }
  bool isGenericDict() const { return std::holds_alternative<DictItems>(value_); }
  bool isList() const { return std::holds_alternative<ListItems>(value_) || isTensorList() || isIntList(); }
  bool isModule() const { return std::holds_alternative<std::shared_ptr<jit::Module>>(value_); }
  bool isScalar() const { return isDouble() || isInt() || isBool(); }

  const Tensor& toTensor() const { return get<Tensor>("a tensor"); }
  double toDouble() const { return get<double>("a floating-point number"); }
  int64_t toInt() const { return get<int64_t>("an integer"); }
  bool toBool() const { return get<bool>("a bool"); }
  const std::string& toStringRef() const { return get<std::string>("a string"); }
  const std::vector<int64_t>& toIntVector() const { return get<std::vector<int64_t>>("a list of integers"); }
  const std::vector<double>& toDoubleVector() const { return get<std::vector<double>>("a list of numbers"); }
  const std::vector<bool>& toBoolVector() const { return get<std::vector<bool>>("a list of bools"); }
  const std::vector<Tensor>& toTensorVector() const { return get<std::vector<Tensor>>("a list of tensors"); }
  const std::shared_ptr<ivalue::Tuple>& toTuple() const { return get<std::shared_ptr<ivalue::Tuple>>("a tuple"); }
  const ivalue::Tuple& toTupleRef() const { return *toTuple(); }
  jit::Module toModule() const;
  impl::GenericDict toGenericDict() const;
  /// The items of a list of any kind.
  impl::GenericList toList() const;
  std::vector<IValue> toListRef() const;
  List<Tensor> toTensorList() const;
  List<int64_t> toIntList() const;
  List<double> toDoubleList() const;
  Scalar toScalar() const;
  template <class T>
  T to() const;
  const char* tagKind() const;

  // What lists and dictionaries share among their copies.
  using ListItems = std::shared_ptr<std::vector<IValue>>;
  using DictItems = std::shared_ptr<std::vector<std::pair<IValue, IValue>>>;

 private:
  static std::shared_ptr<ivalue::Tuple> tuple_of(std::vector<IValue> elements);
  template <class T>
  const T& get(const char* what) const {
    const T* found = std::get_if<T>(&value_);
    if (!found) refuse(what);
    return *found;
  }
  [[noreturn]] void refuse(const char* what) const;
  std::variant<std::monostate, Tensor, double, int64_t, bool, std::string, std::vector<int64_t>, std::vector<double>,
               std::vector<bool>, std::vector<Tensor>, std::shared_ptr<ivalue::Tuple>, ListItems, DictItems,
               std::shared_ptr<jit::Module>>
      value_;
};
bool operator==(const IValue& a, const IValue& b);

namespace ivalue {
class Tuple {
 public:
  explicit Tuple(std::vector<IValue> elements) : elements_(std::move(elements)) {}
  static std::shared_ptr<Tuple> create(std::vector<IValue> elements) {
    return std::make_shared<Tuple>(std::move(elements));
  }
  const std::vector<IValue>& elements() const& { return elements_; }
  std::vector<IValue> elements() && { return std::move(elements_); }
  size_t size() const { return elements_.size(); }

 private:
  std::vector<IValue> elements_;
};
}  // namespace ivalue

/// A list whose copies are the same list.
template <class T>
class List {
 public:
  List() : items_(std::make_shared<std::vector<T>>()) {}
  List(std::initializer_list<T> items) : items_(std::make_shared<std::vector<T>>(items)) {}
  explicit List(ArrayRef<T> items) : items_(std::make_shared<std::vector<T>>(items.begin(), items.end())) {}
  explicit List(std::shared_ptr<std::vector<T>> items) : items_(std::move(items)) {}
  void push_back(T item) const { items_->push_back(std::move(item)); }
  void emplace_back(T item) const { push_back(std::move(item)); }
  void reserve(size_t n) const { items_->reserve(n); }
  T get(size_t i) const { return items_->at(i); }
  T& operator[](size_t i) const { return items_->at(i); }
  size_t size() const { return items_->size(); }
  bool empty() const { return items_->empty(); }
  auto begin() const { return items_->begin(); }
  auto end() const { return items_->end(); }
  const std::vector<T>& vec() const { return *items_; }
  const std::shared_ptr<std::vector<T>>& items() const { return items_; }

 private:
  std::shared_ptr<std::vector<T>> items_;
};

/// A dictionary whose copies are the same, in the order in which its items came.
template <class Key, class Value>
class Dict {
 public:
  class Entry {
   public:
    explicit Entry(const std::pair<IValue, IValue>* item) : item_(item) {}
    Key key() const { return item_->first.template to<Key>(); }
    Value value() const { return item_->second.template to<Value>(); }

   private:
    const std::pair<IValue, IValue>* item_;
  };
  class iterator {
   public:
    explicit iterator(const std::pair<IValue, IValue>* at) : at_(at) {}
    Entry operator*() const { return Entry(at_); }
    iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator==(const iterator&) const = default;

   private:
    const std::pair<IValue, IValue>* at_;
  };
  Dict() : items_(std::make_shared<std::vector<std::pair<IValue, IValue>>>()) {}
  explicit Dict(IValue::DictItems items) : items_(std::move(items)) {}
  void insert(const Key& key, const Value& value) const {
    if (!contains(key)) items_->emplace_back(IValue(key), IValue(value));
  }
  void insert_or_assign(const Key& key, const Value& value) const {
    if (auto* found = place(key)) found->second = IValue(value);
    else items_->emplace_back(IValue(key), IValue(value));
  }
  bool contains(const Key& key) const { return place(key) != nullptr; }
  Value at(const Key& key) const {
    const auto* found = place(key);
    FACULA_CHECK(found, facula::ErrorKind::Index, "Dict.at: the key is not in the dictionary");
    return found->second.template to<Value>();
  }
  size_t size() const { return items_->size(); }
  bool empty() const { return items_->empty(); }
  iterator begin() const { return iterator(items_->data()); }
  iterator end() const { return iterator(items_->data() + items_->size()); }
  const IValue::DictItems& items() const { return items_; }

 private:
  std::pair<IValue, IValue>* place(const Key& key) const {
    for (auto& item : *items_)
      if (item.first == IValue(key)) return &item;
    return nullptr;
  }
  IValue::DictItems items_;
};

template <class T>
T IValue::to() const {
  if constexpr (std::is_same_v<T, IValue>) return *this;
  else if constexpr (std::is_same_v<T, bool>) return toBool();
  else if constexpr (std::is_integral_v<T>) return static_cast<T>(toInt());
  else if constexpr (std::is_floating_point_v<T>) return static_cast<T>(toDouble());
  else if constexpr (std::is_same_v<T, std::string>) return toStringRef();
  else if constexpr (std::is_same_v<T, std::vector<int64_t>>) return toIntVector();
  else if constexpr (std::is_same_v<T, std::vector<double>>) return toDoubleVector();
  else if constexpr (std::is_same_v<T, std::vector<Tensor>>) return toTensorVector();
  else if constexpr (std::is_same_v<T, Scalar>) return toScalar();
  else {
    static_assert(std::is_same_v<T, Tensor>);
    return toTensor();
  }
}

}  // namespace torch
