#include "uapi/commands.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "tests/uapi/fake_channel.h"

namespace umlx5::uapi {
namespace {

// A kernel that answers every ioctl but the probe with `result`, and the probe with `probe`.
void behave(FakeChannel& channel, int probe, int result) {
  channel.on_ioctl = [=](ib_uverbs_ioctl_hdr& request) { return is_probe(request) ? probe : result; };
}

struct Parts {
  std::array<std::uint64_t, 3> core_in{0, 0x1111, 0x2222};
  std::array<std::uint64_t, 2> core_out{7, 7};
  std::array<std::uint64_t, 1> driver_in{0x3333};
  std::array<std::uint32_t, 2> driver_out{7, 7};

  WriteCommand command(bool extended) {
    return {.name = "THING",
            .number = 42,
            .extended = extended,
            .core_in = std::as_writable_bytes(std::span(core_in)),
            .core_out = std::as_writable_bytes(std::span(core_out)),
            .driver_in = std::as_bytes(std::span(driver_in)),
            .driver_out = std::as_writable_bytes(std::span(driver_out))};
  }
};

TEST(Probe, OnlyAbsenceMeansAbsence) {
  const std::pair<int, bool> cases[] = {{ENOSPC, true}, {0, true},       {EINVAL, true},
                                        {EIO, true},    {ENOTTY, false}, {EPROTONOSUPPORT, false}};
  for (const auto& [errno_value, available] : cases) {
    FakeChannel channel;
    behave(channel, errno_value, 0);
    EXPECT_EQ(Commands(channel).invoke_write_available(), available) << errno_value;
  }
}

TEST(ClassA, GoesThroughInvokeWrite) {
  FakeChannel channel;
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr& request) {
    if (is_probe(request)) return ENOSPC;
    answer(request, 1, std::uint64_t{0xaaaa});  // shorter than there is room: an older kernel
    answer(request, 0x1001, std::uint64_t{0xbbbb0000cccc});
    return 0;
  };
  Commands commands(channel);
  Parts parts;
  ASSERT_TRUE(commands.write(parts.command(false)));
  const FakeIoctl& record = channel.last_ioctl();
  EXPECT_EQ(record.text(),
            "object 0x0 method 0x0, 5 attrs\n"
            "attr 0x0002 len 8 flags 1 data 0x2a\n"
            "attr 0x0000 len 24 flags 1\n"
            "attr 0x0001 len 16 flags 3\n"
            "attr 0x1000 len 8 flags 1 data 0x3333\n"
            "attr 0x1001 len 8 flags 3\n");
  EXPECT_EQ((record.find(0)->as<std::array<std::uint64_t, 3>>())[1], 0x1111u);
  EXPECT_EQ(parts.core_out, (std::array<std::uint64_t, 2>{0xaaaa, 0})) << "what was not answered is zero";
  EXPECT_EQ(parts.driver_out, (std::array<std::uint32_t, 2>{0xcccc, 0xbbbb}));
  EXPECT_TRUE(channel.writes.empty());
}

TEST(ClassA, ExtendedCommandsKeepTheirFirstWordInInvokeWrite) {
  FakeChannel channel;
  behave(channel, ENOSPC, 0);
  Commands commands(channel);
  Parts parts;
  parts.core_in[0] = 0x4444;
  ASSERT_TRUE(commands.write(parts.command(true)));
  EXPECT_EQ(channel.last_ioctl().find(2)->raw.data, 0x8000002au);
  EXPECT_EQ((channel.last_ioctl().find(0)->as<std::array<std::uint64_t, 3>>())[0], 0x4444u);
}

TEST(ClassA, GoesThroughWriteOnOldKernels) {
  FakeChannel channel;
  behave(channel, EPROTONOSUPPORT, 0);
  channel.on_write = [](std::span<const std::byte> message) {
    answer_write(message, std::array<std::uint64_t, 2>{0xaaaa, 0xbbbb}, std::array<std::uint32_t, 2>{0xc, 0xd});
    return 0;
  };
  Commands commands(channel);
  Parts parts;
  ASSERT_TRUE(commands.write(parts.command(false)));
  const FakeWrite& record = channel.last_write();
  EXPECT_EQ(record.message.size(), 8u + 24 + 8);
  EXPECT_EQ(record.header().command, 42u);
  EXPECT_EQ(record.header().in_words, (8 + 24 + 8) / 4);
  EXPECT_EQ(record.header().out_words, (16 + 8) / 4);
  EXPECT_NE(record.at<std::uint64_t>(8), 0u) << "the answer's address";
  EXPECT_EQ(record.at<std::uint64_t>(16), 0x1111u);
  EXPECT_EQ(record.at<std::uint64_t>(24), 0x2222u);
  EXPECT_EQ(record.at<std::uint64_t>(32), 0x3333u) << "the driver's part follows the core's";
  EXPECT_EQ(parts.core_out, (std::array<std::uint64_t, 2>{0xaaaa, 0xbbbb}));
  EXPECT_EQ(parts.driver_out, (std::array<std::uint32_t, 2>{0xc, 0xd}));
}

TEST(ClassA, ExtendedWriteCountsInWordsOfEightWithoutHeaders) {
  FakeChannel channel;
  behave(channel, ENOTTY, 0);
  channel.on_write = [](std::span<const std::byte> message) {
    answer_write(message, std::array<std::uint64_t, 2>{1, 2}, std::array<std::uint32_t, 2>{3, 4});
    return 0;
  };
  Commands commands(channel);
  Parts parts;
  parts.core_in[0] = 0x4444;
  ASSERT_TRUE(commands.write(parts.command(true)));
  const FakeWrite& record = channel.last_write();
  EXPECT_EQ(record.message.size(), 8u + 16 + 24 + 8);
  EXPECT_EQ(record.header().command, 0x8000002au);
  EXPECT_EQ(record.header().in_words, 3);
  EXPECT_EQ(record.header().out_words, 2);
  const auto extended = record.at<ib_uverbs_ex_cmd_hdr>(8);
  EXPECT_NE(extended.response, 0u);
  EXPECT_EQ(extended.provider_in_words, 1);
  EXPECT_EQ(extended.provider_out_words, 1);
  EXPECT_EQ(extended.cmd_hdr_reserved, 0u);
  EXPECT_EQ(record.at<std::uint64_t>(24), 0x4444u) << "the first word is the request's own";
  EXPECT_EQ(record.at<std::uint64_t>(48), 0x3333u);
  EXPECT_EQ(parts.core_out, (std::array<std::uint64_t, 2>{1, 2}));
  EXPECT_EQ(parts.driver_out, (std::array<std::uint32_t, 2>{3, 4}));
}

TEST(ClassA, WithoutAnAnswerThereIsNoAddress) {
  for (const int probe : {ENOTTY, ENOSPC}) {
    FakeChannel channel;
    behave(channel, probe, 0);
    Commands commands(channel);
    std::array<std::uint32_t, 1> core{5};
    ASSERT_TRUE(commands.write({.name = "X", .number = 4, .core_in = std::as_writable_bytes(std::span(core))}));
    EXPECT_EQ(core[0], 5u);
  }
}

TEST(ClassA, SizesThatHeadersCannotSayAreRefused) {
  FakeChannel channel;
  behave(channel, ENOTTY, 0);
  Commands commands(channel);
  std::vector<std::byte> bytes(1 << 17);
  const auto run = [&](std::size_t in, std::size_t out, bool extended) {
    const auto done = commands.write({.name = "X",
                                      .number = 1,
                                      .extended = extended,
                                      .core_in = std::span(bytes).first(in),
                                      .core_out = std::span(bytes).last(out)});
    return done ? 0 : done.error().errno_value;
  };
  EXPECT_EQ(run(12, 8, true), EINVAL);
  EXPECT_EQ(run(16, 12, true), EINVAL);
  EXPECT_EQ(run(12, 12, false), 0);
  EXPECT_EQ(run(10, 12, false), EINVAL);
  EXPECT_EQ(run(4, 8, false), EINVAL) << "no room for the answer's address";
  EXPECT_EQ(run(65536, 8, true), E2BIG);
  EXPECT_EQ(run(65528, 8, true), 0);
}

// A command of class B and what came of it.
struct ClassB : ::testing::Test {
  int run(int object, int method) {
    Request request(static_cast<std::uint16_t>(object), static_cast<std::uint16_t>(method), "DESTROY_X");
    request.handle(0, QpHandle{3});
    std::uint32_t core = 3;
    const auto done =
        commands->method_or_write(request, {.name = "DESTROY_X", .number = 27, .core_in = writable_bytes_of(core)});
    return done ? 0 : done.error().errno_value;
  }

