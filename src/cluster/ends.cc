#include "cluster/ends.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <map>
#include <string_view>
#include <vector>

namespace paramedic::cluster {
namespace {

// How ranks end and what the launcher does about it comes to light within this time.
constexpr int64_t kSettleNs = 1'500'000'000;

bool contains_any(const std::string& text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return text.find(part) != std::string::npos; });
}

std::vector<RankEnd> ends_of(const Job& job) {
  std::vector<RankEnd> ends;
  for (const auto& [number, rank] : job.ranks().all()) {
    if (rank.is_known) ends.push_back(end_of(job, rank));
  }
  return ends;
}

// A rank that caught its exception and ended with a code tells none. It is the cause where it was
// the first of all to end, most did not end so, and others lost their connection or were ended by
// the launcher.
std::optional<RankEnd> first_to_give_up(const Job& job, const std::vector<RankEnd>& ends) {
  const auto tells_nothing = [&](const RankEnd& end) {
    const Rank& rank = *job.ranks().find(end.rank);
    return end.end == End::kVictim && end.signal == 0 &&
           !(rank.exiting && rank.exiting->has_exception);
  };
  const RankEnd* first = nullptr;
  size_t silent = 0;
  size_t victims = 0;
  for (const RankEnd& end : ends) {
    if (end.end == End::kNone) continue;
    if (first == nullptr || end.time_ns < first->time_ns) first = &end;
    silent += tells_nothing(end) ? 1 : 0;
    victims += end.end == End::kVictim && !tells_nothing(end) ? 1 : 0;
  }
  if (first == nullptr || !tells_nothing(*first)) return std::nullopt;
  if (victims == 0 || silent * 2 > ends.size()) return std::nullopt;
  RankEnd death = *first;
  death.end = End::kExit;
  return death;
}

// Something that every rank met is no fault of one.
bool is_common(const std::vector<RankEnd>& ends, const Job& job, const RankEnd& death) {
  const Rank* dead = job.ranks().find(death.rank);
  const auto same = std::count_if(ends.begin(), ends.end(), [&](const RankEnd& end) {
    if (end.end != death.end || end.signal != death.signal) return false;
    if (death.end != End::kException) return end.exit_code == death.exit_code;
    const Rank* rank = job.ranks().find(end.rank);
    return rank->exiting && rank->exiting->type == dead->exiting->type;
  });
  return same > 1 && static_cast<size_t>(same) * 2 > ends.size();
}

}  // namespace

bool is_bad(const RankEnd& end) {
  return end.end == End::kException || end.end == End::kSignal || end.end == End::kExit;
}

bool is_of_connection(const Exiting& exiting) {
  return contains_any(exiting.type, {"DistBackendError", "DistNetworkError", "DistStoreError"}) ||
         contains_any(exiting.message,
                      {"gloo", "NCCL", "c10d", "Connection closed by peer", "Connection reset",
                       "Broken pipe", "Socket Timeout", "ProcessGroup",
                       // TensorFlow
                       "Collective ops is aborted", "coordination service", "Socket closed",
                       "failed to connect to all addresses"});
}

bool is_of_memory(const Exiting& exiting) {
  return contains_any(exiting.type, {"MemoryError", "OutOfMemoryError"}) ||
         contains_any(exiting.message, {"can't allocate memory", "Cannot allocate memory",
                                        "out of memory", "bad_alloc", "Unable to allocate"});
}

bool is_of_taken_port(const Exiting& exiting) {
  return contains_any(exiting.message,
                      {"EADDRINUSE", "address already in use", "Address already in use"});
}

RankEnd end_of(const Job& job, const Rank& rank) {
  const RankProcess& process = rank.process;
  RankEnd end;
  end.rank = process.rank;
  end.signal = process.exit_signal.value_or(0);
  end.exit_code = process.exit_code;
  end.time_ns = rank.exiting ? rank.exiting->time_ns : rank.gone_since_ns;
  if (rank.exiting && rank.exiting->has_exception) {
    end.end = is_of_connection(*rank.exiting) ? End::kVictim : End::kException;
    end.ran_out_of_memory = is_of_memory(*rank.exiting);
    // A backend that cannot allocate is out of memory all the same.
    if (end.ran_out_of_memory) end.end = End::kException;
    return end;
  }
  if (process.alive) return end;
  if (end.signal == SIGTERM || end.signal == SIGINT || end.signal == SIGHUP) {
    end.end = End::kVictim;
  } else if (end.signal != 0) {
    end.end = End::kSignal;
    end.ran_out_of_memory = end.signal == SIGKILL && job.had_oom_kill_near(end.time_ns);
  } else if (end.exit_code) {
    end.end = *end.exit_code != 0 || !process.closed ? End::kExit : End::kWell;
    // The interpreter ended it properly, but the exception was not told.
    if (process.closed && *end.exit_code == 1) end.end = End::kVictim;
  } else {
    end.end = process.closed ? End::kWell : End::kExit;
  }
  return end;
}

std::optional<RankEnd> first_death(const Job& job, bool is_over) {
  const auto ends = ends_of(job);
  if (ends.size() < 2) return std::nullopt;
  // Once the launcher ends the ranks, what becomes of them is its doing.
  int64_t ending_ns = INT64_MAX;
  for (const RankEnd& end : ends) {
    if (end.end != End::kVictim || end.signal == 0) continue;
    // Not when it told its exception: the signal came later, while it was still on its way out.
    ending_ns = std::min(ending_ns, job.ranks().find(end.rank)->gone_since_ns);
  }
  const RankEnd* first = nullptr;
  for (const RankEnd& end : ends) {
    if (!is_bad(end) || end.time_ns > ending_ns) continue;
    // A signal from outside and the end it brings to others may come to light in one look.
    const bool is_stronger = first != nullptr && first->end != End::kSignal &&
                             end.end == End::kSignal && end.time_ns - first->time_ns < kSettleNs;
    const bool is_weaker = first != nullptr && first->end == End::kSignal &&
                           end.end != End::kSignal && first->time_ns - end.time_ns < kSettleNs;
    if (first == nullptr || is_stronger || (end.time_ns < first->time_ns && !is_weaker)) {
      first = &end;
    }
  }
  const std::optional<RankEnd> death =
      first == nullptr ? first_to_give_up(job, ends) : std::optional(*first);
  if (!death || is_common(ends, job, *death)) return std::nullopt;
  if (!is_over && job.time_ns() - death->time_ns < kSettleNs) return std::nullopt;
  return death;
}

std::optional<RankEnd> first_departure(const Job& job) {
  const auto ends = ends_of(job);
  const RankEnd* first = nullptr;
  int64_t victims_ns = 0;  // when the first of them failed
  for (const RankEnd& end : ends) {
    if (is_bad(end)) return std::nullopt;
    if (end.end == End::kWell && (first == nullptr || end.time_ns < first->time_ns)) first = &end;
    const Rank* rank = job.ranks().find(end.rank);
    const bool failed = end.end == End::kVictim && rank->exiting && rank->exiting->has_exception;
    if (failed && (victims_ns == 0 || end.time_ns < victims_ns)) victims_ns = end.time_ns;
  }
  const bool left_first = first != nullptr && victims_ns != 0 && first->time_ns <= victims_ns;
  return left_first ? std::optional(*first) : std::nullopt;
}

}  // namespace paramedic::cluster
