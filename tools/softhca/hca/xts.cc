#include "tools/softhca/hca/xts.h"

#include <openssl/evp.h>

#include <algorithm>
#include <memory>

namespace softhca {
namespace {

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_CIPHER_CTX, FreeContext>;

unsigned char* bytes_of(std::span<std::byte> data) { return reinterpret_cast<unsigned char*>(data.data()); }

}  // namespace

XtsTweak advanced(const XtsTweak& tweak, std::uint64_t units) {
  XtsTweak result = tweak;
  std::uint64_t carry = 0;
  for (std::uint8_t& byte : result) {
    carry += byte + (units & 0xff);
    units >>= 8;
    byte = static_cast<std::uint8_t>(carry);
    carry >>= 8;
  }
  return result;
}

bool transform(const XtsKey& key, XtsOperation operation, XtsTweak tweak, std::size_t unit_bytes,
               std::span<std::byte> data) {
  const Context context(EVP_CIPHER_CTX_new());
  const int encrypt = operation == XtsOperation::kEncrypt ? 1 : 0;
  const EVP_CIPHER* const cipher = key.used_bytes == 64 ? EVP_aes_256_xts() : EVP_aes_128_xts();
  if (context == nullptr ||
      EVP_CipherInit_ex(context.get(), cipher, nullptr, reinterpret_cast<const unsigned char*>(key.bytes.data()),
                        nullptr, encrypt) != 1) {
    return false;
  }
  for (; !data.empty(); tweak = advanced(tweak, 1)) {
    const auto unit = data.first(std::min(unit_bytes, data.size()));
    int written = 0;
    if (EVP_CipherInit_ex(context.get(), nullptr, nullptr, nullptr, tweak.data(), encrypt) != 1 ||
        EVP_CipherUpdate(context.get(), bytes_of(unit), &written, bytes_of(unit), static_cast<int>(unit.size())) != 1 ||
        static_cast<std::size_t>(written) != unit.size()) {
      return false;
    }
    data = data.subspan(unit.size());
  }
  return true;
}

}  // namespace softhca
