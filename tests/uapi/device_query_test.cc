#include "uapi/device_query.h"

#include <gtest/gtest.h>
#include <net/if.h>

#include "tests/uapi/fake_channel.h"

namespace umlx5::uapi {
namespace {

class DeviceQuery : public ::testing::Test {
 protected:
  // Ports answer as Ethernet or InfiniBand with `gids` entries; GID methods do not exist.
  void without_gid_methods(std::uint8_t link_layer, std::uint32_t gids) {
    channel.on_ioctl = [=](ib_uverbs_ioctl_hdr& request) {
      if (request.method_id == UVERBS_METHOD_QUERY_GID_ENTRY || request.method_id == UVERBS_METHOD_QUERY_GID_TABLE) {
        return EPROTONOSUPPORT;
      }
      QueryPortResponse port{};
      port.base.link_layer = link_layer;
      port.base.gid_tbl_len = gids;
      answer(request, 1, port);
      return 0;
    };
  }

  FakeChannel channel;
  Commands commands{channel};
};

TEST_F(DeviceQuery, ExtendedDevice) {
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr& request) {
    ib_uverbs_ex_query_device_resp core{};
    core.base.max_qp = 4096;
    core.base.node_guid = 0x0807060504030201;  // bytes 01 02 .. 08
    core.base.sys_image_guid = 0x1000000000000000;
    core.hca_core_clock = 1000000;
    Mlx5QueryDeviceResponse driver{};
    driver.base.flags = 0x10;
    driver.reg_c0_mask = 0xffff;
    answer(request, 1, core);
    answer(request, 0x1001, driver);
    return 0;
  };
  const auto device = query_device(commands);
  ASSERT_TRUE(device);
  EXPECT_TRUE(device->extended);
  EXPECT_EQ(device->core.base.max_qp, 4096u);
  EXPECT_EQ(device->node_guid, 0x0102030405060708u);
  EXPECT_EQ(device->system_image_guid, 0x10u);
  EXPECT_EQ(device->core.hca_core_clock, 1000000u);
  EXPECT_EQ(device->driver.base.flags, kMlx5QueryDeviceOutOfOrderPlacement);
  EXPECT_EQ(device->driver.reg_c0_mask, 0xffffu);
}

TEST_F(DeviceQuery, WithoutTheDriverPart) {
  ASSERT_TRUE(query_device(commands, false));
  EXPECT_EQ(channel.last_ioctl().find(0x1001), nullptr);
}

TEST_F(DeviceQuery, OldDevice) {
  for (const int lacking : {EOPNOTSUPP, ENOSYS}) {
    channel.on_ioctl = [=](ib_uverbs_ioctl_hdr& request) {
      if (find_attribute(request, 2)->data == 0x80000001) {
        answer(request, 0x1001, Mlx5QueryDeviceResponse{.base = {}, .reg_c0_value = 1, .reg_c0_mask = 1});
        return lacking;
      }
      ib_uverbs_query_device_resp core{};
      core.max_cq = 77;
      answer(request, 1, core);
      return 0;
    };
    const auto device = query_device(commands);
    ASSERT_TRUE(device);
    EXPECT_FALSE(device->extended);
    EXPECT_EQ(device->core.base.max_cq, 77u);
    EXPECT_EQ(device->driver.reg_c0_mask, 0u) << "nothing is left of the failed try";
    EXPECT_EQ(channel.last_ioctl().attributes.size(), 3u);
    EXPECT_EQ(channel.last_ioctl().find(2)->raw.data, 1u);
    EXPECT_EQ(channel.last_ioctl().find(1)->raw.len, 176);
  }
}

TEST_F(DeviceQuery, OtherErrorsAreFinal) {
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr&) { return EINVAL; };
  channel.ioctls.clear();
  const auto device = query_device(commands);
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().errno_value, EINVAL);
  EXPECT_EQ(channel.ioctls.size(), 1u);
}

