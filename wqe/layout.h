// One description of a big-endian device structure that serves to build it, to parse it and to print it.
//
// A structure of the device is a plain C++ struct of host-order members with two constants:
//
//   struct RemoteAddressSegment {
//     std::uint64_t address{};
//     std::uint32_t rkey{};
//     static constexpr std::string_view kName = "raddr";
//     static constexpr std::size_t kBytes = 16;
//     static constexpr auto kFields = Fields{
//         Field{"address", &RemoteAddressSegment::address, bytes(0, 8)},
//         Field{"rkey", &RemoteAddressSegment::rkey, bytes(8, 4)}};
//   };
//   static_assert(layout_is_valid<RemoteAddressSegment>());
//
// store() then writes it, load() reads it, print() shows it. Bits that no field covers are reserved: store() writes
// them as zero, load() ignores them. store() and load() of integer fields compile to shifts and whole-word moves, so
// they are fit for a hot path. Everything here is thread-safe on distinct memory and never throws except print() on
// exhausted memory.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace umlx5::wqe {

// Position of a field: `offset` counts bits from the first byte's most significant bit, as the PRM's tables do.
struct BitRange {
  std::size_t offset_bits;
  std::size_t width_bits;
};

// Whole bytes: `count` bytes from byte `offset`.
constexpr BitRange bytes(std::size_t offset, std::size_t count) { return {offset * 8, count * 8}; }

// Bits high..low (31 is the most significant) of the big-endian 32-bit word at byte `word_offset`.
constexpr BitRange bits(std::size_t word_offset, unsigned high, unsigned low) {
  return {word_offset * 8 + (31 - high), high - low + 1};
}

// Bits counted from the structure's first bit, for PRM tables that give them so.
constexpr BitRange bit_offset(std::size_t offset, std::size_t width) { return {offset, width}; }

enum class Format : std::uint8_t { kHex, kDecimal, kName };

// One member of a structure. Struct and Member are deduced from the member pointer. A Member is an unsigned integer, a
// bool, an enumeration over an unsigned integer (printed by to_string() when the format is kName), an array of bytes
// kept in wire order, another structure with its own layout, or an array of such structures.
template <typename Struct, typename Member>
struct Field {
  std::string_view name;
  Member Struct::*member;
  BitRange range;
  Format format = Format::kHex;

  constexpr Field(std::string_view field_name, Member Struct::*field_member, BitRange field_range,
                  Format field_format = Format::kHex)
      : name(field_name), member(field_member), range(field_range), format(field_format) {}
};

namespace internal {

template <std::size_t I, typename F>
struct Leaf {
  F field;
};
template <typename Indices, typename... F>
struct Leaves;
template <std::size_t... I, typename... F>
struct Leaves<std::index_sequence<I...>, F...> : Leaf<I, F>... {};

}  // namespace internal

// The fields of a structure. Flat, unlike a std::tuple: a large one takes a sixth of the time to compile.
template <typename... F>
struct Fields : internal::Leaves<std::index_sequence_for<F...>, F...> {
  constexpr Fields(F... field) : internal::Leaves<std::index_sequence_for<F...>, F...>{{field}...} {}
};

namespace internal {

template <std::size_t I, typename F>
constexpr const F& field_at(const Leaf<I, F>& leaf) {
  return leaf.field;
}
template <typename... F>
constexpr std::index_sequence_for<F...> indices_of(const Fields<F...>&) {
  return {};
}

}  // namespace internal

template <typename T>
concept Structure = requires {
  T::kBytes;
  T::kFields;
};

namespace internal {

template <typename T>
struct IsByteArray : std::false_type {};
template <std::size_t N>
struct IsByteArray<std::array<std::uint8_t, N>> : std::true_type {};

template <typename T>
struct IsStructureArray : std::false_type {};
template <typename T, std::size_t N>
struct IsStructureArray<std::array<T, N>> : std::bool_constant<Structure<T>> {};

template <typename T>
concept Scalar = std::is_integral_v<T> || std::is_enum_v<T>;

template <Scalar T>
constexpr std::uint64_t to_word(T value) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<std::uint64_t>(static_cast<std::underlying_type_t<T>>(value));
  } else {
    return static_cast<std::uint64_t>(value);
  }
}

template <Scalar T>
constexpr T from_word(std::uint64_t word) {
  if constexpr (std::is_same_v<T, bool>) {
    return word != 0;
  } else {
    return static_cast<T>(word);
  }
}

template <typename T>
constexpr std::size_t capacity_bits() {
  if constexpr (std::is_same_v<T, bool>) {
    return 1;
  } else {
    return sizeof(T) * 8;
  }
}

constexpr std::uint64_t low_mask(std::size_t bits) {
  return bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
}

template <std::unsigned_integral Word>
constexpr Word big_endian(Word value) {
  return std::endian::native == std::endian::little ? std::byteswap(value) : value;
}

template <typename Word>
Word load_word(const std::byte* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return big_endian(word);
}

template <typename Word>
void store_word(std::byte* to, Word word) {
  word = big_endian(word);
  std::memcpy(to, &word, sizeof word);
}

