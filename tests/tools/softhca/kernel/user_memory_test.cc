#include "tools/softhca/kernel/user_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>

namespace softhca::kernel {
namespace {

constexpr std::size_t kPage = 4096;

// Two pages with a hole after them.
class UserMemory : public testing::Test {
 protected:
  UserMemory()
      : memory_(static_cast<std::byte*>(
            ::mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    ::munmap(memory_ + 2 * kPage, kPage);
  }
  ~UserMemory() override { ::munmap(memory_, 2 * kPage); }
  std::uint64_t address(std::size_t offset) const { return reinterpret_cast<std::uint64_t>(memory_) + offset; }
  std::byte* memory_;
};

TEST_F(UserMemory, CopiesBothWays) {
  const std::array<std::uint32_t, 2> from{0x11223344, 0x55667788};
  std::array<std::uint32_t, 2> to{};
  EXPECT_TRUE(copy_to_user(address(kPage - 4), from.data(), sizeof from));
  EXPECT_TRUE(copy_from_user(to.data(), address(kPage - 4), sizeof to));
  EXPECT_EQ(to, from);
  EXPECT_TRUE(clear_user(address(kPage), 4));
  EXPECT_TRUE(copy_from_user(to.data(), address(kPage - 4), sizeof to));
  EXPECT_EQ(to, (std::array<std::uint32_t, 2>{0x11223344, 0}));
}

TEST_F(UserMemory, RefusesBadAddresses) {
  std::uint64_t word = 0;
  EXPECT_FALSE(copy_from_user(&word, 0, sizeof word));
  EXPECT_FALSE(copy_to_user(0, &word, sizeof word));
  EXPECT_FALSE(copy_from_user(&word, ~std::uint64_t{0} - 3, sizeof word));
  EXPECT_FALSE(copy_to_user(address(2 * kPage - 4), &word, sizeof word));  // half of it in the hole
  EXPECT_TRUE(copy_from_user(&word, 0, 0));
  ::mprotect(memory_, kPage, PROT_READ);
  EXPECT_TRUE(copy_from_user(&word, address(0), sizeof word));
  EXPECT_FALSE(copy_to_user(address(0), &word, sizeof word));
}

TEST_F(UserMemory, PinsWhatIsMappedAsAsked) {
  EXPECT_EQ(pin_user_memory(address(5), 2 * kPage - 5, true), 0);
  EXPECT_EQ(pin_user_memory(address(5), 2 * kPage, true), EFAULT);
  EXPECT_EQ(pin_user_memory(0, kPage, false), EFAULT);
  EXPECT_EQ(pin_user_memory(address(0), 0, false), EINVAL);  // no page at all
  EXPECT_EQ(pin_user_memory(address(5), 0, false), 0);       // the kernel pins the page around it
  EXPECT_EQ(pin_user_memory(~std::uint64_t{0} - 100, 200, false), EINVAL);
  ::mprotect(memory_, kPage, PROT_READ);
  EXPECT_EQ(pin_user_memory(address(0), 8, false), 0);
  EXPECT_EQ(pin_user_memory(address(0), 8, true), EFAULT);
  ::mprotect(memory_, kPage, PROT_NONE);
  EXPECT_EQ(pin_user_memory(address(0), 8, false), EFAULT);
}

TEST(PageRuns, QueuesTakeFewPages) {
  // 0x7000 = 7 * 4096: a page of 256 KB can start there, since its 64th part divides the address.
  const PageRun one = queue_pages(0x7000, 0x10000);
  EXPECT_EQ(one.addresses, std::vector<std::uint64_t>{0});
  EXPECT_EQ(one.log_page_bytes, 17);  // 0x7000 .. 0x17000 lie in the first 128 KB
  EXPECT_EQ(one.offset_bytes, 0x7000u);
  const PageRun several = queue_pages(0x1000, 0x80000);
  EXPECT_EQ(several.log_page_bytes, 18);
  EXPECT_EQ(several.addresses, (std::vector<std::uint64_t>{0, 0x40000, 0x80000}));
  EXPECT_EQ(queue_pages(0x1040, 64).log_page_bytes, 12);
  EXPECT_TRUE(queue_pages(0x1020, 64).addresses.empty());
}

TEST(PageRuns, RegionsTakeFewPagesTheirAddressAllows) {
  const PageRun same = region_pages(0x1fff, 0x1fff, 2);
  EXPECT_EQ(same.log_page_bytes, 14);
  EXPECT_EQ(same.addresses, std::vector<std::uint64_t>{0});
  // Bit 12 differs: pages of 4 KB only.
  const PageRun moved = region_pages(0x1fff, 0x4fff, 0x1002);
  EXPECT_EQ(moved.log_page_bytes, 12);
  EXPECT_EQ(moved.addresses, (std::vector<std::uint64_t>{0x1000, 0x2000, 0x3000}));
  EXPECT_EQ(region_pages(0x5000, 0, 0).addresses, std::vector<std::uint64_t>{0x5000});
}

}  // namespace
}  // namespace softhca::kernel
