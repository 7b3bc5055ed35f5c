// Each signature's own excerpts: a match is classified by this very signature, a near miss is not.

#include "diagnose/signature.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "diagnose/diagnose.h"
#include "diagnose/gate.h"

namespace paramedic::diagnose {

std::span<const EmbeddedFile> signature_files();

namespace {

bool fires(const Diagnosis& diagnosis, const Signature& signature) {
  return std::any_of(diagnosis.timeline.events.begin(), diagnosis.timeline.events.end(),
                     [&](const Event& event) { return event.signature == &signature; });
}

std::string mechanisms(const Diagnosis& diagnosis) {
  std::string all;
  for (const Event& event : diagnosis.timeline.events) {
    all += (event.signature != nullptr ? event.signature->id : "none") + " ";
  }
  return all;
}

// Advice and progress make no events: whether the line is classified so is all there is to see.
bool silent(const Signature& signature) {
  return signature.role == Role::kAdvice || signature.role == Role::kProgress;
}

TEST(Signature, TheFilesOfTheCheckoutLoad) {
  const Result<Catalog> catalog = Catalog::load(signature_files());
  ASSERT_TRUE(catalog.ok()) << catalog.status().to_string();
  EXPECT_GT(catalog->signatures().size(), 80U);
}

TEST(Signature, EveryExpressionCompilesThoughASearchCompilesOnlyThoseThatItNeeds) {
  const Status status = Catalog::builtin().check();
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Signature, AnExpressionThatDoesNotCompileIsNamedWithItsFileAndEntry) {
  const EmbeddedFile files[] = {
      {"bad.toml",
       "[[signature]]\nid = \"x\"\ncategory = \"unknown\"\npattern = [\"a\", \"b(c\"]\n"}};
  const Result<Catalog> catalog = Catalog::load(files);
  ASSERT_TRUE(catalog.ok()) << catalog.status().message();
  EXPECT_EQ(catalog->check().message(), "signatures/bad: x: b(c: missing ): b(c");
}

TEST(Signature, OfTwoThatFitTheMoreExactWinsAndThenTheFirst) {
  const EmbeddedFile files[] = {{"a.toml", R"toml(
[[signature]]
id = "fallback"
category = "unknown"
tier = "fallback"
exception = "OddError"
[[signature]]
id = "first"
category = "unknown"
pattern = ["went wrong"]
[[signature]]
id = "second"
category = "unknown"
pattern = ["(?i)WRONG (?:at|in)"]
[[signature]]
id = "exact"
category = "unknown"
exception = "OddError"
pattern = ["in the end"]
unless = "not"
)toml"}};
  const Result<Catalog> catalog = Catalog::load(files);
  ASSERT_TRUE(catalog.ok()) << catalog.status().message();
  const auto of = [&](const std::string& message) {
    Exception exception;
    exception.type = "lib.OddError";
    exception.message = message;
    const Signature* found = catalog->classify(exception);
    return found == nullptr ? "none" : found->id;
  };
  EXPECT_EQ(of("it is"), "fallback");
  EXPECT_EQ(of("it went wrong in it"), "first");
  EXPECT_EQ(of("it goes Wrong At it"), "second");
  EXPECT_EQ(of("it went wrong in the end"), "exact");
  EXPECT_EQ(of("it went wrong in the end, did it not"), "first");
  EXPECT_EQ(catalog->classify("it goes wrong at it")->id, "second");
  EXPECT_EQ(catalog->classify("in the end"), nullptr);
}

TEST(Signature, EachMatchIsClassifiedByItsOwnSignatureAndPassesTheGate) {
  const Catalog& catalog = Catalog::builtin();
  const Gate& gate = catalog.gate();
  for (const auto& signature : catalog.signatures()) {
    EXPECT_GE(signature->match.size(), 2U) << signature->id;
    for (const std::string& excerpt : signature->match) {
      if (silent(*signature)) {
        EXPECT_EQ(catalog.classify(excerpt), signature.get()) << excerpt;
        continue;
      }
      const Diagnosis diagnosis = diagnose_text("job.log", excerpt + "\n");
      EXPECT_TRUE(fires(diagnosis, *signature)) << signature->id << " does not fire on: " << excerpt
                                                << "\n  but " << mechanisms(diagnosis);
      EXPECT_NE(gate.find(excerpt, 0), std::string_view::npos) << signature->id << ": " << excerpt;
    }
  }
}

TEST(Signature, NoNearMissIsClassifiedByTheSignatureThatItIsCloseTo) {
  for (const auto& signature : Catalog::builtin().signatures()) {
    EXPECT_GE(signature->near_miss.size(), 1U) << signature->id;
    for (const std::string& excerpt : signature->near_miss) {
      const Diagnosis diagnosis = diagnose_text("job.log", excerpt + "\n");
      EXPECT_FALSE(fires(diagnosis, *signature)) << signature->id << " fires on: " << excerpt;
    }
  }
}

TEST(Signature, AnIdStandsOnlyOnce) {
  std::vector<std::string> ids;
  for (const auto& signature : Catalog::builtin().signatures()) ids.push_back(signature->id);
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
}

TEST(Signature, AFaultInAFileIsReportedWithItsFileAndEntry) {
  const EmbeddedFile files[] = {
      {"bad.toml", "[[signature]]\nid = \"x\"\ncategory = \"no_such\"\npattern = [\"a\"]\n"}};
  const Result<Catalog> catalog = Catalog::load(files);
  ASSERT_FALSE(catalog.ok());
  EXPECT_NE(catalog.status().message().find("signatures/bad: x"), std::string::npos)
      << catalog.status().message();
}

}  // namespace
}  // namespace paramedic::diagnose