// The part of field I that lies in the word of `WordBits` bits starting at bit `Start`, in that word's position.
template <typename T, std::size_t I, std::size_t Start, std::size_t WordBits>
constexpr std::uint64_t contribution(const T& value) {
  constexpr auto& field = internal::field_at<I>(T::kFields);
  using Member = std::remove_cvref_t<decltype(value.*(field.member))>;
  constexpr std::size_t first = field.range.offset_bits;
  constexpr std::size_t last = first + field.range.width_bits;
  if constexpr (!Scalar<Member> || last <= Start || first >= Start + WordBits) {
    return 0;
  } else {
    const std::uint64_t all = to_word(value.*(field.member)) & low_mask(field.range.width_bits);
    if constexpr (last > Start + WordBits) {
      return all >> (last - Start - WordBits);
    } else {
      return (all << (Start + WordBits - last)) & low_mask(WordBits);
    }
  }
}

template <typename T, std::size_t Start, std::size_t WordBits, std::size_t... I>
constexpr std::uint64_t compose(const T& value, std::index_sequence<I...>) {
  return (std::uint64_t{0} | ... | contribution<T, I, Start, WordBits>(value));
}

template <typename T>
using FieldIndices = decltype(indices_of(T::kFields));

template <Structure T, std::size_t Offset>
constexpr void store_words(std::byte* to, const T& value) {
  if constexpr (Offset + 8 <= T::kBytes) {
    store_word<std::uint64_t>(to + Offset, compose<T, Offset * 8, 64>(value, FieldIndices<T>{}));
    store_words<T, Offset + 8>(to, value);
  } else if constexpr (Offset + 4 <= T::kBytes) {
    store_word<std::uint32_t>(to + Offset,
                              static_cast<std::uint32_t>(compose<T, Offset * 8, 32>(value, FieldIndices<T>{})));
    store_words<T, Offset + 4>(to, value);
  } else if constexpr (Offset < T::kBytes) {
    to[Offset] = static_cast<std::byte>(compose<T, Offset * 8, 8>(value, FieldIndices<T>{}));
    store_words<T, Offset + 1>(to, value);
  }
}

// Reads a field of at most 64 bits at any bit position within `T::kBytes`.
template <std::size_t Offset, std::size_t Width, std::size_t StructBytes>
std::uint64_t load_bits(const std::byte* from) {
  constexpr std::size_t first = Offset / 8;
  constexpr std::size_t last = (Offset + Width - 1) / 8;
  constexpr std::size_t aligned4 = first / 4 * 4;
  constexpr std::size_t aligned8 = first / 8 * 8;
  if constexpr (aligned4 + 4 > last && aligned4 + 4 <= StructBytes) {
    return (load_word<std::uint32_t>(from + aligned4) >> (aligned4 * 8 + 32 - Offset - Width)) & low_mask(Width);
  } else if constexpr (aligned8 + 8 > last && aligned8 + 8 <= StructBytes) {
    return (load_word<std::uint64_t>(from + aligned8) >> (aligned8 * 8 + 64 - Offset - Width)) & low_mask(Width);
  } else {
    unsigned __int128 word = 0;
    for (std::size_t i = first; i <= last; ++i) {
      word = (word << 8) | static_cast<std::uint8_t>(from[i]);
    }
    return static_cast<std::uint64_t>(word >> ((last + 1) * 8 - Offset - Width)) & low_mask(Width);
  }
}

// The same at a position known at run time: what large structures use, since they are not for a hot path and would
// take the compiler long.
std::uint64_t load_bits_at(const std::byte* from, std::size_t offset_bits, std::size_t width_bits);
void store_bits_at(std::byte* to, std::size_t offset_bits, std::size_t width_bits, std::uint64_t value);

template <Structure T>
constexpr bool kIsLarge = T::kBytes > 64;

void append_scalar(std::string& out, std::string_view name, std::uint64_t value, std::size_t width_bits, Format format);
void append_named(std::string& out, std::string_view name, std::string_view value_name, std::uint64_t value);
void append_bytes(std::string& out, std::string_view name, const std::uint8_t* data, std::size_t count);

}  // namespace internal

// Writes all T::kBytes bytes at `to`; reserved bits become zero. A value wider than its field is cut to the field.
template <Structure T>
void store(std::byte* to, const T& value) {
  if constexpr (internal::kIsLarge<T>) {
    std::memset(to, 0, T::kBytes);
  } else {
    internal::store_words<T, 0>(to, value);
  }
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (
        [&] {
          constexpr auto& field = internal::field_at<I>(T::kFields);
          using Member = std::remove_cvref_t<decltype(value.*(field.member))>;
          constexpr std::size_t offset = field.range.offset_bits / 8;
          if constexpr (internal::IsByteArray<Member>::value) {
            std::memcpy(to + offset, (value.*(field.member)).data(), field.range.width_bits / 8);
          } else if constexpr (internal::IsStructureArray<Member>::value) {
            for (std::size_t n = 0; n < (value.*(field.member)).size(); ++n) {
              store(to + offset + n * Member::value_type::kBytes, (value.*(field.member))[n]);
            }
          } else if constexpr (Structure<Member>) {
            store(to + offset, value.*(field.member));
          } else if constexpr (internal::kIsLarge<T>) {
            internal::store_bits_at(to, field.range.offset_bits, field.range.width_bits,
                                    internal::to_word(value.*(field.member)));
          }
        }(),
        ...);
  }
  (internal::FieldIndices<T>{});
}

