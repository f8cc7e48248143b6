#include "tools/softhca/wire/faults.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

namespace softhca::wire {
namespace {

FaultPlan plan_of(std::string_view text) {
  auto plan = FaultPlan::parse(text);
  EXPECT_TRUE(plan) << plan.error().message();
  return plan ? *plan : FaultPlan{};
}

std::string error_of(std::string_view text) {
  const auto plan = FaultPlan::parse(text);
  if (plan) {
    return "";
  }
  EXPECT_EQ(plan.error().errno_value, EINVAL);
  return plan.error().what;
}

TEST(Faults, NothingHappensOnAPerfectWire) {
  const FaultPlan plan = plan_of("");
  EXPECT_FALSE(plan.active());
  EXPECT_FALSE(plan_of("seed=7,loss=0").active());
  for (std::uint64_t n = 0; n < 1000; ++n) {
    EXPECT_EQ(plan.decide(n), Fault{});
  }
}

TEST(Faults, RatesAreThoseAskedFor) {
  const FaultPlan plan = plan_of("seed=7,loss=0.02,dup=0.01,reorder=0.03,delay=0.04,delay_us=250,corrupt=0.005");
  EXPECT_TRUE(plan.active());
  EXPECT_EQ(plan.delay_ns(), 250'000U);
  constexpr int kPackets = 1'000'000;
  int lost = 0, duplicated = 0, reordered = 0, delayed = 0, corrupted = 0, both = 0;
  for (int n = 0; n < kPackets; ++n) {
    const Fault fault = plan.decide(n);
    lost += fault.lose;
    duplicated += fault.duplicate;
    reordered += fault.reorder;
    delayed += fault.delay;
    corrupted += fault.corrupt;
    both += fault.reorder && fault.delay;
    EXPECT_FALSE(fault.lose && (fault.duplicate || fault.reorder || fault.delay || fault.corrupt));
  }
  // More than five standard deviations each; the seed is fixed, so these either hold for ever or never.
  EXPECT_NEAR(lost, 20'000, 750);
  EXPECT_NEAR(duplicated, 9'800, 500);
  EXPECT_NEAR(reordered, 29'400, 900);
  EXPECT_NEAR(delayed, 39'200, 1'000);
  EXPECT_NEAR(corrupted, 4'900, 360);
  EXPECT_NEAR(both, 1'176, 180);  // independent of each other
}

TEST(Faults, TheSeedDecidesAndTheOrderOfQuestionsDoesNot) {
  const std::string text = "loss=0.1,dup=0.1,reorder=0.1,delay=0.1,corrupt=0.1,seed=";
  const FaultPlan one = plan_of(text + "1");
  const FaultPlan same = plan_of(text + "1");
  const FaultPlan other = plan_of(text + "2");
  int differences = 0;
  for (std::uint64_t n = 0; n < 10'000; ++n) {
    EXPECT_EQ(one.decide(9'999 - n), same.decide(9'999 - n));
    EXPECT_EQ(one.decide(n), same.decide(n));
    differences += one.decide(n) != other.decide(n);
  }
  EXPECT_GT(differences, 1'000);
}

// The sequence of a seed is a promise: a failure found with a seed must come back with it in a later release.
TEST(Faults, SequenceIsFrozen) {
  const FaultPlan plan = plan_of("seed=7,loss=0.1");
  std::vector<std::uint64_t> lost;
  for (std::uint64_t n = 0; n < 100; ++n) {
    if (plan.decide(n).lose) {
      lost.push_back(n);
    }
  }
  EXPECT_EQ(lost, (std::vector<std::uint64_t>{61, 66, 72, 78, 81, 86, 90, 94, 97, 98, 99}));
}

TEST(Faults, CertainAndImpossibleAreExact) {
  const FaultPlan plan = plan_of("duplication=1,corruption=1,reordering=0");
  for (std::uint64_t n = 0; n < 10'000; ++n) {
    const Fault fault = plan.decide(n);
    EXPECT_TRUE(fault.duplicate && fault.corrupt);
    EXPECT_FALSE(fault.reorder || fault.lose || fault.delay);
  }
}

TEST(Faults, BadTextIsRefusedByName) {
  EXPECT_EQ(error_of("lost=0.1"),
            "faults: unknown key \"lost\"; known are seed, loss, dup, reorder, delay, delay_us and corrupt");
  EXPECT_EQ(error_of("seed=1,loss=1.5"), "faults: loss=1.5: a probability is 0 to 1");
  EXPECT_EQ(error_of("loss=-0.1"), "faults: loss=-0.1: a probability is 0 to 1");
  EXPECT_EQ(error_of("dup=nan"), "faults: dup=nan: a probability is 0 to 1");
  EXPECT_EQ(error_of("dup="), "faults: dup=: not a number");
  EXPECT_EQ(error_of("corrupt=0.1x"), "faults: corrupt=0.1x: not a number");
  EXPECT_EQ(error_of("seed=-1"), "faults: seed=-1: not a whole number");
  EXPECT_EQ(error_of("delay_us=10000001"), "faults: delay_us=10000001: at most 10000000");
  EXPECT_EQ(error_of("loss"), "faults: \"loss\" is not key=value");
  EXPECT_EQ(error_of("loss=0.1,,dup=0.1"), "faults: \"\" is not key=value");
}

TEST(FlipBit, FlipsOneBitAnywhereButInTheUncoveredByte) {
  std::vector<bool> flipped(16 * 8);
  for (std::uint64_t entropy = 0; entropy < 10'000; ++entropy) {
    std::vector<std::byte> packet(16);
    flip_bit(packet, entropy);
    int bits = 0;
    for (std::size_t bit = 0; bit < flipped.size(); ++bit) {
      if ((packet[bit / 8] >> (bit % 8) & std::byte{1}) != std::byte{0}) {
        flipped[bit] = true;
        ++bits;
      }
    }
    ASSERT_EQ(bits, 1);
  }
  for (std::size_t bit = 0; bit < flipped.size(); ++bit) {
    EXPECT_EQ(flipped[bit], bit / 8 != 4) << bit;
  }
}

}  // namespace
}  // namespace softhca::wire
