#include "uapi/events.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/uapi/fake_channel.h"

namespace umlx5::uapi {
namespace {

class Events : public ::testing::Test {
 protected:
  Events() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    reader.reset(ends[0]);
    writer.reset(ends[1]);
  }

  template <typename T>
  void put(const T& bytes) {
    ASSERT_EQ(::write(writer.get(), &bytes, sizeof(bytes)), static_cast<ssize_t>(sizeof(bytes)));
  }

  FileDescriptor reader;
  FileDescriptor writer;
};

TEST_F(Events, Completion) {
  put(std::uint64_t{0xabc});
  put(std::uint64_t{0xdef});
  EXPECT_EQ(read_completion_event(reader.get())->cq_user_handle, 0xabcu);
  EXPECT_EQ(read_completion_event(reader.get())->cq_user_handle, 0xdefu);
  EXPECT_EQ(read_completion_event(reader.get()).error().errno_value, EAGAIN);
}

TEST_F(Events, Async) {
  put(std::array<std::uint32_t, 4>{0xabc, 1, 8, 0xffffffff});
  const auto event = read_async_event(reader.get());
  ASSERT_TRUE(event);
  EXPECT_EQ(event->element, 0x100000abcu);
  EXPECT_EQ(event->type, 8u);
  EXPECT_EQ(read_async_event(reader.get()).error().errno_value, EAGAIN);
}

TEST_F(Events, ABrokenRecordIsAnError) {
  put(std::uint32_t{1});
  EXPECT_EQ(read_completion_event(reader.get()).error().errno_value, EIO);
  writer.reset();
  EXPECT_EQ(read_async_event(reader.get()).error().errno_value, EIO) << "the end of the stream";
  EXPECT_EQ(read_async_event(-1).error().errno_value, EBADF);
}

TEST(EventFds, AreOwnedByTheCaller) {
  const int channel_fd = ::eventfd(0, EFD_CLOEXEC);
  const int async_fd = ::eventfd(0, EFD_CLOEXEC);
  FakeChannel channel;
  Commands commands(channel);
  channel.on_ioctl = [&](ib_uverbs_ioctl_hdr& request) {
    if (request.object_id == UVERBS_OBJECT_ASYNC_EVENT) {
      answer_new(request, 0, static_cast<std::uint64_t>(async_fd));
    } else {
      answer(request, 1, channel_fd);
    }
    return 0;
  };
  {
    const auto completion = create_completion_channel(commands);
    ASSERT_TRUE(completion);
    EXPECT_EQ(completion->get(), channel_fd);
    EXPECT_EQ(channel.last_ioctl().find(2)->raw.data, 17u);
    EXPECT_EQ(channel.last_ioctl().find(0)->raw.len, 8);
    EXPECT_EQ(channel.last_ioctl().find(1)->raw.len, 4);
    auto async = open_async_event_fd(commands);
    ASSERT_TRUE(async);
    EXPECT_EQ(async->release(), async_fd);
  }
  EXPECT_EQ(::fcntl(channel_fd, F_GETFD), -1);
  EXPECT_EQ(::close(async_fd), 0) << "released, so still open";
}

}  // namespace
}  // namespace umlx5::uapi
