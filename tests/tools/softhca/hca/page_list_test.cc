#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tools/softhca/hca/objects.h"

namespace softhca::hca {
namespace {

// A memory of 64 KiB from address 0x10000.
class SmallMemory final : public AddressSpace {
 public:
  static constexpr std::uint64_t kBase = 0x10000;

  std::vector<std::byte> bytes = std::vector<std::byte>(0x10000);

  bool read(std::uint64_t address, std::span<std::byte> to) override {
    if (address < kBase || address + to.size() > kBase + bytes.size()) {
      return false;
    }
    std::memcpy(to.data(), &bytes[address - kBase], to.size());
    return true;
  }
  bool write(std::uint64_t address, std::span<const std::byte> from) override {
    if (address < kBase || address + from.size() > kBase + bytes.size()) {
      return false;
    }
    std::memcpy(&bytes[address - kBase], from.data(), from.size());
    return true;
  }
  std::optional<std::uint32_t> load32(std::uint64_t) override { return std::nullopt; }
  bool store8(std::uint64_t, std::uint8_t) override { return false; }
  std::optional<std::uint64_t> compare_swap(std::uint64_t, std::uint64_t, std::uint64_t) override {
    return std::nullopt;
  }
  std::optional<std::uint64_t> fetch_add(std::uint64_t, std::uint64_t) override { return std::nullopt; }
};

TEST(PageList, AddressFollowsThePagesAndTheFirstOffset) {
  const PageList list{.page_addresses = {0x15000, 0x12000}, .log_page_bytes = 12, .first_offset_bytes = 64};
  EXPECT_EQ(list.address(0), 0x15040u);
  EXPECT_EQ(list.address(4096 - 64 - 1), 0x15fffu);
  EXPECT_EQ(list.address(4096 - 64), 0x12000u);
  EXPECT_EQ(list.address(2 * 4096 - 64 - 1), 0x12fffu);
  EXPECT_EQ(list.address(2 * 4096 - 64), 0u);
  EXPECT_EQ(list.address(~std::uint64_t{0}), 0u);
}

TEST(PageList, ReadAndWriteCrossPages) {
  SmallMemory memory;
  const PageList list{.page_addresses = {0x15000, 0x12000}, .log_page_bytes = 12, .first_offset_bytes = 64};
  std::vector<std::byte> data(300);
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<std::byte>(i * 7 + 1);
  }
  ASSERT_TRUE(list.write(memory, 3900, data));
  EXPECT_EQ(memory.bytes[0x5000 + 64 + 3900], data[0]);
  EXPECT_EQ(memory.bytes[0x5fff], data[131]);
  EXPECT_EQ(memory.bytes[0x2000], data[132]);
  EXPECT_EQ(memory.bytes[0x2000 + 167], data[299]);
  std::vector<std::byte> back(300);
  ASSERT_TRUE(list.read(memory, 3900, back));
  EXPECT_EQ(back, data);
}

TEST(PageList, RefusesWhatIsOutside) {
  SmallMemory memory;
  const PageList list{.page_addresses = {0x15000, 0x90000}, .log_page_bytes = 12, .first_offset_bytes = 0};
  std::vector<std::byte> data(64);
  EXPECT_FALSE(list.read(memory, 8192 - 32, data)) << "the list's end";
  EXPECT_FALSE(list.read(memory, 4096 - 32, data)) << "a page that the memory does not have";
  EXPECT_TRUE(list.read(memory, 8192, std::span<std::byte>{}));
}

}  // namespace
}  // namespace softhca::hca
