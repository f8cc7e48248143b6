// Traffic on completion queues with compression, printed as its completions come: by ibv_poll_cq() ("poll"), by
// ibv_start_poll() ("extended"), or from the ring itself ("ring"), read as Linux's mlx5e_decompress_cqes_start() and
// _cont() read theirs. Debian's libmlx5 can do but the last; compressed_test.py compares it with ours.
#include <endian.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tests/driver/verbs/loop.h"

namespace {

using namespace umlx5::probe;

constexpr int kEntries = 63, kMostAtOnce = 40, kRounds = 20;
constexpr std::uint32_t kPiece = 1024;

struct Taken {
  std::uint64_t wr_id;
  int status;
  std::uint32_t bytes;
};

ibv_cq_ex* create_cq(ibv_context* context, std::uint8_t format, std::uint16_t cqe_bytes) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = kEntries;
  attr.wc_flags = IBV_WC_STANDARD_FLAGS;
  mlx5dv_cq_init_attr mlx5{};
  mlx5.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE | MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
  mlx5.cqe_comp_res_format = format;
  mlx5.cqe_size = cqe_bytes;
  return mlx5dv_create_cq(context, &attr, &mlx5);
}

// What there is, at most `most`.
class Poller {
 public:
  virtual ~Poller() = default;
  virtual std::vector<Taken> take(std::size_t most) = 0;
};

class Poll final : public Poller {
 public:
  explicit Poll(ibv_cq_ex* cq) : cq_(ibv_cq_ex_to_cq(cq)) {}
  std::vector<Taken> take(std::size_t most) override {
    std::vector<ibv_wc> wcs(most);
    const int count = ibv_poll_cq(cq_, static_cast<int>(most), wcs.data());
    std::vector<Taken> taken;
    for (int i = 0; i < count; ++i) {
      const ibv_wc& wc = wcs[static_cast<std::size_t>(i)];
      taken.push_back({wc.wr_id, wc.status, wc.opcode == IBV_WC_RECV ? wc.byte_len : 0});
    }
    return taken;
  }

 private:
  ibv_cq* cq_;
};

class Extended final : public Poller {
 public:
  explicit Extended(ibv_cq_ex* cq) : cq_(cq) {}
  std::vector<Taken> take(std::size_t most) override {
    std::vector<Taken> taken;
    ibv_poll_cq_attr attr{};
    if (ibv_start_poll(cq_, &attr) != 0) {
      return taken;
    }
    do {
      const bool is_receive = ibv_wc_read_opcode(cq_) == IBV_WC_RECV;
      taken.push_back({cq_->wr_id, cq_->status, is_receive ? ibv_wc_read_byte_len(cq_) : 0});
    } while (taken.size() < most && ibv_next_poll(cq_) == 0);
    ibv_end_poll(cq_);
    return taken;
  }

 private:
  ibv_cq_ex* cq_;
};

// All requests are one block long and signalled, so WQE counters count them as wr_ids do.
class Ring final : public Poller {
 public:
  explicit Ring(ibv_cq_ex* cq) {
    mlx5dv_obj object{};
    object.cq.in = ibv_cq_ex_to_cq(cq);
    object.cq.out = &queue_;
    if (mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ) != 0) {
      std::abort();
    }
  }
  std::vector<Taken> take(std::size_t most) override {
    std::vector<Taken> taken;
    while (taken.size() < most && take_next(taken)) {
    }
    __atomic_store_n(&queue_.dbrec[0], htobe32(consumer_ & 0xffffff), __ATOMIC_RELEASE);
    return taken;
  }
  std::size_t titles() const { return titles_; }

 private:
  mlx5_cqe64* cqe(std::uint32_t index) const {
    auto* const entry = static_cast<std::byte*>(queue_.buf) + std::size_t{index % queue_.cqe_cnt} * queue_.cqe_size;
    return reinterpret_cast<mlx5_cqe64*>(entry + queue_.cqe_size - sizeof(mlx5_cqe64));
  }
  bool take_next(std::vector<Taken>& taken) {
    const std::uint8_t lap = consumer_ / queue_.cqe_cnt & 1;
    if (left_ == 0) {
      const std::uint8_t op_own = __atomic_load_n(&cqe(consumer_)->op_own, __ATOMIC_ACQUIRE);
      if ((op_own & MLX5_CQE_OWNER_MASK) != lap || op_own >> 4 == MLX5_CQE_INVALID) {
        return false;
      }
      title_ = *cqe(consumer_);
      if ((op_own >> 2 & 3) != 3) {
        ++consumer_;
        add(taken, be16toh(title_.wqe_counter), be32toh(title_.byte_cnt));
        return true;
      }
      ++titles_;
      left_ = be32toh(title_.byte_cnt);
      done_ = 0;
      std::memcpy(array_, cqe(consumer_ + 1), sizeof array_);
    } else if (done_ % 8 == 0) {
      std::memcpy(array_, cqe(consumer_), sizeof array_);
    }
    const std::uint8_t* const mini = array_ + done_ % 8 * 8;
    std::uint32_t bytes = 0;
    std::uint16_t counter = 0;
    std::memcpy(&bytes, mini + 4, 4);
    std::memcpy(&counter, mini, 2);
    const bool is_send = title_.op_own >> 4 == MLX5_CQE_REQ;
    add(taken, is_send ? be16toh(counter) : static_cast<std::uint16_t>(be16toh(title_.wqe_counter) + done_),
        be32toh(bytes));
    cqe(consumer_)->op_own = lap;
    ++consumer_;
    ++done_;
    --left_;
    return true;
  }
  void add(std::vector<Taken>& taken, std::uint16_t counter, std::uint32_t bytes) const {
    const unsigned opcode = title_.op_own >> 4;
    const bool failed = opcode == MLX5_CQE_REQ_ERR || opcode == MLX5_CQE_RESP_ERR;
    taken.push_back({counter, failed ? IBV_WC_GENERAL_ERR : IBV_WC_SUCCESS, opcode == MLX5_CQE_REQ ? 0 : bytes});
  }

  mlx5dv_cq queue_{};
  mlx5_cqe64 title_{};
  std::uint8_t array_[64]{};
  std::uint32_t consumer_ = 0, left_ = 0, done_ = 0;
  std::size_t titles_ = 0;
};

