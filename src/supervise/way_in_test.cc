#include "supervise/way_in.h"

#include <gtest/gtest.h>

namespace paramedic::supervise {
namespace {

TEST(WayIn, a_python_that_keeps_us_out_is_named) {
  const auto why = [](const std::vector<std::string>& command) {
    return why_nothing_seen(command);
  };
  EXPECT_NE(why({"python", "-I", "train.py"}).find("-I"), std::string::npos);
  EXPECT_NE(why({"/usr/bin/python3.11", "-uE", "train.py"}).find("-E"), std::string::npos);
  EXPECT_NE(why({"env", "python3", "-S", "-c", "pass"}).find("-S"), std::string::npos);
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"python", "train.py", "-I"},
                                             {"python", "-m", "train", "-S"},
                                             {"python", "-W", "Error", "train.py"},
                                             {"python", "-X", "Importtime", "train.py"},
                                             {"python", "-c", "print('E')"}}) {
    EXPECT_EQ(why(command), "the script imported none that Paramedic knows (torch)");
  }
  EXPECT_EQ(why({"./train.sh", "-I"}),
            "no process of the job imported a framework that Paramedic knows (torch)");
}

}  // namespace
}  // namespace paramedic::supervise
