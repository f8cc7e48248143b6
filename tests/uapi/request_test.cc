#include "uapi/request.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <type_traits>

#include "tests/uapi/fake_channel.h"

namespace umlx5::uapi {
namespace {

struct Large {
  std::uint64_t a = 1;
  std::uint64_t b = 2;
};

template <typename T>
concept TakesTemporary = requires(Request& r) {
  r.input(0, T{});
};
static_assert(TakesTemporary<std::uint64_t>);
static_assert(!TakesTemporary<Large>, "a temporary would be gone when the request is sent");

struct Padded {
  std::uint8_t a;
  std::uint32_t b;
};
static_assert(!KernelStruct<Padded>, "its padding has bytes that nobody sets");

FakeIoctl sent(Request& request) {
  FakeChannel channel;
  channel.ioctl(request.header());
  return channel.last_ioctl();
}

TEST(Request, HeaderOfAnEmptyRequest) {
  Request request(4, 1, "DESTROY_QP");
  const FakeIoctl record = sent(request);
  EXPECT_EQ(record.length, 24);  // bytes; <rdma/rdma_user_ioctl_cmds.h>
  EXPECT_EQ(record.object_id, 4);
  EXPECT_EQ(record.method_id, 1);
  EXPECT_EQ(record.driver_id, 1u);  // RDMA_DRIVER_MLX5
  EXPECT_EQ(record.reserved1, 0u);
  EXPECT_EQ(record.reserved2, 0u);
  EXPECT_TRUE(record.attributes.empty());
}

TEST(Request, SmallInputsTravelInTheAttribute) {
  Request request(0, 0, "X");
  const std::array<std::byte, 3> three{std::byte{1}, std::byte{2}, std::byte{3}};
  request.input(1, std::uint32_t{0xdeadbeef}).constant(2, 7).input_bytes(3, three);
  EXPECT_EQ(sent(request).text(),
            "object 0x0 method 0x0, 3 attrs\n"
            "attr 0x0001 len 4 flags 1 data 0xdeadbeef\n"
            "attr 0x0002 len 8 flags 1 data 0x7\n"
            "attr 0x0003 len 3 flags 1 data 0x30201\n");
  EXPECT_EQ(request.header().length, 24 + 3 * 16);
}

TEST(Request, LargeInputsAndOutputsTravelByAddress) {
  Request request(0, 0, "X");
  const Large in;
  std::uint32_t out = 0;
  request.input(1, in).output(2, out);
  const FakeIoctl record = sent(request);
  EXPECT_EQ(record.attributes[0].raw.data, reinterpret_cast<std::uintptr_t>(&in));
  EXPECT_EQ(record.attributes[0].raw.len, 16);
  EXPECT_EQ(record.attributes[1].raw.data, reinterpret_cast<std::uintptr_t>(&out));
  EXPECT_EQ(record.attributes[1].raw.len, 4);
}

TEST(Request, HandlesAndDescriptorsHaveNoLength) {
  Request request(0, 0, "X");
  request.handle(1, QpHandle{0x80000001}).fd(2, 9).optional().fd(3, -1).new_handle(4).new_fd(5);
  EXPECT_EQ(sent(request).text(),
            "object 0x0 method 0x0, 5 attrs\n"
            "attr 0x0001 len 0 flags 1 data 0x80000001\n"
            "attr 0x0002 len 0 flags 0 data 0x9\n"
            "attr 0x0003 len 0 flags 1 data 0xffffffffffffffff\n"
            "attr 0x0004 len 0 flags 1 data 0x0\n"
            "attr 0x0005 len 0 flags 1 data 0x0\n");
}

TEST(Request, ResultsAreReadBackByIdentifier) {
  Request request(0, 0, "X");
  request.constant(1, 5).new_handle(4).new_fd(0);
  answer_new(request.header(), 4, 77);
  answer_new(request.header(), 0, 12);
  EXPECT_EQ(request.result_handle<CqHandle>(4), CqHandle{77});
  EXPECT_EQ(request.result_fd(0), 12);
}

TEST(Request, EmptyPartsAreNoAttributes) {
  Request request(0, 0, "X");
  request.input_bytes(1, {}).output_bytes(2, {}).driver({}, {});
  EXPECT_EQ(request.header().num_attrs, 0);
}

TEST(Request, DriverParts) {
  Request request(0, 0, "X");
  const std::array<std::byte, 4> in{std::byte{9}};
  std::array<std::byte, 16> out{};
  request.driver(in, out);
  EXPECT_EQ(sent(request).text(),
            "object 0x0 method 0x0, 2 attrs\n"
            "attr 0x1000 len 4 flags 1 data 0x9\n"
            "attr 0x1001 len 16 flags 1\n");
}

TEST(Request, TooManyAttributesAreAnError) {
  Request request(0, 0, "X");
  for (std::size_t i = 0; i < Request::kMaxAttributes; ++i) request.constant(1, 0);
  EXPECT_EQ(request.error(), 0);
  request.constant(1, 0);
  EXPECT_EQ(request.error(), E2BIG);
  EXPECT_EQ(request.header().num_attrs, Request::kMaxAttributes);
}

TEST(Request, APartThatItsLengthCannotSayIsAnError) {
  std::vector<std::byte> bytes(65536);
  Request fits(0, 0, "X");
  fits.input_bytes(1, std::span(bytes).first(65535));
  EXPECT_EQ(fits.error(), 0);
  Request in(0, 0, "X");
  in.input_bytes(1, bytes);
  EXPECT_EQ(in.error(), E2BIG);
  Request out(0, 0, "X");
  out.output_bytes(1, bytes);
  EXPECT_EQ(out.error(), E2BIG);
}

}  // namespace
}  // namespace umlx5::uapi