TEST_F(DeviceQuery, Port) {
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr& request) {
    QueryPortResponse port{};
    port.base = {.port_cap_flags = 1,
                 .max_msg_sz = 2,
                 .bad_pkey_cntr = 3,
                 .qkey_viol_cntr = 4,
                 .gid_tbl_len = 5,
                 .pkey_tbl_len = 6,
                 .lid = 7,
                 .sm_lid = 8,
                 .state = 9,
                 .max_mtu = 10,
                 .active_mtu = 11,
                 .lmc = 12,
                 .max_vl_num = 13,
                 .sm_sl = 14,
                 .subnet_timeout = 15,
                 .init_type_reply = 16,
                 .active_width = 17,
                 .active_speed = 18,
                 .phys_state = 19,
                 .link_layer = 2,
                 .flags = 1,
                 .reserved = 0};
    port.port_capability_flags2 = 21;
    port.active_speed_extended = 256;
    answer(request, 1, port);
    return 0;
  };
  const auto port = query_port(commands, 1);
  ASSERT_TRUE(port);
  EXPECT_EQ(port->capability_flags, 1u);
  EXPECT_EQ(port->max_message_bytes, 2u);
  EXPECT_EQ(port->bad_pkey_counter, 3u);
  EXPECT_EQ(port->qkey_violation_counter, 4u);
  EXPECT_EQ(port->gid_table_entries, 5u);
  EXPECT_EQ(port->pkey_table_entries, 6);
  EXPECT_EQ(port->lid, 7);
  EXPECT_EQ(port->sm_lid, 8);
  EXPECT_EQ(port->state, 9);
  EXPECT_EQ(port->max_mtu, 10);
  EXPECT_EQ(port->active_mtu, 11);
  EXPECT_EQ(port->lmc, 12);
  EXPECT_EQ(port->max_vl_num, 13);
  EXPECT_EQ(port->sm_sl, 14);
  EXPECT_EQ(port->subnet_timeout, 15);
  EXPECT_EQ(port->init_type_reply, 16);
  EXPECT_EQ(port->active_width, 17);
  EXPECT_EQ(port->active_speed, 18);
  EXPECT_EQ(port->physical_state, 19);
  EXPECT_EQ(port->link_layer, LinkLayer::kEthernet);
  EXPECT_TRUE(port->grh_required);
  EXPECT_EQ(port->capability_flags2, 21);
  EXPECT_EQ(port->active_speed_extended, 256u);
}

TEST_F(DeviceQuery, GidEntryByMethod) {
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr& request) {
    answer(request, 3,
           ib_uverbs_gid_entry{
               .gid = {0x80fe, 0x0100000000000000}, .gid_index = 3, .port_num = 1, .gid_type = 2, .netdev_ifindex = 9});
    return 0;
  };
  const auto entry = query_gid_entry(commands, 1, 3);
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->gid, (std::array<std::uint8_t, 16>{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(entry->index, 3u);
  EXPECT_EQ(entry->port, 1u);
  EXPECT_EQ(entry->type, GidType::kRoceV2);
  EXPECT_EQ(entry->netdev_ifindex, 9u);
}

TEST_F(DeviceQuery, GidEntryFromSysfs) {
  without_gid_methods(2, 8);
  channel.files = {{"ports/1/gids/0", "fe80:0000:0000:0000:0011:22ff:fe33:4455"},
                   {"ports/1/gid_attrs/types/0", "IB/RoCE v1"},
                   {"ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:7f00:0001"},
                   {"ports/1/gid_attrs/types/1", "RoCE v2"},
                   {"ports/1/gid_attrs/ndevs/1", "lo"},
                   {"ports/1/gids/2", "0000:0000:0000:0000:0000:0000:0000:0000"},
                   {"ports/1/gids/3", "not a GID"},
                   {"ports/1/gids/4", "fe80:0000:0000:0000:0011:22ff:fe33:4456"},
                   {"ports/1/gid_attrs/types/4", "RoCE v9"},
                   {"ports/1/gids/5", "fe80:0000:0000:0000:0011:22ff:fe33:445g"},
                   {"ports/1/gids/6", "fe80:0000:0000:0000:0011:22ff:fe33-4457"}};
  const auto first = query_gid_entry(commands, 1, 0);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->gid,
            (std::array<std::uint8_t, 16>{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x11, 0x22, 0xff, 0xfe, 0x33, 0x44, 0x55}));
  EXPECT_EQ(first->type, GidType::kRoceV1);
  EXPECT_EQ(first->netdev_ifindex, 0u);
  const auto second = query_gid_entry(commands, 1, 1);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->gid[10], 0xff);
  EXPECT_EQ(second->gid[12], 127);
  EXPECT_EQ(second->type, GidType::kRoceV2);
  EXPECT_EQ(second->netdev_ifindex, ::if_nametoindex("lo"));
  const std::pair<std::uint32_t, int> refused[] = {{2, ENODATA}, {3, EINVAL}, {4, EOPNOTSUPP},
                                                   {5, EINVAL},  {6, EINVAL}, {9, EINVAL}};
  for (const auto& [index, errno_value] : refused) {
    const auto entry = query_gid_entry(commands, 1, index);
    ASSERT_FALSE(entry) << index;
    EXPECT_EQ(entry.error().errno_value, errno_value) << index;
  }
}

