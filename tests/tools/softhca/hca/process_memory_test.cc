#include "tools/softhca/hca/process_memory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace softhca::hca {
namespace {

constexpr std::size_t kPage = 4096;

// A page that may be used, then one that may only be read, then one that may not be touched.
class ProcessMemoryTest : public ::testing::Test {
 protected:
  ProcessMemoryTest()
      : base_(static_cast<std::byte*>(
            ::mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    ::mprotect(base_ + kPage, kPage, PROT_READ);
    ::mprotect(base_ + 2 * kPage, kPage, PROT_NONE);
  }
  ~ProcessMemoryTest() override { ::munmap(base_, 3 * kPage); }

  std::uint64_t at(std::size_t offset) const { return reinterpret_cast<std::uint64_t>(base_) + offset; }

  ProcessMemory memory_;
  std::byte* base_;
  std::array<std::byte, 64> buffer_{};
};

TEST_F(ProcessMemoryTest, CopiesBothWays) {
  buffer_[0] = std::byte{1};
  buffer_[63] = std::byte{2};
  ASSERT_TRUE(memory_.write(at(100), buffer_));
  EXPECT_EQ(base_[100], std::byte{1});
  std::array<std::byte, 64> back{};
  ASSERT_TRUE(memory_.read(at(100), back));
  EXPECT_EQ(back, buffer_);
}

TEST_F(ProcessMemoryTest, CopiesEverySizeExactly) {
  std::array<std::byte, 1100> data{};
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<std::byte>(i * 7 + 1);
  }
  for (std::size_t bytes = 0; bytes <= data.size(); ++bytes) {
    const std::size_t offset = 100 + bytes % 16;
    std::memset(base_, 0xee, kPage);
    ASSERT_TRUE(memory_.write(at(offset), std::span(data).first(bytes)));
    ASSERT_EQ(std::memcmp(base_ + offset, data.data(), bytes), 0) << bytes;
    ASSERT_EQ(base_[offset - 1], std::byte{0xee}) << bytes;
    ASSERT_EQ(base_[offset + bytes], std::byte{0xee}) << bytes;
    std::vector<std::byte> back(bytes + 1, std::byte{0xdd});
    ASSERT_TRUE(memory_.read(at(offset), std::span(back).first(bytes)));
    ASSERT_EQ(std::memcmp(back.data(), data.data(), bytes), 0) << bytes;
    ASSERT_EQ(back[bytes], std::byte{0xdd}) << bytes;
  }
}

TEST_F(ProcessMemoryTest, SurvivesAFaultAtAnyByteOfACopy) {
  std::array<std::byte, 1024> data{};
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{8}, std::size_t{13}, std::size_t{511}, data.size()}) {
    for (std::size_t reachable = 0; reachable < bytes; ++reachable) {
      ASSERT_FALSE(memory_.read(at(2 * kPage - reachable), std::span(data).first(bytes))) << reachable << "/" << bytes;
    }
    ASSERT_TRUE(memory_.read(at(2 * kPage - bytes), std::span(data).first(bytes)));
  }
}

TEST_F(ProcessMemoryTest, SurvivesWhatIsNotThere) {
  for (const std::uint64_t address : {at(2 * kPage), at(2 * kPage - 32), std::uint64_t{0}, std::uint64_t{64},
                                      ~std::uint64_t{63}, std::uint64_t{1} << 63, std::uint64_t{1} << 47}) {
    EXPECT_FALSE(memory_.read(address, buffer_)) << std::hex << address;
    EXPECT_FALSE(memory_.write(address, buffer_)) << std::hex << address;
  }
  EXPECT_TRUE(memory_.read(at(kPage), buffer_));
  EXPECT_FALSE(memory_.write(at(kPage), buffer_)) << "read-only";
  EXPECT_FALSE(memory_.store8(at(kPage), 1));
  EXPECT_FALSE(memory_.load32(at(2 * kPage)));
  EXPECT_FALSE(memory_.compare_swap(at(kPage), 0, 1));
  EXPECT_FALSE(memory_.fetch_add(at(2 * kPage), 1));
  EXPECT_TRUE(memory_.write(at(0), buffer_)) << "and works on";
}

TEST_F(ProcessMemoryTest, AtomicsGiveTheValueBefore) {
  std::uint64_t word = 41;
  std::memcpy(base_, &word, sizeof word);
  EXPECT_EQ(memory_.fetch_add(at(0), 1), 41u);
  EXPECT_EQ(memory_.compare_swap(at(0), 7, 8), 42u);
  EXPECT_EQ(memory_.compare_swap(at(0), 42, 8), 42u);
  std::memcpy(&word, base_, sizeof word);
  EXPECT_EQ(word, 8u);
  EXPECT_FALSE(memory_.fetch_add(at(4), 1)) << "not aligned";
  EXPECT_FALSE(memory_.compare_swap(at(4), 0, 1));
  EXPECT_FALSE(memory_.load32(at(2)));
  EXPECT_EQ(memory_.load32(at(0)), 8u);
}

TEST_F(ProcessMemoryTest, ThreadsFaultEachOnTheirOwn) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      std::array<std::byte, 64> mine{};
      for (int n = 0; n < 500; ++n) {
        EXPECT_FALSE(memory_.read(at(2 * kPage), mine));
        EXPECT_TRUE(memory_.read(at(0), mine));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

// What a shim does with a program's call of sigaction().
TEST_F(ProcessMemoryTest, HandlersOfTheProgramComeAfterTheDevices) {
  static std::atomic<int> calls;
  static std::byte* unreachable;
  struct sigaction action {
  }, before{}, now{};
  action.sa_sigaction = [](int, siginfo_t* info, void*) {
    EXPECT_EQ(info->si_addr, unreachable);
    ++calls;
    mprotect(unreachable, 1, PROT_READ | PROT_WRITE);
  };
  action.sa_flags = SA_SIGINFO;
  ASSERT_TRUE(program_sigaction(SIGSEGV, &action, &before));
  ASSERT_TRUE(program_sigaction(SIGSEGV, nullptr, &now));
  EXPECT_EQ(now.sa_sigaction, action.sa_sigaction);
  std::array<std::byte, 8> some{};
  EXPECT_FALSE(memory_.read(at(2 * kPage), some));  // the device's own fault
  EXPECT_EQ(calls, 0);
  unreachable = static_cast<std::byte*>(mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(unreachable, MAP_FAILED);
  *static_cast<volatile std::byte*>(unreachable) = std::byte{1};
  EXPECT_EQ(calls, 1);
  munmap(unreachable, kPage);
  ASSERT_TRUE(program_sigaction(SIGSEGV, &before, nullptr));
}

using ProcessMemoryDeathTest = ProcessMemoryTest;

TEST_F(ProcessMemoryDeathTest, OthersFaultsStayFaults) {
  EXPECT_DEATH(*reinterpret_cast<volatile char*>(base_ + 2 * kPage) = 1, "");
}

}  // namespace
}  // namespace softhca::hca
