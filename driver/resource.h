// Life of driver objects: who holds them, and what happens when they are destroyed in the wrong order.
#pragma once

#include <boost/intrusive/list.hpp>
#include <utility>

#include "uapi/error.h"

namespace umlx5 {

using ResourceHook = boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::safe_link>>;

// Sole owner of a driver object T that its Context keeps in a list. Move-only.
// destroy() may refuse (EBUSY: something still uses the object, named in the text); the object then lives on and
// destroy() may be called again. The destructor calls destroy(); if that refuses, the refusal is logged and the object
// is left to its Context, which takes everything down in the right order when it closes.
template <typename T>
class Owned {
 public:
  Owned() = default;
  explicit Owned(T* object) : object_(object) {}
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    if (this != &other) {
      release();
      object_ = std::exchange(other.object_, nullptr);
    }
    return *this;
  }
  ~Owned() { release(); }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

  Expected<void> destroy() {
    if (object_ == nullptr) {
      return {};
    }
    auto result = T::destroy(*object_);
    if (result) {
      object_ = nullptr;
    }
    return result;
  }

 private:
  void release() {
    if (object_ != nullptr) {
      if (auto result = destroy(); !result) {
        T::abandon(*std::exchange(object_, nullptr), result.error());
      }
    }
  }

  T* object_ = nullptr;
};

}  // namespace umlx5
