#include "cli/options.h"

#include <gtest/gtest.h>

#include "base/fault_file.h"

namespace paramedic::cli {
namespace {

const Option kBudget = {.name = "overhead-budget",
                        .kind = OptionKind::kShare,
                        .value = "SHARE",
                        .help = "",
                        .fallback = "1%",
                        .max = 1};
const Option kDisk = {
    .name = "max-disk", .kind = OptionKind::kBytes, .value = "SIZE", .help = "", .min = 1 << 20};
const Option kRules = {.name = "stop-on", .kind = OptionKind::kList, .value = "RULES", .help = ""};
const Option kJson = {.name = "json", .kind = OptionKind::kFlag, .value = "", .help = ""};

Environment environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

double number_of(const Option& option, const std::string& text) {
  const Result<Value> value = parse_value(option, text, "test");
  return value.ok() ? value->number : -1;
}

void write(FaultFileSystem& files, const std::string& path, const std::string& text) {
  ASSERT_TRUE(files.write_atomically(path, as_bytes(text)).ok());
}

TEST(Options, a_share_is_a_percentage_or_a_fraction) {
  EXPECT_DOUBLE_EQ(number_of(kBudget, "1%"), 0.01);
  EXPECT_DOUBLE_EQ(number_of(kBudget, "2.5 %"), 0.025);
  EXPECT_DOUBLE_EQ(number_of(kBudget, "0.05"), 0.05);
  EXPECT_DOUBLE_EQ(number_of(kBudget, "0"), 0);
  for (const char* wrong : {"", "x", "150%", "2", "-1%", "1%%", "nan", "1e999"}) {
    EXPECT_FALSE(parse_value(kBudget, wrong, "test").ok()) << wrong;
  }
}

TEST(Options, a_size_has_units_of_ten_and_of_two) {
  EXPECT_EQ(number_of(kDisk, "2GB"), 2e9);
  EXPECT_EQ(number_of(kDisk, "2 GiB"), 2147483648.0);
  EXPECT_EQ(number_of(kDisk, "1.5g"), 1610612736.0);
  EXPECT_EQ(number_of(kDisk, "1048576"), 1048576);
  for (const char* wrong : {"2XB", "GB", "1KB", "-2GB", "2GBs"}) {
    EXPECT_FALSE(parse_value(kDisk, wrong, "test").ok()) << wrong;
  }
}

TEST(Options, an_error_names_the_source_the_value_and_the_range) {
  const Status wrong = parse_value(kBudget, "lots", "PARAMEDIC_OVERHEAD_BUDGET").status();
  EXPECT_EQ(wrong.message(), "PARAMEDIC_OVERHEAD_BUDGET: 'lots' is not a share such as 1% or 0.01");
  const Status low = parse_value(kDisk, "1KB", "--max-disk").status();
  EXPECT_EQ(low.message(), "--max-disk: 1KB is out of range");
  EXPECT_EQ(low.hint(), "at least 1MiB");
}

TEST(Options, the_command_line_wins_then_the_environment_then_the_file_then_the_default) {
  Layers layers{{}, environment({}), {}};
  const auto budget = [&] { return resolve({kBudget}, layers)->at("overhead-budget"); };
  EXPECT_DOUBLE_EQ(budget().number, 0.01);
  EXPECT_FALSE(budget().given);
  layers.file = {"paramedic.toml", {{"overhead_budget", 0.02}}};
  EXPECT_DOUBLE_EQ(budget().number, 0.02);
  layers.environment = environment({{"PARAMEDIC_OVERHEAD_BUDGET", "3%"}});
  EXPECT_DOUBLE_EQ(budget().number, 0.03);
  layers.command_line = {{"overhead-budget", "4%"}};
  EXPECT_DOUBLE_EQ(budget().number, 0.04);
  EXPECT_TRUE(budget().given);
}

TEST(Options, a_file_gives_lists_flags_and_numbers_in_its_own_types) {
  const Layers layers{
      {},
      environment({}),
      {"paramedic.toml",
       {{"stop_on", {"nan_origin", "dead_relu"}}, {"json", true}, {"max_disk", 2097152}}}};
  const auto values = resolve({kRules, kJson, kDisk}, layers);
  ASSERT_TRUE(values.ok()) << values.status().to_string();
  EXPECT_EQ(values->at("stop-on").list, (std::vector<std::string>{"nan_origin", "dead_relu"}));
  EXPECT_TRUE(values->at("json").flag);
  EXPECT_EQ(values->at("max-disk").number, 2097152);
}

TEST(Options, a_bad_value_in_a_file_names_file_and_key) {
  const Layers layers{{}, environment({}), {"train/paramedic.toml", {{"overhead_budget", "much"}}}};
  EXPECT_EQ(resolve({kBudget}, layers).status().message(),
            "train/paramedic.toml: overhead_budget: 'much' is not a share such as 1% or 0.01");
}

TEST(Options, the_file_beside_the_script_comes_before_the_one_in_the_current_folder) {
  FaultFileSystem files;
  write(files, "train/main.py", "pass");
  write(files, "paramedic.toml", "name = 'here'");
  EXPECT_EQ(load_config(files, {"python", "train/main.py"})->path, "paramedic.toml");
  write(files, "train/paramedic.toml", "name = 'beside'");
  EXPECT_EQ(load_config(files, {"python", "train/main.py"})->path, "train/paramedic.toml");
  EXPECT_EQ(load_config(files, {"train/main.py"})->values["name"], "beside");
  EXPECT_EQ(load_config(files, {})->path, "paramedic.toml");
}

TEST(Options, a_file_that_is_no_toml_says_where) {
  FaultFileSystem files;
  write(files, "paramedic.toml", "name = 'x'\nmax_disk == 3");
  const Status status = load_config(files, {}).status();
  EXPECT_NE(status.message().find("paramedic.toml:2"), std::string::npos) << status.message();
}

TEST(Options, an_unknown_key_of_the_file_is_an_error_with_a_guess) {
  const ConfigFile file{"paramedic.toml", {{"overhead_bugdet", 0.1}}};
  const Status status = check_config_keys(file, {kBudget, kDisk});
  EXPECT_EQ(status.message(), "paramedic.toml: unknown option 'overhead_bugdet'");
  EXPECT_EQ(status.hint(), "did you mean overhead_budget?");
  EXPECT_TRUE(check_config_keys({"f", {{"max_disk", "2GB"}}}, {kBudget, kDisk}).ok());
}

TEST(Options, closest_finds_slips_and_beginnings_but_nothing_far_off) {
  const std::vector<std::string> words = {"show", "watch", "completions"};
  EXPECT_EQ(closest("shwo", words), "show");
  EXPECT_EQ(closest("shaw", words), "show");
  EXPECT_EQ(closest("compl", words), "completions");
  EXPECT_EQ(closest("wacth", words), "watch");
  EXPECT_EQ(closest("frobnicate", words), "");
}

}  // namespace
}  // namespace paramedic::cli
