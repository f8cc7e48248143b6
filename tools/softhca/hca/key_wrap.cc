#include "tools/softhca/hca/key_wrap.h"

#include <openssl/evp.h>

#include <memory>

namespace softhca {
namespace {

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};

const unsigned char* bytes_of(std::span<const std::byte> data) {
  return reinterpret_cast<const unsigned char*>(data.data());
}

}  // namespace

bool unwrap(std::span<const std::byte, kKekBytes> kek, std::span<const std::byte> wrapped, std::span<std::byte> plain) {
  constexpr std::size_t kLeast = 24;
  if (wrapped.size() < kLeast || wrapped.size() % kWrapBytes != 0 || plain.size() + kWrapBytes != wrapped.size()) {
    return false;
  }
  const std::unique_ptr<EVP_CIPHER_CTX, FreeContext> context(EVP_CIPHER_CTX_new());
  if (context == nullptr) {
    return false;
  }
  EVP_CIPHER_CTX_set_flags(context.get(), EVP_CIPHER_CTX_FLAG_WRAP_ALLOW);
  int written = 0;
  // Without an initial value it is the standard's.
  return EVP_DecryptInit_ex(context.get(), EVP_aes_256_wrap(), nullptr, bytes_of(kek), nullptr) == 1 &&
         EVP_DecryptUpdate(context.get(), reinterpret_cast<unsigned char*>(plain.data()), &written, bytes_of(wrapped),
                           static_cast<int>(wrapped.size())) == 1 &&
         static_cast<std::size_t>(written) == plain.size();
}

}  // namespace softhca
