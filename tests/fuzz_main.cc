// Runs a fuzz target as an ordinary test: the corpus files of the command line, then inputs drawn from a seed, some
// random, most of them corpus files or earlier inputs with a few bytes changed. UMLX5_FUZZ_SEED repeats a run,
// UMLX5_FUZZ_SECONDS (2) and UMLX5_FUZZ_INPUTS (200000) bound it.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;
using Random = std::mt19937_64;

constexpr std::uint64_t kDefaultSeed = 20240917;
constexpr std::size_t kMaxInputBytes = 1200;  // more than the largest WQE

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 0) : otherwise;
}

void run(const Input& input) {
  // An exact-size copy on the heap, so that a sanitizer sees a read past the end.
  const std::vector<std::uint8_t> exact(input.begin(), input.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

Input random_input(Random& random) {
  // Short inputs are as likely as long ones.
  const std::size_t limit = kMaxInputBytes >> (random() % 8);
  Input input(random() % (limit + 1));
  std::generate(input.begin(), input.end(), [&] { return static_cast<std::uint8_t>(random()); });
  return input;
}

void mutate(Input& input, Random& random) {
  const unsigned changes = 1 + random() % 4;
  for (unsigned i = 0; i < changes; ++i) {
    const std::size_t at = input.empty() ? 0 : random() % input.size();
    switch (random() % 5) {
      case 0:
        input.resize(at);
        break;
      case 1:
        input.resize(std::min(input.size() + random() % 64, kMaxInputBytes));
        break;
      case 2:
        if (!input.empty()) {
          input[at] ^= static_cast<std::uint8_t>(1u << (random() % 8));
        }
        break;
      case 3:
        if (!input.empty()) {
          input[at] = random() % 2 == 0 ? 0x00 : 0xff;
        }
        break;
      default:
        if (!input.empty()) {
          input[at] = static_cast<std::uint8_t>(random());
        }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t seed = setting("UMLX5_FUZZ_SEED", kDefaultSeed);
  const std::uint64_t max_inputs = setting("UMLX5_FUZZ_INPUTS", 200000);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(setting("UMLX5_FUZZ_SECONDS", 2));
  std::printf("seed %llu (UMLX5_FUZZ_SEED)\n", static_cast<unsigned long long>(seed));

  std::vector<Input> pool = {Input{}};
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "cannot read corpus file %s\n", argv[i]);
      return 1;
    }
    pool.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    run(pool.back());
  }
  run(pool.front());

  Random random(seed);
  std::uint64_t inputs = 0;
  for (; inputs < max_inputs && std::chrono::steady_clock::now() < end; ++inputs) {
    Input input;
    if (random() % 4 == 0) {
      input = random_input(random);
    } else {
      input = pool[random() % pool.size()];
      mutate(input, random);
    }
    run(input);
    // Some inputs become seeds, so that changes add up.
    if (random() % 64 == 0) {
      if (pool.size() < 256) {
        pool.push_back(std::move(input));
      } else {
        pool[argc + random() % (pool.size() - argc)] = std::move(input);
      }
    }
  }
  std::printf("%llu inputs\n", static_cast<unsigned long long>(inputs));
  return 0;
}