  FakeChannel channel;
  std::optional<Commands> commands;
};

TEST_F(ClassB, TheMethodComesFirst) {
  behave(channel, ENOSPC, 0);
  commands.emplace(channel);
  EXPECT_EQ(run(4, 1), 0);
  EXPECT_EQ(channel.ioctls.size(), 2u);
  EXPECT_EQ(channel.last_ioctl().object_id, 4);
  EXPECT_TRUE(channel.writes.empty());
}

TEST_F(ClassB, NoIoctlAtAllIsRememberedForAllMethods) {
  behave(channel, EINVAL, ENOTTY);  // the probe does not tell
  commands.emplace(channel);
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr& request) { return request.object_id == 0 ? 0 : ENOTTY; };
  EXPECT_EQ(run(4, 1), 0);
  EXPECT_EQ(channel.ioctls.size(), 3u) << "probe, method, INVOKE_WRITE";
  EXPECT_EQ(channel.last_ioctl().object_id, 0);
  EXPECT_EQ(run(3, 1), 0);
  EXPECT_EQ(channel.ioctls.size(), 4u) << "INVOKE_WRITE alone";
  EXPECT_EQ(channel.last_ioctl().find(2)->raw.data, 27u);
}

TEST_F(ClassB, AnAbsentMethodIsRememberedAlone) {
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr& request) {
    return request.object_id == 4 && request.method_id == 1 ? EPROTONOSUPPORT : 0;
  };
  commands.emplace(channel);
  EXPECT_EQ(run(4, 1), 0);
  EXPECT_EQ(channel.ioctls.size(), 3u);
  EXPECT_EQ(run(4, 1), 0);
  EXPECT_EQ(channel.ioctls.size(), 4u) << "not tried again";
  EXPECT_EQ(channel.last_ioctl().object_id, 0);
  EXPECT_EQ(run(4, 0), 0);
  EXPECT_EQ(channel.last_ioctl().object_id, 4) << "its neighbour is tried";
}

