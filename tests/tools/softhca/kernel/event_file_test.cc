#include "tools/softhca/kernel/event_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <unistd.h>

#include <cstring>

namespace softhca::kernel {
namespace {

std::array<std::byte, 16> record(std::uint64_t value) {
  std::array<std::byte, 16> bytes{};
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

bool readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

std::uint64_t read_one(int fd, std::size_t expected_bytes) {
  std::array<std::byte, 64> buffer{};
  EXPECT_EQ(::read(fd, buffer.data(), buffer.size()), static_cast<ssize_t>(expected_bytes));
  std::uint64_t value = 0;
  std::memcpy(&value, buffer.data(), sizeof value);
  return value;
}

TEST(EventFile, GivesOneRecordToEachRead) {
  const auto channel = EventFile::open(UVERBS_OBJECT_COMP_CHANNEL, 8).value();
  EXPECT_FALSE(readable(channel->fd()));
  EXPECT_TRUE(channel->push(1, record(11)));
  EXPECT_TRUE(channel->push(1, record(12)));
  EXPECT_TRUE(readable(channel->fd()));
  EXPECT_EQ(read_one(channel->fd(), 8), 11u);
  EXPECT_EQ(read_one(channel->fd(), 8), 12u);
  EXPECT_FALSE(readable(channel->fd()));
  ::close(channel->fd());
}

TEST(EventFile, TakesBackWhatWasNotRead) {
  const auto file = EventFile::open(UVERBS_OBJECT_ASYNC_EVENT, 16).value();
  for (std::uint64_t i = 0; i < 6; ++i) {
    file->push(i % 2, record(i));
  }
  EXPECT_EQ(read_one(file->fd(), 16), 0u);
  EXPECT_EQ(file->take_back(0), 2u);  // records 2 and 4; 0 was read
  EXPECT_EQ(read_one(file->fd(), 16), 1u);
  EXPECT_EQ(read_one(file->fd(), 16), 3u);
  EXPECT_EQ(read_one(file->fd(), 16), 5u);
  EXPECT_EQ(file->take_back(1), 0u);
  EXPECT_FALSE(readable(file->fd()));
  ::close(file->fd());
}

TEST(EventFile, KeepsWhatTheDescriptorCannotHold) {
  const auto channel = EventFile::open(UVERBS_OBJECT_COMP_CHANNEL, 8).value();
  constexpr std::uint64_t kCount = 5000;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    ASSERT_TRUE(channel->push(7, record(i)));
  }
  EXPECT_TRUE(channel->flush());
  for (std::uint64_t i = 0; i < kCount; ++i) {
    channel->flush();
    ASSERT_EQ(read_one(channel->fd(), 8), i);
  }
  EXPECT_FALSE(channel->flush());
  ::close(channel->fd());
}

TEST(EventFile, OutlivesTheReader) {
  const auto channel = EventFile::open(UVERBS_OBJECT_COMP_CHANNEL, 8).value();
  EXPECT_TRUE(channel->push(1, record(1)));
  EXPECT_TRUE(channel->still_open());
  ::close(channel->fd());
  EXPECT_FALSE(channel->still_open());
  EXPECT_FALSE(channel->push(1, record(2)));  // no signal either
  // Another file under the old number is not taken for the channel.
  const int other = ::open("/dev/null", O_RDONLY);
  EXPECT_FALSE(channel->still_open());
  channel->close_user_fd();
  EXPECT_EQ(::fcntl(other, F_GETFD), 0);
  ::close(other);
}

}  // namespace
}  // namespace softhca::kernel
