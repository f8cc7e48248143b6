// Who still uses an object, for the error that refuses to destroy it.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace umlx5 {

class Users {
 public:
  void add_if(bool uses, std::string_view kind, std::uint32_t number) {
    if (!uses) {
      return;
    }
    if (++count_ <= kNamed) {
      text_ += fmt::format("{}{} {:#x}", text_.empty() ? "" : ", ", kind, number);
    }
  }
  explicit operator bool() const { return count_ != 0; }
  // "QP 0x12, MR with lkey 0x700", and how many more there are.
  std::string text() const { return count_ <= kNamed ? text_ : fmt::format("{} and {} more", text_, count_ - kNamed); }

 private:
  static constexpr std::size_t kNamed = 4;
  std::size_t count_ = 0;
  std::string text_;
};

}  // namespace umlx5