template <typename P>
bool run(Loop& loop, ibv_cq_ex* send_cq, ibv_cq_ex* recv_cq, std::byte* memory) {
  P sends(send_cq), receives(recv_cq);
  std::uint64_t wr_id = 0;
  std::uint32_t random = 1;
  for (int round = 0; round < kRounds; ++round) {
    random = random * 1664525 + 1013904223;
    const std::size_t count = 1 + random / 65536 % kMostAtOnce;
    for (std::size_t i = 0; i < count; ++i) {
      ibv_sge to{reinterpret_cast<std::uint64_t>(memory) + (kMostAtOnce + i) * kPiece, kPiece, loop.mr->lkey};
      ibv_recv_wr request{}, *bad = nullptr;
      request.wr_id = wr_id + i;
      request.sg_list = &to;
      request.num_sge = 1;
      if (ibv_post_recv(loop.qp, &request, &bad) != 0) {
        return false;
      }
    }
    std::vector<ibv_sge> from(count);
    std::vector<ibv_send_wr> list(count);
    for (std::size_t i = 0; i < count; ++i) {
      from[i] = {reinterpret_cast<std::uint64_t>(memory) + i * kPiece, static_cast<std::uint32_t>(100 + i),
                 loop.mr->lkey};
      list[i].wr_id = wr_id + i;
      list[i].sg_list = &from[i];
      list[i].num_sge = 1;
      list[i].opcode = IBV_WR_SEND;
      list[i].send_flags = IBV_SEND_SIGNALED;
      list[i].next = i + 1 == count ? nullptr : &list[i + 1];
    }
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(loop.qp, list.data(), &bad) != 0) {
      return false;
    }
    for (Poller* const poller : {static_cast<Poller*>(&receives), static_cast<Poller*>(&sends)}) {
      for (std::size_t left = count; left != 0;) {
        std::vector<Taken> taken;
        if (until(0, [&] {
              taken = poller->take(left < 7 ? left : 7);
              return static_cast<int>(taken.size());
            }) == 0) {
          std::printf("nothing came\n");
          return false;
        }
        for (const Taken& one : taken) {
          std::printf("%s %llu status %d bytes %u\n", poller == &sends ? "sent" : "received",
                      static_cast<unsigned long long>(one.wr_id), one.status, one.bytes);
        }
        left -= taken.size();
      }
    }
    wr_id += count;
  }
  if constexpr (std::is_same_v<P, Ring>) {
    std::fprintf(stderr, "titles: %zu %zu\n", sends.titles(), receives.titles());
  }
  return true;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    std::fprintf(stderr, "compressed_probe poll|extended|ring FORMAT CQE_BYTES\n");
    return 2;
  }
  Loop loop;
  if (!loop.open()) {
    return 1;
  }
  const auto format = static_cast<std::uint8_t>(std::atoi(arguments[2]));
  const auto cqe_bytes = static_cast<std::uint16_t>(std::atoi(arguments[3]));
  ibv_cq_ex* const send_cq = create_cq(loop.context, format, cqe_bytes);
  ibv_cq_ex* const recv_cq = create_cq(loop.context, format, cqe_bytes);
  std::vector<std::byte> memory(2 * kMostAtOnce * kPiece);
  ibv_qp_init_attr attr{};
  // Room for all: the library does not see what is read from the ring.
  constexpr std::uint32_t kRequests = kRounds * kMostAtOnce;
  attr.cap = {
      .max_send_wr = kRequests, .max_recv_wr = kRequests, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  attr.qp_type = IBV_QPT_RC;
  union ibv_gid gid {};
  if (send_cq == nullptr || recv_cq == nullptr || ibv_destroy_qp(loop.qp) != 0) {
    std::perror("completion queues");
    return 1;
  }
  attr.send_cq = ibv_cq_ex_to_cq(send_cq);
  attr.recv_cq = ibv_cq_ex_to_cq(recv_cq);
  loop.qp = ibv_create_qp(loop.pd, &attr);
  if (loop.qp == nullptr || ibv_query_gid(loop.context, 1, 0, &gid) != 0 || connect_to_itself(loop.qp, gid) != 0 ||
      !loop.register_memory(memory.data(), memory.size())) {
    std::perror("queue pair");
    return 1;
  }
  const std::string_view way = arguments[1];
  const bool good = way == "poll"       ? run<Poll>(loop, send_cq, recv_cq, memory.data())
                    : way == "extended" ? run<Extended>(loop, send_cq, recv_cq, memory.data())
                                        : run<Ring>(loop, send_cq, recv_cq, memory.data());
  const bool closed = ibv_destroy_qp(loop.qp) == 0 && ibv_destroy_cq(attr.send_cq) == 0 &&
                      ibv_destroy_cq(attr.recv_cq) == 0 && ibv_destroy_cq(loop.cq) == 0 && ibv_dereg_mr(loop.mr) == 0 &&
                      ibv_dealloc_pd(loop.pd) == 0 && ibv_close_device(loop.context) == 0;
  return good && closed ? 0 : 1;
}
