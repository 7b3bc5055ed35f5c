#include "store/members.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace paramedic::store {
namespace {

using Ranks = std::vector<int32_t>;

TEST(Members, are_told_as_ranges_or_as_a_list) {
  EXPECT_EQ(ranks_of(Json::array({3, 1, 2})), (Ranks{1, 2, 3}));
  EXPECT_EQ(ranks_of(Json("0-3,7,16-22:2")), (Ranks{0, 1, 2, 3, 7, 16, 18, 20, 22}));
  EXPECT_EQ(ranks_of(Json("0-9999"))->size(), 10'000U);
  EXPECT_EQ(ranks_of(Json("2147483647")), (Ranks{2'147'483'647}));
  EXPECT_EQ(ranks_of(Json("5,5,4")), (Ranks{4, 5}));
  EXPECT_EQ(ranks_of(Json("")), Ranks{});
}

TEST(Members, that_are_no_ranks_are_not_taken) {
  for (const char* text :
       {"-1", "3-1", "0-9:0", "0-9:", "1,,2", "1 2", "0-2000000000", "x", "1,", "0-99999,100000"}) {
    EXPECT_FALSE(ranks_of(Json(text))) << text;
  }
  EXPECT_FALSE(ranks_of(Json::array({0, -1})));
  EXPECT_FALSE(ranks_of(Json::array({1LL << 32})));
  EXPECT_FALSE(ranks_of(Json::array({"0"})));
  EXPECT_FALSE(ranks_of(Json(7)));
}

TEST(Members, of_one_book_are_one_object_however_often_they_are_told) {
  MembersBook book;
  const Members first = book.share({0, 1, 2});
  EXPECT_EQ(book.share({2, 1, 0}).identity(), first.identity());
  EXPECT_NE(book.share({0, 1}).identity(), first.identity());
  EXPECT_EQ(MembersBook().share({0, 1, 2}), first);
  EXPECT_TRUE(book.share({0, 1}) < first);
  EXPECT_FALSE(first < book.share({0, 1, 2}));
}

}  // namespace
}  // namespace paramedic::store