TEST_F(DeviceQuery, GidTypeOnInfiniBandHasNoFile) {
  without_gid_methods(1, 1);
  channel.files = {{"ports/1/gids/0", "fe80:0000:0000:0000:0011:22ff:fe33:4455"}};
  const auto entry = query_gid_entry(commands, 1, 0);
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->type, GidType::kInfiniBand);
}

TEST_F(DeviceQuery, GidTableByMethod) {
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr& request) {
    ib_uverbs_attr* entries = find_attribute(request, 2);
    auto* table = reinterpret_cast<ib_uverbs_gid_entry*>(entries->data);
    table[0] = {.gid = {1, 0}, .gid_index = 0, .port_num = 1, .gid_type = 1, .netdev_ifindex = 0};
    table[1] = {.gid = {2, 0}, .gid_index = 5, .port_num = 2, .gid_type = 2, .netdev_ifindex = 0};
    answer(request, 3, std::uint64_t{2});
    return 0;
  };
  const auto table = query_gid_table(commands, 2, 16);
  ASSERT_TRUE(table);
  EXPECT_EQ(channel.last_ioctl().find(0)->raw.data, 32u);
  EXPECT_EQ(channel.last_ioctl().find(0)->raw.len, 8);
  EXPECT_EQ(channel.last_ioctl().find(1)->raw.len, 4);
  EXPECT_EQ(channel.last_ioctl().find(2)->raw.len, 16 * 32);
  EXPECT_EQ(channel.last_ioctl().find(3)->raw.len, 8);
  ASSERT_EQ(table->size(), 2u);
  EXPECT_EQ((*table)[1].index, 5u);
  EXPECT_EQ((*table)[1].port, 2u);
}

TEST_F(DeviceQuery, GidTableDoesNotBelieveACountBeyondItsRoom) {
  channel.on_ioctl = [](ib_uverbs_ioctl_hdr& request) {
    answer(request, 3, std::uint64_t{1} << 40);
    return 0;
  };
  const auto table = query_gid_table(commands, 1, 4);
  ASSERT_TRUE(table);
  EXPECT_EQ(table->size(), 4u);
}

TEST_F(DeviceQuery, GidTableFromSysfs) {
  without_gid_methods(2, 3);
  channel.files = {{"ports/1/gids/0", "fe80:0000:0000:0000:0011:22ff:fe33:4455"},
                   {"ports/1/gid_attrs/types/0", "IB/RoCE v1"},
                   {"ports/1/gids/1", "0000:0000:0000:0000:0000:0000:0000:0000"},
                   {"ports/1/gids/2", "0000:0000:0000:0000:0000:ffff:7f00:0001"},
                   {"ports/1/gid_attrs/types/2", "RoCE v2"}};
  const auto table = query_gid_table(commands, 1, 2);
  ASSERT_TRUE(table);
  ASSERT_EQ(table->size(), 2u);
  EXPECT_EQ((*table)[1].index, 2u);
  const auto small = query_gid_table(commands, 1, 1);
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().errno_value, EINVAL);
}

TEST_F(DeviceQuery, GidTableSizes) {
  for (const std::size_t entries : {std::size_t{0}, std::size_t{2048}}) {
    const auto table = query_gid_table(commands, 1, entries);
    ASSERT_FALSE(table);
    EXPECT_EQ(table.error().errno_value, EINVAL);
  }
  EXPECT_TRUE(query_gid_table(commands, 1, 2047));
}

TEST_F(DeviceQuery, Pkey) {
  channel.files = {{"ports/1/pkeys/0", "0xffff"},
                   {"ports/2/pkeys/7", "0x8001"},
                   {"ports/1/pkeys/1", "junk"},
                   {"ports/1/pkeys/2", "0x12345"}};
  EXPECT_EQ(query_pkey(commands, 1, 0), 0xffff);
  EXPECT_EQ(query_pkey(commands, 2, 7), 0x8001);
  for (const std::uint16_t index : {1, 2, 3}) {
    const auto pkey = query_pkey(commands, 1, index);
    ASSERT_FALSE(pkey);
    EXPECT_EQ(pkey.error().errno_value, EINVAL);
  }
}

}  // namespace
}  // namespace umlx5::uapi
