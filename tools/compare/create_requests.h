// What a create call asks of the kernel: the requests of the QP, SRQ and WQ objects' CREATE methods, as text in which
// addresses and handles are left out. The program's ioctl() stands before every library's.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace umlx5::compare {

// Names of objects by (attribute kind, handle): their numbers differ between libraries.
enum class HandleKind { kPd, kCq, kSrq, kTable };

class Requests {
 public:
  void name(HandleKind kind, unsigned handle, std::string text) { names_[{kind, handle}] = std::move(text); }
  std::string name_of(HandleKind kind, unsigned handle) const;
  // Forgets what was seen; requests are seen from then on, until take().
  void start();
  std::vector<std::string> take();

 private:
  std::map<std::pair<HandleKind, unsigned>, std::string> names_;
};

}  // namespace umlx5::compare
