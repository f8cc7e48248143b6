// Life of driver objects: who holds them, and what happens when they are destroyed in the wrong order.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <utility>

#include "uapi/error.h"

namespace umlx5 {

using ResourceHook = boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::safe_link>>;

// How many events of an object were given out by its descriptors until it was destroyed. Who counts the ones that were
// handled waits, before he forgets the object, until as many were.
struct EventsReported {
  std::uint32_t completion = 0;    // CQs
  std::uint32_t asynchronous = 0;  // CQs, QPs, SRQs
};

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
      destroy_or_abandon();
      object_ = std::exchange(other.object_, nullptr);
    }
    return *this;
  }
  ~Owned() { destroy_or_abandon(); }

  T* get() const { return object_; }
  // Hands the ownership over; null afterwards.
  T* release() { return std::exchange(object_, nullptr); }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

  Expected<void> destroy() {
    return finish([](T& object) { return T::destroy(object); });
  }

  // As destroy(), and tells of the events of a CQ, QP or SRQ; `reported` is unchanged if it fails.
  Expected<void> destroy(EventsReported& reported) {
    return finish([&](T& object) { return T::destroy(object, &reported); });
  }

 private:
  template <typename Destroy>
  Expected<void> finish(Destroy destroy_object) {
    if (object_ == nullptr) {
      return {};
    }
    auto result = destroy_object(*object_);
    if (result) {
      object_ = nullptr;
    }
    return result;
  }

  void destroy_or_abandon() {
    if (object_ != nullptr) {
      if (auto result = destroy(); !result) {
        T::abandon(*std::exchange(object_, nullptr), result.error());
      }
    }
  }

  T* object_ = nullptr;
};

}  // namespace umlx5
