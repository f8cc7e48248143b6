// Configures memory keys in random ways through whatever libibverbs and libmlx5 it finds, and prints what was written:
// one line for each sequence, with a digest of the UMR and SET_PSV WQEs, results and completions, and the position in
// the ring, of which the sequences visit all. Two runs with the same seeds print the same lines if the libraries write
// the same.
//
// The queue pairs are in the error state, where every request is built, posted and flushed. Their memory lies in a
// larger piece, and all of that, but for what the device is to read, holds one byte that must be there afterwards too.
#include <endian.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "tools/compare/record.h"

namespace {

using umlx5::compare::Digest;
using umlx5::compare::Random;

constexpr std::size_t kBlock = 64;
constexpr std::uint8_t kSetPsv = 0x20;
constexpr unsigned kMostChanges = 3;
constexpr std::uint32_t kMostBlocks = 16;  // of a WQE

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "mkey_bytes: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

// Where queues get their memory: with a page before and a page behind it.
constexpr std::uint8_t kUntouched = 0xa5;
constexpr std::size_t kPage = 4096;
struct Piece {
  std::uint8_t* begin = nullptr;
  std::size_t bytes = 0;
};
std::vector<Piece> pieces;

void* allocate(std::size_t bytes, void*) {
  const std::size_t whole = (bytes + kPage - 1) / kPage * kPage + 2 * kPage;
  auto* const begin = static_cast<std::uint8_t*>(std::aligned_alloc(kPage, whole));
  if (begin == nullptr) {
    return nullptr;
  }
  std::memset(begin, 0, whole);
  pieces.push_back({begin, whole});
  return begin + kPage;
}
void release(void* memory, void*) {
  std::uint8_t* const begin = static_cast<std::uint8_t*>(memory) - kPage;
  std::erase_if(pieces, [&](const Piece& piece) { return piece.begin == begin; });
  std::free(begin);
}

struct Device {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  mlx5dv_dek* dek = nullptr;
};

Device open_device() {
  Device device;
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  if (list == nullptr || count == 0) {
    die("no device");
  }
  mlx5dv_context_attr attr{};
  attr.flags = MLX5DV_CONTEXT_FLAGS_DEVX;
  device.context = mlx5dv_open_device(list[0], &attr);
  if (device.context == nullptr) {
    die("open");
  }
  ibv_free_device_list(list);
  mlx5dv_ctx_allocators allocators{};
  allocators.alloc = allocate;
  allocators.free = release;
  if (mlx5dv_set_context_attr(device.context, MLX5DV_CTX_ATTR_BUF_ALLOCATORS, &allocators) != 0) {
    die("allocators");
  }
  device.pd = ibv_alloc_pd(device.context);
  device.cq = ibv_create_cq(device.context, 511, nullptr, nullptr, 0);
  mlx5dv_dek_init_attr dek{};
  dek.pd = device.pd;
  dek.comp_mask = MLX5DV_DEK_INIT_ATTR_CRYPTO_LOGIN;
  for (int i = 0; i < 32; ++i) {
    dek.key[i] = static_cast<char>(i);
  }
  device.dek = mlx5dv_dek_create(device.context, &dek);
  if (device.pd == nullptr || device.cq == nullptr || device.dek == nullptr) {
    die("PD, CQ or DEK");
  }
  return device;
}

// A queue pair in ERR and its send queue's memory.
struct Queue {
  ibv_qp* qp = nullptr;
  ibv_qp_ex* ex = nullptr;
  mlx5dv_qp_ex* dv = nullptr;
  std::uint8_t* ring = nullptr;
  std::uint32_t blocks = 0;
  const std::uint32_t* record = nullptr;
  Piece memory;  // around the ring
  std::uint32_t counter() const { return be32toh(*static_cast<const volatile std::uint32_t*>(record)) & 0xffff; }
};

// By way of RTS: the stock library's steps refuse to be completed before.
void to_error(const Device& device, ibv_qp* qp) {
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_INIT;
  to.port_num = 1;
  if (ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0) {
    die("INIT");
  }
  to.qp_state = IBV_QPS_RTR;
  to.path_mtu = IBV_MTU_1024;
  to.dest_qp_num = qp->qp_num;
  to.min_rnr_timer = 12;
  to.ah_attr.is_global = 1;
  to.ah_attr.port_num = 1;
  to.ah_attr.grh.hop_limit = 64;
  if (ibv_query_gid(device.context, 1, 0, &to.ah_attr.grh.dgid) != 0 ||
      ibv_modify_qp(qp, &to,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0) {
    die("RTR");
  }
  to.qp_state = IBV_QPS_RTS;
  if (ibv_modify_qp(qp, &to,
                    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                        IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
    die("RTS");
  }
  to.qp_state = IBV_QPS_ERR;
  if (ibv_modify_qp(qp, &to, IBV_QP_STATE) != 0) {
    die("ERR");
  }
}

Queue make_queue(const Device& device) {
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = IBV_QPT_RC;
  attr.send_cq = attr.recv_cq = device.cq;
  attr.cap = {.max_send_wr = 8, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 252};
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.pd = device.pd;
  attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
  mlx5dv_qp_init_attr dv{};
  dv.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
  dv.send_ops_flags = MLX5DV_QP_EX_WITH_MKEY_CONFIGURE;
  Queue queue;
  queue.qp = mlx5dv_create_qp(device.context, &attr, &dv);
  if (queue.qp == nullptr) {
    die("QP");
  }
  queue.ex = ibv_qp_to_qp_ex(queue.qp);
  queue.dv = mlx5dv_qp_ex_from_ibv_qp_ex(queue.ex);
  to_error(device, queue.qp);
  mlx5dv_qp memory{};
  mlx5dv_obj obj{};
  obj.qp.in = queue.qp;
  obj.qp.out = &memory;
  if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP) != 0) {
    die("init_obj");
  }
  queue.ring = static_cast<std::uint8_t*>(memory.sq.buf);
  queue.blocks = memory.sq.wqe_cnt;
  queue.record = reinterpret_cast<const std::uint32_t*>(memory.dbrec + 1);
  const auto around = std::find_if(pieces.begin(), pieces.end(), [&](const Piece& piece) {
    return queue.ring >= piece.begin + kPage && queue.ring + queue.blocks * kBlock + kPage <= piece.begin + piece.bytes;
  });
  if (around == pieces.end()) {
    die("the ring is not where it was asked to be");
  }
  queue.memory = *around;
  return queue;
}

// All requests are done: nobody needs what the memory holds.
void fill(const Queue& queue) { std::memset(queue.memory.begin, kUntouched, queue.memory.bytes); }

// Blanks the blocks from one counter to the other, and looks at all the rest.
void expect_untouched(const Queue& queue, std::uint32_t from, std::uint32_t to) {
  for (; from != to; from = (from + 1) & 0xffff) {
    std::memset(queue.ring + (from & (queue.blocks - 1)) * kBlock, kUntouched, kBlock);
  }
  for (std::size_t i = 0; i < queue.memory.bytes; ++i) {
    if (queue.memory.begin[i] != kUntouched) {
      std::fprintf(stderr, "mkey_bytes: byte %td of the ring (%zu bytes) was written\n",
                   queue.memory.begin + i - queue.ring, queue.blocks * kBlock);
      std::exit(1);
    }
  }
}

// Takes all completions of what is posted; each request has one in the error state.
void drain(const Device& device, unsigned count, Digest* digest) {
  while (count != 0) {
    ibv_wc wc{};
    const int polled = ibv_poll_cq(device.cq, 1, &wc);
    if (polled < 0) {
      die("poll");
    }
    if (polled == 1) {
      --count;
      if (digest != nullptr) {
        digest->number("wr_id", wc.wr_id);
        digest->number("status", wc.status);
      }
    }
  }
}

// Blocks from one counter to the other, unrolled. What the stock library leaves as it was is blanked.
unsigned add_wqes(const Queue& queue, std::uint32_t from, std::uint32_t to, Digest& digest) {
  unsigned count = 0;
  while (from != to) {
    const std::uint8_t* const control = queue.ring + (from & (queue.blocks - 1)) * kBlock;
    const unsigned octowords = control[7] & 0x3f;
    std::vector<std::uint8_t> wqe;
    for (unsigned i = 0; i < octowords * 16; ++i) {
      wqe.push_back(queue.ring[((from & (queue.blocks - 1)) * kBlock + i) % (queue.blocks * kBlock)]);
    }
    if (wqe[3] == kSetPsv) {
      std::fill_n(wqe.begin() + 12, 4, 0);  // immediate
    }
    digest.bytes(wqe[3] == kSetPsv ? "SET_PSV" : "UMR", wqe.data(), wqe.size());
    from = (from + (octowords + 3) / 4) & 0xffff;
    ++count;
  }
  return count;
}

// ---- Random changes. Values that no device takes are among them. ----

struct Domain {
  mlx5dv_sig_t10dif dif{};
  mlx5dv_sig_crc crc{};
  mlx5dv_sig_block_domain domain{};

