// Literal EQEs. Expected positions and values: struct mlx5_eqe, its ev_data members and enum mlx5_event of Linux
// include/linux/mlx5/device.h, which user space cannot include.
#include "wqe/eqe.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "tests/wqe/bytes.h"

namespace umlx5::wqe {
namespace {

using testing_bytes::hex;
using testing_bytes::stored;

TEST(Eqe, CompletionBytes) {
  Eqe eqe{.type = EventType::kCompletion, .owner = true};
  eqe.set_event(CompletionEvent{.cqn = 0x123456});
  EXPECT_EQ(hex(stored(eqe)),
            "00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
            "00000000 00000000 00000000 00000000 00000000 00000000 00123456 00000001");
  EXPECT_EQ(load<Eqe>(stored(eqe).data()).event<CompletionEvent>().cqn, 0x123456u);
}

TEST(Eqe, QueueEventBytes) {
  Eqe eqe{.type = EventType::kSrqLimit, .signature = 0x77};
  eqe.set_event(QueueEvent{.kind = QueueKind::kSq, .number = 0xabc});
  EXPECT_EQ(hex(stored(eqe)),
            "00140000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 "
            "00000000 00000000 00000000 00000000 00000000 02000000 00000abc 00007700");
}

TEST(Eqe, CqErrorBytes) {
  Eqe eqe{.type = EventType::kCqError};
  eqe.set_event(CqErrorEvent{.cqn = 0x45, .syndrome = CqErrorKind::kOverrun});
  const auto bytes = stored(eqe);
  EXPECT_EQ(hex(bytes, 0, 4), "00040000");
  EXPECT_EQ(hex(bytes, 32, 12), "00000045 00000000 00000001");
}

TEST(Eqe, PortChangeBytes) {
  Eqe eqe{.type = EventType::kPortChange, .subtype = static_cast<std::uint8_t>(PortChange::kActive)};
  eqe.set_event(PortEvent{.port = 2});
  const auto bytes = stored(eqe);
  EXPECT_EQ(hex(bytes, 0, 4), "00090004");
  EXPECT_EQ(hex(bytes, 32, 12), "00000000 00000000 20000000");
}

TEST(Eqe, CommandPageAndDctBytes) {
  Eqe eqe;
  eqe.set_event(CommandEvent{.vector = 0x80000001});
  EXPECT_EQ(hex(stored(eqe), 32, 4), "80000001");
  eqe.set_event(PageRequestEvent{.embedded_function = 0x8000, .function_id = 3, .pages = 0xfffffff0});
  EXPECT_EQ(hex(stored(eqe), 32, 8), "80000003 fffffff0");
  eqe.set_event(DctEvent{.dctn = 0x99});
  EXPECT_EQ(hex(stored(eqe), 32, 28), "00000000 00000000 00000000 00000000 00000000 00000000 00000099");
}

TEST(Eqe, OwnershipAlternatesEachLap) {
  EXPECT_FALSE(eqe_is_ready(kEqeOwnerInitial, 0, 2));
  EXPECT_TRUE(eqe_is_ready(0, 3, 2));
  EXPECT_FALSE(eqe_is_ready(0, 4, 2));
  EXPECT_TRUE(eqe_is_ready(1, 4, 2));
}

TEST(Names, EventTypes) {
  const std::array<std::pair<int, std::string_view>, 36> table = {{
      {0x00, "COMP"},
      {0x01, "PATH_MIG"},
      {0x02, "COMM_EST"},
      {0x03, "SQ_DRAINED"},
      {0x13, "SRQ_LAST_WQE"},
      {0x14, "SRQ_RQ_LIMIT"},
      {0x04, "CQ_ERROR"},
      {0x05, "WQ_CATAS_ERROR"},
      {0x07, "PATH_MIG_FAILED"},
      {0x10, "WQ_INVAL_REQ_ERROR"},
      {0x11, "WQ_ACCESS_ERROR"},
      {0x12, "SRQ_CATAS_ERROR"},
      {0x27, "OBJECT_CHANGE"},
      {0x08, "INTERNAL_ERROR"},
      {0x09, "PORT_CHANGE"},
      {0x15, "GPIO_EVENT"},
      {0x16, "PORT_MODULE_EVENT"},
      {0x17, "TEMP_WARN_EVENT"},
      {0x18, "XRQ_ERROR"},
      {0x19, "REMOTE_CONFIG"},
      {0x22, "GENERAL_EVENT"},
      {0x24, "MONITOR_COUNTER"},
      {0x25, "PPS_EVENT"},
      {0x1a, "DB_BF_CONGESTION"},
      {0x1b, "STALL_EVENT"},
      {0x0a, "CMD"},
      {0x0b, "PAGE_REQUEST"},
      {0x0c, "PAGE_FAULT"},
      {0x0d, "NIC_VPORT_CHANGE"},
      {0x0e, "ESW_FUNCTIONS_CHANGED"},
      {0x0f, "VHCA_STATE_CHANGE"},
      {0x1c, "DCT_DRAINED"},
      {0x1d, "DCT_KEY_VIOLATION"},
      {0x20, "FPGA_ERROR"},
      {0x21, "FPGA_QP_ERROR"},
      {0x26, "DEVICE_TRACER"},
  }};
  std::set<int> named;
  for (const auto& [value, name] : table) {
    EXPECT_EQ(to_string(static_cast<EventType>(value)), name);
    named.insert(value);
  }
  for (int value = 0; value < 256; ++value) {
    EXPECT_EQ(to_string(static_cast<EventType>(value)) == "unknown", !named.contains(value)) << value;
  }
}

TEST(Names, PortChangesAndKinds) {
  for (const int value : {1, 4, 5, 6, 7, 8, 9}) {
    EXPECT_NE(to_string(static_cast<PortChange>(value)), "unknown") << value;
  }
  EXPECT_EQ(to_string(PortChange{2}), "unknown");
  for (const int value : {0, 1, 2, 6}) {
    EXPECT_NE(to_string(static_cast<QueueKind>(value)), "unknown") << value;
  }
  EXPECT_EQ(to_string(QueueKind{3}), "unknown");
  EXPECT_EQ(to_string(CqErrorKind::kOverrun), "overrun");
  EXPECT_EQ(to_string(CqErrorKind{2}), "access violation");
  EXPECT_EQ(to_string(CqErrorKind{3}), "unknown");
}

}  // namespace
}  // namespace umlx5::wqe
