#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <cereal/cereal.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/utility.hpp>
#include <cereal/types/vector.hpp>

// What one worker has found out about its host and its process.
struct Findings {
  using Fact = std::pair<std::string, std::string>;  // what it is about, and what is so

  std::string hostname;
  bool speaks_for_host = false;  // one worker of each host does
  std::vector<Fact> facts;
  std::vector<std::string> advice;

  void say(std::string subject, std::string text) { facts.emplace_back(std::move(subject), std::move(text)); }
  void advise(std::string text) { advice.push_back(std::move(text)); }

  void add(Findings const& more) {
    facts.insert(facts.end(), more.facts.begin(), more.facts.end());
    advice.insert(advice.end(), more.advice.begin(), more.advice.end());
  }

  template <class A>
  void serialize(A& a) {
    a(hostname, speaks_for_host, facts, advice);
  }
};

// "0-3,6" of 0, 1, 2, 3 and 6.
template <class Numbers>
auto ranges_of(Numbers const& numbers) -> std::string {
  std::string text;
  for (std::size_t first = 0, last = 0; first < numbers.size(); first = last + 1) {
    last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[first]);
    if (last > first) text += fmt::format("{}{}", last == first + 1 ? ',' : '-', numbers[last]);
  }
  return text;
}

// What all workers have found, by rank. What several say is written once, with those who say it, unless all do or one
// on every host.
class Report {
 public:
  explicit Report(std::vector<Findings> by_rank) : by_rank_{std::move(by_rank)} {}

  [[nodiscard]] auto text() const -> std::string {
    std::string text;
    std::string last_subject;
    for (auto const& [fact, ranks] : grouped(&Findings::facts)) {
      text += fmt::format("{:<12}{}{}\n", fact.first == last_subject ? "" : fact.first, fact.second,
                          is_of_job(fact.first) ? "" : label(ranks));
      last_subject = fact.first;
    }
    auto const advice = grouped(&Findings::advice);
    text += advice.empty() ? "\nNothing to advise.\n" : "\nAdvice\n";
    for (auto const& [line, ranks] : advice) text += fmt::format("  - {}{}\n", line, label(ranks));
    return text;
  }

 private:
  using Fact = Findings::Fact;
  using Ranks = std::vector<std::uint32_t>;

  // In the order in which the ranks say them, those about one thing together.
  template <class T>
  [[nodiscard]] auto grouped(std::vector<T> Findings::*what) const -> std::vector<std::pair<T, Ranks>> {
    std::vector<std::pair<T, Ranks>> groups;
    for (std::uint32_t rank = 0; rank < by_rank_.size(); ++rank) {
      for (auto const& said : by_rank_[rank].*what) {
        auto group = std::ranges::find(groups, said, &std::pair<T, Ranks>::first);
        if (group == groups.end()) {
          auto place = std::find_if(groups.rbegin(), groups.rend(), [&](auto const& other) {
                         return about(other.first) == about(said);
                       }).base();
          group = groups.insert(place == groups.begin() ? groups.end() : place, {said, {}});
        }
        if (group->second.empty() || group->second.back() != rank) group->second.push_back(rank);
      }
    }
    return groups;
  }

  static auto about(Fact const& fact) -> std::string const& { return fact.first; }
  static auto about(std::string const& advice) -> std::string const& { return advice; }

  // What rank 0 alone has something to say of.
  [[nodiscard]] auto is_of_job(std::string const& subject) const -> bool {
    return std::ranges::none_of(by_rank_.begin() + 1, by_rank_.end(), [&](Findings const& findings) {
      return std::ranges::find(findings.facts, subject, &Fact::first) != findings.facts.end();
    });
  }

  [[nodiscard]] auto label(Ranks const& ranks) const -> std::string {
    auto const speaks_for_host = [this](std::uint32_t rank) { return by_rank_[rank].speaks_for_host; };
    auto const of_hosts = std::ranges::all_of(ranks, speaks_for_host);
    auto const hosts = static_cast<std::size_t>(std::ranges::count_if(by_rank_, &Findings::speaks_for_host));
    if (ranks.size() == by_rank_.size() || (of_hosts && ranks.size() == hosts)) return {};
    std::string names;
    for (auto const rank : ranks) {
      auto const& name = by_rank_[rank].hostname;
      if (!names.ends_with(name)) names += (names.empty() ? "" : ", ") + name;
    }
    if (of_hosts) return fmt::format("  [{}]", names);
    return fmt::format("  [{} {} on {}]", ranks.size() == 1 ? "rank" : "ranks", ranges_of(ranks), names);
  }

  std::vector<Findings> by_rank_;
};
