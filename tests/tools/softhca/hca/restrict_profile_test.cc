// Devices of lesser abilities.
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "tools/softhca/hca/profile.h"

namespace softhca::hca {
namespace {

TEST(RestrictProfile, TakesCapabilitiesAway) {
  Profile profile;
  ASSERT_TRUE(restrict_profile("dct=0,dci_streams=3,ooo=0", profile));
  EXPECT_FALSE(profile.dct || profile.out_of_order);
  EXPECT_EQ(profile.log_max_dci_streams, 3);
  EXPECT_TRUE(profile.xrc);
  EXPECT_TRUE(restrict_profile("", profile));
  EXPECT_TRUE(restrict_profile("xrc=1", profile));
}

TEST(RestrictProfile, RefusesWhatItDoesNotUnderstandAndChangesNothing) {
  for (const char* const text : {"dct", "dct=", "dct=2", "dct=-1", "dct= 0", "dct=0x", "ooo=2", "dci_streams=9",
                                 "speed=1", "=0", ",", "dct=0,", "dct=0,,xrc=0", "xrc=0,speed=1", "dct=0 "}) {
    Profile profile;
    const auto result = restrict_profile(text, profile);
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().errno_value, EINVAL) << text;
    EXPECT_TRUE(profile.dct && profile.xrc) << text;
  }
  Profile profile;
  const std::string words = restrict_profile("speed=1", profile).error().what;
  EXPECT_NE(words.find("speed=1"), std::string::npos) << words;
  EXPECT_NE(words.find("dci_streams"), std::string::npos) << words << ": it names those there are";
}

TEST(RestrictProfile, NothingIsGivenBack) {
  Profile profile;
  ASSERT_TRUE(restrict_profile("dct=0", profile));
  EXPECT_FALSE(restrict_profile("dct=1", profile));
}

}  // namespace
}  // namespace softhca::hca