  void fill(Random& random) {
    domain.block_size = static_cast<mlx5dv_block_size>(random.below(random.chance(3) ? 7 : 5));
    if (random.chance(50)) {
      domain.sig_type = MLX5DV_SIG_TYPE_T10DIF;
      domain.sig.dif = &dif;
      dif.bg_type = static_cast<mlx5dv_sig_t10dif_bg_type>(random.below(2));
      dif.bg = random.chance(3) ? 0x1234 : random.chance(50) ? 0xffff : 0;
      dif.app_tag = static_cast<std::uint16_t>(random.below(4));
      dif.ref_tag = random.below(4);
      dif.flags = static_cast<std::uint16_t>(random.below(8));
    } else {
      domain.sig_type = MLX5DV_SIG_TYPE_CRC;
      domain.sig.crc = &crc;
      crc.type = static_cast<mlx5dv_sig_crc_type>(random.below(random.chance(3) ? 4 : 3));
      const std::uint64_t ones = crc.type == MLX5DV_SIG_CRC_TYPE_CRC64_XP10 ? ~std::uint64_t{0} : 0xffffffff;
      crc.seed = random.chance(3) ? 5 : random.chance(50) ? ones : 0;
    }
  }
};

void set_signature(const Queue& queue, Random& random) {
  Domain memory, wire;
  memory.fill(random);
  wire.fill(random);
  if (random.chance(30)) {
    wire = memory;
    wire.domain.sig.dif = memory.domain.sig_type == MLX5DV_SIG_TYPE_T10DIF ? &wire.dif : nullptr;
    if (memory.domain.sig_type == MLX5DV_SIG_TYPE_CRC) {
      wire.domain.sig.crc = &wire.crc;
    }
  }
  mlx5dv_sig_block_attr attr{};
  const unsigned which = random.below(random.chance(3) ? 4 : 3);
  attr.mem = which == 0 || which == 2 ? &memory.domain : nullptr;
  attr.wire = which == 1 || which == 2 ? &wire.domain : nullptr;
  attr.check_mask = static_cast<std::uint8_t>(random.next());
  attr.copy_mask = static_cast<std::uint8_t>(random.next());
  attr.flags = random.chance(15) ? std::uint32_t{MLX5DV_SIG_BLOCK_ATTR_FLAG_COPY_MASK} : 0;
  mlx5dv_wr_set_mkey_sig_block(queue.dv, &attr);
}

void set_crypto(const Device& device, const Queue& queue, Random& random) {
  mlx5dv_crypto_attr attr{};
  attr.crypto_standard = MLX5DV_CRYPTO_STANDARD_AES_XTS;
  attr.encrypt_on_tx = random.chance(50);
  attr.signature_crypto_order = random.chance(50) ? MLX5DV_SIGNATURE_CRYPTO_ORDER_SIGNATURE_AFTER_CRYPTO_ON_TX
                                                  : MLX5DV_SIGNATURE_CRYPTO_ORDER_SIGNATURE_BEFORE_CRYPTO_ON_TX;
  attr.data_unit_size = static_cast<mlx5dv_block_size>(random.below(5));
  for (char& byte : attr.initial_tweak) {
    byte = static_cast<char>(random.next());
  }
  for (char& byte : attr.keytag) {
    byte = static_cast<char>(random.next());
  }
  attr.dek = device.dek;
  mlx5dv_wr_set_mkey_crypto(queue.dv, &attr);
}

void set_layout(const Queue& queue, Random& random) {
  const auto count = static_cast<std::uint16_t>(random.below(random.chance(5) ? 12 : 8));
  if (random.chance(60)) {
    std::array<ibv_sge, 12> sges;
    for (ibv_sge& sge : sges) {
      sge = {.addr = random.next(), .length = random.below(100000), .lkey = random.below(1u << 30)};
    }
    mlx5dv_wr_set_mkey_layout_list(queue.dv, count, sges.data());
    return;
  }
  std::array<mlx5dv_mr_interleaved, 12> entries;
  for (mlx5dv_mr_interleaved& entry : entries) {
    entry = {.addr = random.next(),
             .bytes_count = random.below(30000),
             .bytes_skip = random.below(30000),
             .lkey = random.below(1u << 30)};
  }
  mlx5dv_wr_set_mkey_layout_interleaved(queue.dv, random.below(1000), count, entries.data());
}

struct Key {
  mlx5dv_mkey* mkey = nullptr;
  bool signs = false, encrypts = false;
};

// One change; false if the library refuses it, after which its key is in no known state.
bool change(const Device& device, const Queue& queue, const Key& key, Random& random, Digest& digest) {
  const bool access = random.chance(70), layout = random.chance(70);
  const bool signature = random.chance(key.signs ? 60 : 2), crypto = random.chance(key.encrypts ? 60 : 2);
  const std::uint32_t before = queue.counter();
  fill(queue);
  ibv_wr_start(queue.ex);
  queue.ex->wr_id = random.next();
  constexpr unsigned kFlags = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;
  queue.ex->wr_flags = (random.below(8) & kFlags) | (random.chance(98) ? IBV_SEND_INLINE : 0);
  mlx5dv_mkey_conf_attr conf{};
  conf.conf_flags = random.chance(25) ? std::uint32_t{MLX5DV_MKEY_CONF_FLAG_RESET_SIG_ATTR} : 0;
  mlx5dv_wr_mkey_configure(queue.dv, key.mkey, static_cast<std::uint8_t>(access + layout + signature + crypto), &conf);
  if (access) {
    mlx5dv_wr_set_mkey_access_flags(queue.dv, random.below(random.chance(3) ? 64 : 16));
  }
  if (layout) {
    set_layout(queue, random);
  }
  if (signature) {
    set_signature(queue, random);
  }
  if (crypto) {
    set_crypto(device, queue, random);
  }
  const int error = ibv_wr_complete(queue.ex);
  digest.number("result", static_cast<std::uint64_t>(error));
  drain(device, add_wqes(queue, before, queue.counter(), digest), &digest);
  // What is refused may be half built behind what was posted.
  expect_untouched(queue, before, (queue.counter() + (error != 0 ? kMostBlocks : 0)) & 0xffff);
  return error == 0;
}

// Sends of one block, until the next WQE begins where it is wanted.
void advance(const Device& device, const Queue& queue, std::uint32_t position) {
  while ((queue.counter() & (queue.blocks - 1)) != position) {
    ibv_wr_start(queue.ex);
    queue.ex->wr_flags = 0;
    ibv_wr_send(queue.ex);
    ibv_wr_set_sge(queue.ex, 1, 2, 3);
    errno = ibv_wr_complete(queue.ex);
    if (errno != 0) {
      die("advance");
    }
    drain(device, 1, nullptr);
  }
}

void run(const Device& device, std::uint64_t seed, bool show) {
  Random random(seed);
  const Queue queue = make_queue(device);
  Key key;
  mlx5dv_mkey_init_attr attr{};
  attr.pd = device.pd;
  const unsigned kind = random.below(4);
  key.signs = (kind & 1) != 0;
  key.encrypts = (kind & 2) != 0;
  attr.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT |
                      (key.signs ? MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE : 0) |
                      (key.encrypts ? MLX5DV_MKEY_INIT_ATTR_FLAGS_CRYPTO : 0);
  attr.max_entries = static_cast<std::uint16_t>(1 + random.below(10));
  key.mkey = mlx5dv_create_mkey(&attr);
  if (key.mkey == nullptr) {
    die("mkey");
  }
  const auto position = static_cast<std::uint32_t>(seed % queue.blocks);
  advance(device, queue, position);
  Digest digest(show);
  digest.number("entries", attr.max_entries);
  for (unsigned i = 0; i < kMostChanges && change(device, queue, key, random, digest); ++i) {
  }
  std::printf("%lu %s: block %u, %016lx\n", static_cast<unsigned long>(seed),
              key.signs      ? (key.encrypts ? "both" : "signature")
              : key.encrypts ? "encryption"
                             : "plain",
              position, static_cast<unsigned long>(digest.value()));
  if (mlx5dv_destroy_mkey(key.mkey) != 0 || ibv_destroy_qp(queue.qp) != 0) {
    die("destroy");
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t first = 0, count = 100;
  bool show = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--first" && i + 1 < argc) {
      first = std::strtoull(argv[++i], nullptr, 0);
    } else if (option == "--sequences" && i + 1 < argc) {
      count = std::strtoull(argv[++i], nullptr, 0);
    } else if (option == "--show") {
      show = true;
    } else if (option != "--stock") {
      std::fprintf(stderr, "usage: mkey_bytes [--first SEED] [--sequences N] [--show] [--stock]\n");
      return 2;
    }
  }
  const Device device = open_device();
  for (std::uint64_t seed = first; seed != first + count; ++seed) {
    run(device, seed, show);
  }
  if (mlx5dv_dek_destroy(device.dek) != 0 || ibv_destroy_cq(device.cq) != 0 || ibv_dealloc_pd(device.pd) != 0 ||
      ibv_close_device(device.context) != 0) {
    die("close");
  }
  return 0;
}