// Reads T::kBytes bytes from `from`. Any bytes are acceptable; reserved bits are ignored.
template <Structure T>
T load(const std::byte* from) {
  T value{};
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (
        [&] {
          constexpr auto& field = internal::field_at<I>(T::kFields);
          using Member = std::remove_cvref_t<decltype(value.*(field.member))>;
          constexpr std::size_t offset = field.range.offset_bits / 8;
          if constexpr (internal::IsByteArray<Member>::value) {
            std::memcpy((value.*(field.member)).data(), from + offset, field.range.width_bits / 8);
          } else if constexpr (internal::IsStructureArray<Member>::value) {
            for (std::size_t n = 0; n < (value.*(field.member)).size(); ++n) {
              (value.*(field.member))[n] =
                  load<typename Member::value_type>(from + offset + n * Member::value_type::kBytes);
            }
          } else if constexpr (Structure<Member>) {
            value.*(field.member) = load<Member>(from + offset);
          } else if constexpr (internal::kIsLarge<T>) {
            value.*(field.member) = internal::from_word<Member>(
                internal::load_bits_at(from, field.range.offset_bits, field.range.width_bits));
          } else {
            value.*(field.member) = internal::from_word<Member>(
                internal::load_bits<field.range.offset_bits, field.range.width_bits, T::kBytes>(from));
          }
        }(),
        ...);
  }
  (internal::FieldIndices<T>{});
  return value;
}

// "name{field=value ...}"; fields that are zero are left out.
template <Structure T>
std::string print(const T& value) {
  std::string out{T::kName};
  out += '{';
  const std::size_t start = out.size();
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (
        [&] {
          constexpr auto& field = internal::field_at<I>(T::kFields);
          const auto& member = value.*(field.member);
          using Member = std::remove_cvref_t<decltype(member)>;
          if constexpr (internal::IsByteArray<Member>::value) {
            internal::append_bytes(out, field.name, member.data(), member.size());
          } else if constexpr (internal::IsStructureArray<Member>::value) {
            for (const auto& element : member) {
              (out += ' ') += print(element);
            }
          } else if constexpr (Structure<Member>) {
            (out += ' ') += print(member);
          } else if constexpr (requires { to_string(member); } && std::is_enum_v<Member>) {
            internal::append_named(out, field.name, to_string(member), internal::to_word(member));
          } else {
            internal::append_scalar(out, field.name, internal::to_word(member), field.range.width_bits, field.format);
          }
        }(),
        ...);
  }
  (internal::FieldIndices<T>{});
  if (out.size() > start && out[start] == ' ') {
    out.erase(start, 1);
  }
  out += '}';
  return out;
}

// True if every field lies inside the structure, no two overlap, and each member can hold its field.
template <Structure T>
consteval bool layout_is_valid() {
  std::array<bool, T::kBytes * 8> used{};
  bool valid = true;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (
        [&] {
          constexpr auto field = internal::field_at<I>(T::kFields);
          using Member = std::remove_cvref_t<decltype(std::declval<T>().*(field.member))>;
          const std::size_t first = field.range.offset_bits;
          const std::size_t width = field.range.width_bits;
          if constexpr (internal::Scalar<Member>) {
            valid &= width <= internal::capacity_bits<Member>();
          } else if constexpr (internal::IsByteArray<Member>::value) {
            valid &= first % 8 == 0 && width == sizeof(Member) * 8;
          } else if constexpr (internal::IsStructureArray<Member>::value) {
            valid &= first % 8 == 0 && width == std::tuple_size_v<Member> * Member::value_type::kBytes * 8;
          } else {
            valid &= first % 8 == 0 && width == Member::kBytes * 8;
          }
          valid &= width > 0 && first + width <= T::kBytes * 8;
          for (std::size_t bit = first; valid && bit < first + width; ++bit) {
            valid &= !used[bit];
            used[bit] = true;
          }
        }(),
        ...);
  }
  (internal::FieldIndices<T>{});
  return valid;
}

// Bit offset of a member, for static assertions against a source's table.
template <Structure T, typename Member>
consteval std::size_t offset_bits_of(Member T::*member) {
  std::size_t found = ~std::size_t{0};
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (
        [&] {
          constexpr auto& field = internal::field_at<I>(T::kFields);
          if constexpr (std::is_same_v<std::remove_cvref_t<decltype(field.member)>, Member T::*>) {
            if (field.member == member) {
              found = field.range.offset_bits;
            }
          }
        }(),
        ...);
  }
  (internal::FieldIndices<T>{});
  return found;
}

}  // namespace umlx5::wqe
