// What the native API refuses and makes on a soft device, row by row of ../creation_rows.h, and what the error says.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "driver/wq.h"
#include "driver/xrcd.h"
#include "tests/driver/creation_rows.h"
#include "tests/driver/soft/pair.h"

namespace umlx5 {
namespace {

using namespace testing;

// A soft device without some abilities, and what queue pairs are made of.
struct Bench {
  explicit Bench(std::string_view without) {
    source = std::make_unique<softhca::SoftDeviceSource>(
        std::vector<softhca::DeviceOptions>{{.name = "soft", .endpoint = {}, .restrictions = std::string(without)}});
    uapi::DeviceSource* const sources[] = {source.get()};
    context = must(open_device(sources, "soft"));
    pd = must(context->alloc_pd());
    cq = must(context->create_cq({.entries = 63}));
    srq = must(pd->create_srq({.max_wr = 15}));
    if (auto made = context->open_xrcd(-1, O_CREAT)) {
      xrcd = std::move(*made);
    }
    if (auto made = pd->create_wq({.cq = cq.get(), .max_wr = 1})) {
      wq = std::move(*made);
      Wq* const queues[] = {wq.get()};
      table = must(context->create_rwq_table(queues));
    }
  }

  Expected<Owned<Qp>> create(const Asked& asked) {
    const QpOptions options = options_of(asked);
    return options.type == QpType::kXrcRecv ? xrcd->create_qp(options) : pd->create_qp(options);
  }

  QpOptions options_of(const Asked& a) {
    static constexpr std::array<std::uint8_t, 256> kKey{};
    QpOptions options{.type = static_cast<QpType>(a.type),
                      .send_cq = a.cqs ? cq.get() : nullptr,
                      .recv_cq = a.recv_cq ? cq.get() : nullptr,
                      .srq = a.srq ? srq.get() : nullptr,
                      .capacity = {.max_send_wr = a.cap.max_send_wr,
                                   .max_recv_wr = a.cap.max_recv_wr,
                                   .max_send_sge = a.cap.max_send_sge,
                                   .max_recv_sge = a.cap.max_recv_sge,
                                   .max_inline_bytes = a.cap.max_inline_data}};
    if ((a.mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0) {
      options.send_operations = a.operations;
    }
    if ((a.dv_mask & MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS) != 0) {
      options.dv_send_operations = a.dv_operations << 32;
    }
    options.create_flags = a.create_flags & ~std::uint32_t{IBV_QP_CREATE_SOURCE_QPN};
    if ((a.create_flags & IBV_QP_CREATE_SOURCE_QPN) != 0) {
      options.source_qpn = a.source_qpn;
    }
    options.dv_create_flags = (a.dv_mask & MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS) != 0 ? a.dv_flags : 0;
    options.max_tso_header_bytes = a.tso_header;
    if ((a.mask & IBV_QP_INIT_ATTR_RX_HASH) != 0) {
      options.rss = RssOptions{.table = table ? table->handle() : uapi::RwqIndTableHandle{},
                               .function = a.hash_function,
                               .key = std::span(kKey).first(a.hash_key_bytes),
                               .fields = a.hash_fields};
    }
    options.dc_type = static_cast<DcType>(a.dc_type);
    const bool dc = a.type == IBV_QPT_DRIVER;
    if (dc && (a.dv_mask & MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS) != 0) {
      options.dci_streams = DciStreams{.log_concurrent = a.streams, .log_errored = a.errored_streams};
    }
    return options;
  }

  std::unique_ptr<softhca::SoftDeviceSource> source;
  std::unique_ptr<Context> context;
  Owned<Pd> pd;
  Owned<Cq> cq;
  Owned<Srq> srq;
  Owned<Xrcd> xrcd;
  Owned<Wq> wq;
  Owned<RwqTable> table;
};

void expect_words(const CreationRow& row, const std::string& text) {
  for (std::string_view words = row.words; !words.empty();) {
    const std::size_t bar = words.find('|');
    EXPECT_NE(text.find(words.substr(0, bar)), std::string::npos)
        << row.name << ": no '" << words.substr(0, bar) << "' in '" << text << "'";
    words = bar == std::string_view::npos ? "" : words.substr(bar + 1);
  }
}

TEST(Creation, RowByRow) {
  std::map<std::string, std::vector<const CreationRow*>> devices;
  for (const CreationRow& row : kCreationRows) {
    devices[row.without].push_back(&row);
  }
  std::size_t made = 0, refused = 0;
  for (const auto& [without, rows] : devices) {
    Bench bench(without);
    for (const CreationRow* row : rows) {
      if (!row->native) {
        continue;
      }
      Asked asked;
      row->ask(asked);
      const auto qp = bench.create(asked);
      EXPECT_EQ(qp ? 0 : qp.error().errno_value, row->error) << row->name << (qp ? "" : ": " + qp.error().message());
      (qp ? made : refused)++;
      if (!qp) {
        EXPECT_TRUE(qp.error().what.starts_with("QP create: ")) << qp.error().what;
        expect_words(*row, qp.error().message());
      }
    }
  }
  EXPECT_GT(made, 25u);
  EXPECT_GT(refused, 60u);
}

}  // namespace
}  // namespace umlx5
