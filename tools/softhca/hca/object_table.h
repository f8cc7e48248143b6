// Objects of one kind by number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

namespace softhca::hca {

// Numbers first .. first+limit-1. A freed number waits until kQuarantine others have been freed after it or no fresh
// one is left, so that a stale number in a packet, a CQE or a program is found out rather than taken for a new object.
class NumberPool {
 public:
  static constexpr std::size_t kQuarantine = 64;

  NumberPool(std::uint32_t first, std::uint32_t limit) : next_(first), end_(first + limit) {}

  // False if all are in use.
  bool take(std::uint32_t& number) {
    if (freed_.size() > kQuarantine || (next_ == end_ && !freed_.empty())) {
      number = freed_.front();
      freed_.pop_front();
      return true;
    }
    if (next_ == end_) {
      return false;
    }
    number = next_++;
    return true;
  }
  void give_back(std::uint32_t number) { freed_.push_back(number); }
  // Takes a number that was given back. False if it is in use or was never taken.
  bool take_again(std::uint32_t number) { return std::erase(freed_, number) != 0; }

 private:
  std::uint32_t next_;
  std::uint32_t end_;
  std::deque<std::uint32_t> freed_;
};

// Owns the objects. Not thread-safe. Pointers to objects are stable until erase().
template <typename Object>
class ObjectTable {
 public:
  ObjectTable(std::uint32_t first, std::uint32_t limit) : first_(first), numbers_(first, limit) {}

  // Null if there is none.
  Object* find(std::uint32_t number) const {
    const std::uint32_t index = number - first_;  // wraps to a large index below `first`
    return index < objects_.size() ? objects_[index].get() : nullptr;
  }

  // Takes the object in; false, and `object` untouched, if all numbers are in use.
  bool insert(std::unique_ptr<Object>& object, std::uint32_t& number) {
    if (!numbers_.take(number)) {
      return false;
    }
    if (number - first_ >= objects_.size()) {
      objects_.resize(number - first_ + 1);
    }
    objects_[number - first_] = std::move(object);
    return true;
  }

  // Takes the object in under a number that an erased one had. False, and `object` untouched, if it is none.
  bool insert_at(std::unique_ptr<Object>& object, std::uint32_t number) {
    if (!numbers_.take_again(number)) {
      return false;
    }
    objects_[number - first_] = std::move(object);
    return true;
  }

  void erase(std::uint32_t number) {
    objects_[number - first_].reset();
    numbers_.give_back(number);
  }

  template <typename Visitor>
  void for_each(Visitor visit) {
    for (auto& object : objects_) {
      if (object) {
        visit(*object);
      }
    }
  }

 private:
  std::uint32_t first_;
  NumberPool numbers_;
  std::vector<std::unique_ptr<Object>> objects_;
};

}  // namespace softhca::hca
