// What the C ABI's objects are made of: the structure that programs see, and the native object behind it.
//
// libibverbs.so.1 and libmlx5.so.1 each contain this code and the native driver, and hand each other these objects;
// they are built together and loaded together. So nothing here, or in driver/, keeps mutable state outside an object,
// but for the device list, which is libibverbs' alone.
#pragma once

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <cstddef>

namespace umlx5::verbs {

// The object whose member `member` is `*inside`.
template <typename Object, typename Member>
Object& containing(Member* inside, Member Object::*member) {
  const auto offset = reinterpret_cast<std::size_t>(&(static_cast<Object*>(nullptr)->*member));
  return *reinterpret_cast<Object*>(reinterpret_cast<std::byte*>(inside) - offset);
}

}  // namespace umlx5::verbs