TEST_F(ClassB, OtherErrorsAreFinal) {
  for (const int errno_value : {EINVAL, ENOMEM, EBUSY, EOPNOTSUPP, EIO, EACCES}) {
    channel.writes.clear();
    behave(channel, ENOSPC, errno_value);
    commands.emplace(channel);
    channel.ioctls.clear();
    EXPECT_EQ(run(4, 1), errno_value);
    EXPECT_EQ(channel.ioctls.size(), 1u);
    EXPECT_TRUE(channel.writes.empty());
  }
}

TEST_F(ClassB, WithoutInvokeWriteTheFallbackIsWrite) {
  behave(channel, EPROTONOSUPPORT, EPROTONOSUPPORT);
  commands.emplace(channel);
  EXPECT_EQ(run(4, 1), 0);
  ASSERT_EQ(channel.writes.size(), 1u);
  EXPECT_EQ(channel.last_write().header().command, 27u);
  EXPECT_EQ(channel.last_write().at<std::uint32_t>(8), 3u);
  channel.on_write = [](std::span<const std::byte>) { return EBUSY; };
  EXPECT_EQ(run(4, 1), EBUSY);
}

TEST_F(ClassB, TryMethodLeavesTheFallbackToTheCaller) {
  behave(channel, ENOSPC, EPROTONOSUPPORT);
  commands.emplace(channel);
  Request request(0, 6, "QUERY_GID_ENTRY");
  EXPECT_EQ(commands->try_method(request), false);
  behave(channel, ENOSPC, 0);
  Request other(0, 5, "QUERY_GID_TABLE");
  EXPECT_EQ(commands->try_method(other), true);
  behave(channel, ENOSPC, EINVAL);
  const auto failed = commands->try_method(other);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().errno_value, EINVAL);
}

TEST(ClassC, ErrorsArePassedOnAndNothingIsTriedInstead) {
  for (const int errno_value : {ENOTTY, EPROTONOSUPPORT, EINVAL}) {
    FakeChannel channel;
    behave(channel, ENOSPC, errno_value);
    Commands commands(channel);
    Request request(0x1008, 0x1000, "ALLOC_UAR");
    const auto done = commands.method(request);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().errno_value, errno_value);
    EXPECT_EQ(channel.ioctls.size(), 2u);
    EXPECT_TRUE(channel.writes.empty());
  }
}

TEST(ClassC, ARequestThatDoesNotFitIsNotSent) {
  FakeChannel channel;
  Commands commands(channel);
  channel.ioctls.clear();
  Request request(0, 0, "X");
  for (std::size_t i = 0; i <= Request::kMaxAttributes; ++i) request.constant(1, 0);
  const auto done = commands.method(request);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().errno_value, E2BIG);
  EXPECT_TRUE(channel.ioctls.empty());
}

TEST(Destroy, OfARemovedDevice) {
  for (const bool allowed : {false, true}) {
    FakeChannel channel;
    behave(channel, ENOSPC, EIO);
    Commands commands(channel, {.allow_disassociated_destroy = allowed});
    Request request(0x1008, 0x1001, "DESTROY_UAR");
    EXPECT_EQ(commands.destroy(request, "UAR handle 1").has_value(), allowed);
    Request common(4, 1, "DESTROY_QP");
    std::uint32_t core = 0;
    EXPECT_EQ(commands.destroy(common, {.name = "DESTROY_QP", .number = 27, .core_in = writable_bytes_of(core)}, "")
                  .has_value(),
              allowed);
    behave(channel, ENOSPC, EBUSY);
    EXPECT_FALSE(commands.destroy(request, "UAR handle 1")) << "other errors stay errors";
  }
}

TEST(ErrorText, NamesCommandObjectAndMeaning) {
  const Error plain = kernel_error("CREATE_QP", EINVAL);
  EXPECT_EQ(plain.message(), "CREATE_QP: the kernel refused the attributes: Invalid argument (EINVAL)");
  const Error object = kernel_error("DESTROY_CQ", EBUSY, "CQ handle 4");
  EXPECT_EQ(object.message(), "DESTROY_CQ (CQ handle 4): something still uses it: Device or resource busy (EBUSY)");
  const Error unknown = kernel_error("X", 4095);
  EXPECT_EQ(unknown.errno_value, 4095);
  EXPECT_EQ(unknown.what, "X: the kernel refused");
}

}  // namespace
}  // namespace umlx5::uapi
