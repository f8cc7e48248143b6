#include "tools/cli/options.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace umlx5::tools {
namespace {

CommandLine parse(const std::string& line) {
  std::istringstream words(line);
  std::vector<std::string> arguments;
  for (std::string word; words >> word;) {
    arguments.push_back(word);
  }
  return parse_command_line(arguments);
}

TestOptions test_options(const std::string& line) {
  const CommandLine parsed = parse(line);
  if (const auto* answer = std::get_if<Answer>(&parsed)) {
    ADD_FAILURE() << line << ": " << answer->text;
    return {};
  }
  return std::get<TestOptions>(parsed);
}

Answer answer(const std::string& line) {
  const CommandLine parsed = parse(line);
  if (!std::holds_alternative<Answer>(parsed)) {
    ADD_FAILURE() << line << " was taken";
    return {};
  }
  return std::get<Answer>(parsed);
}

TEST(ParseSize, UnitsAndBounds) {
  EXPECT_EQ(parse_size("0"), 0u);
  EXPECT_EQ(parse_size("64"), 64u);
  EXPECT_EQ(parse_size("64k"), 65536u);
  EXPECT_EQ(parse_size("2M"), 2097152u);
  EXPECT_EQ(parse_size("4095m"), 4293918720u);
  for (const char* bad : {"", "k", "-1", "4096m", "1g", "64kb", "1.5k", " 1", "99999999999999999999"}) {
    EXPECT_FALSE(parse_size(bad)) << bad;
  }
}

TEST(Options, DefaultsOfLat) {
  const TestOptions options = test_options("lat");
  EXPECT_EQ(options.test, tools::Test::kLatency);
  EXPECT_EQ(options.role, Role::kAlone);
  EXPECT_EQ(options.op, Op::kWrite);
  EXPECT_EQ(options.size_bytes, 2u);
  EXPECT_EQ(options.iterations, 10'000u);
  EXPECT_EQ(options.warmup, 1'000u);
  EXPECT_EQ(options.port, 18515u);
  EXPECT_FALSE(options.mtu);
  EXPECT_FALSE(options.events);
  EXPECT_EQ(test_options("lat --op atomic").size_bytes, 8u);
}

TEST(Options, EveryOptionOfLat) {
  const TestOptions options = test_options(
      "lat --op send --size 4k --iters 5 --warmup 0 --inline --events --device soft --json - --mtu 4096 --port 20000 "
      "--seed 18446744073709551615 --timeout 2.5 --gid-index 3 somewhere");
  EXPECT_EQ(options.role, Role::kClient);
  EXPECT_EQ(options.host, "somewhere");
  EXPECT_EQ(options.op, Op::kSend);
  EXPECT_EQ(options.size_bytes, 4096u);
  EXPECT_EQ(options.iterations, 5u);
  EXPECT_EQ(options.warmup, 0u);
  EXPECT_TRUE(options.send_inline);
  EXPECT_TRUE(options.events);
  EXPECT_EQ(options.device, "soft");
  EXPECT_EQ(options.json_path, "-");
  EXPECT_EQ(options.mtu, Mtu::k4096);
  EXPECT_EQ(options.port, 20000u);
  EXPECT_EQ(options.seed, UINT64_MAX);
  EXPECT_EQ(options.timeout.count(), 2500);
  EXPECT_EQ(options.gid_index, 3u);
}

TEST(Options, PerftestsLettersWork) {
  const TestOptions options = test_options("lat -d mlx5_0 -s 64 -n 7 -p 1234 -m 512 -x 1 -i 2 -e host");
  EXPECT_EQ(options.device, "mlx5_0");
  EXPECT_EQ(options.size_bytes, 64u);
  EXPECT_EQ(options.iterations, 7u);
  EXPECT_EQ(options.port, 1234u);
  EXPECT_EQ(options.mtu, Mtu::k512);
  EXPECT_EQ(options.device_port, 2u);
  EXPECT_TRUE(options.events);
  EXPECT_EQ(test_options("lat --server").role, Role::kServer);
}

TEST(Options, DefaultsOfBw) {
  const TestOptions options = test_options("bw");
  EXPECT_EQ(options.test, tools::Test::kBandwidth);
  EXPECT_EQ(options.size_bytes, 65536u);
  EXPECT_EQ(options.depth, 64u);
}

TEST(Options, Devinfo) {
  const CommandLine parsed = parse("devinfo --list --json --device x");
  ASSERT_TRUE(std::holds_alternative<DevinfoOptions>(parsed));
  const auto& options = std::get<DevinfoOptions>(parsed);
  EXPECT_TRUE(options.list && options.json);
  EXPECT_EQ(options.device, "x");
}

TEST(Options, BadValuesAreOneLineThatNamesThem) {
  for (const auto& [line, part] : std::vector<std::pair<std::string, std::string>>{
           {"", "A subcommand is required"},
           {"lap --size 4", "there is no command 'lap'"},
           {"lat --op fetch", "fetch"},
           {"lat --size 1g", "'1g' is not a size from 0 to 1024m"},
           {"lat --size 2048m", "'2048m' is not a size"},
           {"lat --iters 0", "--iters"},
           {"lat --iters many", "many"},
           {"lat --iters -5", "--iters"},
           {"lat --mtu 1500", "1500"},
           {"lat --port 70000", "70000"},
           {"lat --timeout 0", "--timeout"},
           {"lat --timeout nan", "--timeout"},
           {"lat --nonsense", "--nonsense"},
           {"lat a b", "b"},
           {"lat --server host", "--server takes no host"},
           {"lat --op atomic --size 64", "--op atomic works on 8 bytes, not on --size 64"},
           {"lat --op read --inline", "--op read carries no payload to put --inline"},
           {"lat --depth 3", "--depth"},
           {"bw --op read", "read"},
           {"bw --size 0", "--size 0"},
           {"bw --depth 0", "--depth"},
           {"bw --events", "--events"},
       }) {
    const Answer refused = answer(line);
    EXPECT_EQ(refused.exit_code, 2) << line;
    EXPECT_NE(refused.text.find(part), std::string::npos) << line << ": " << refused.text;
    EXPECT_EQ(refused.text.find('\n'), std::string::npos) << refused.text;
    EXPECT_TRUE(refused.text.starts_with("umlx5")) << refused.text;
  }
}

TEST(Options, HelpAndVersionAreNoErrors) {
  for (const char* line : {"--help", "lat --help", "bw --help", "devinfo -h"}) {
    const Answer help = answer(line);
    EXPECT_EQ(help.exit_code, 0) << line;
    EXPECT_NE(help.text.find("Usage"), std::string::npos) << help.text;
  }
  EXPECT_NE(answer("lat --help").text.find("--warmup"), std::string::npos);
  EXPECT_EQ(answer("lat --help").text.find("exchange-fd"), std::string::npos);
  EXPECT_TRUE(answer("--version").text.starts_with("umlx5 "));
}

}  // namespace
}  // namespace umlx5::tools
