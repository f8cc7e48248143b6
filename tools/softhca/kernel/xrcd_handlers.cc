// XRC domains: one a program's own, or shared by all that name it by the same file.
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <sys/stat.h>

#include <cerrno>

#include "tools/softhca/kernel/methods.h"
#include "tools/softhca/kernel/user_memory.h"
#include "tools/softhca/kernel/uverbs_file.h"

namespace softhca::kernel {

XrcDomain::~XrcDomain() { command_on_object(firmware, umlx5::wqe::prm::Opcode::kDeallocXrcd, 0, number); }

int Xrcd::release(RdmaDevice&) {
  domain.reset();
  return 0;
}

namespace handlers {
namespace {

constexpr std::int32_t kNoFile = -1;

std::expected<std::shared_ptr<XrcDomain>, int> make_domain(Request& request) {
  // As mlx5_ib does: the domain is the kernel's, whoever opens it.
  const auto number = allocate(request.firmware(), umlx5::wqe::prm::Opcode::kAllocXrcd, 0);
  if (!number) {
    return std::unexpected(number.error());
  }
  return std::make_shared<XrcDomain>(request.firmware(), *number);
}

// The domain of a file, which exists or is made as the flags of open(2) say.
std::expected<std::shared_ptr<XrcDomain>, int> domain_of_file(Request& request, int fd, std::uint32_t flags) {
  if (is_request_of_another_process()) {
    return std::unexpected(EIO);  // the descriptor is that one's
  }
  struct stat file {};
  if (::fstat(fd, &file) != 0) {
    return std::unexpected(EBADF);
  }
  std::weak_ptr<XrcDomain>& known = request.device().xrc_domain_of(file.st_dev, file.st_ino);
  if (auto domain = known.lock(); domain != nullptr) {
    return (flags & O_EXCL) != 0 ? std::expected<std::shared_ptr<XrcDomain>, int>(std::unexpected(EINVAL)) : domain;
  }
  if ((flags & O_CREAT) == 0) {
    return std::unexpected(EAGAIN);
  }
  auto made = make_domain(request);
  if (made) {
    known = *made;
  }
  return made;
}

}  // namespace

int open_xrcd(Request& request) {
  ib_uverbs_open_xrcd asked{};
  if (const int error = request.get_core(asked); error != 0) {
    return error;
  }
  if (!request.device().caps().xrc) {
    return EOPNOTSUPP;
  }
  const auto fd = static_cast<std::int32_t>(asked.fd);
  auto domain = fd == kNoFile ? make_domain(request) : domain_of_file(request, fd, asked.oflags);
  if (!domain) {
    return domain.error();
  }
  return request.put_core(request.adopt(std::make_unique<Xrcd>(request.uid(), std::move(*domain))));
}

int write_close_xrcd(Request& request) {
  ib_uverbs_close_xrcd asked{};
  if (const int error = request.get_core(asked); error != 0) {
    return error;
  }
  Xrcd* const xrcd = request.file().find<Xrcd>(asked.xrcd_handle);
  if (xrcd == nullptr) {
    return ENOENT;
  }
  const auto counts = request.file().destroy(*xrcd);
  return counts ? 0 : counts.error();
}

}  // namespace handlers
}  // namespace softhca::kernel
