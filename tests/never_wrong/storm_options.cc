#include "tests/never_wrong/storm_options.h"

#include <CLI/CLI.hpp>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <string>

namespace peercache::test {

StormOptions parse_storm_options(int argc, char** argv, uint64_t default_reads_count) {
  StormOptions options;
  options.reads_count = default_reads_count;
  CLI::App app("Eviction storms against concurrent readers: no read may return wrong bytes.");
  app.add_option("--reads", options.reads_count, "validated reads")->capture_default_str();
  app.add_option("--seed", options.seed_id, "seed of the run")->capture_default_str();
  app.add_option("--seconds", options.seconds, "stop after this time (0: after --reads)");
  app.add_option("--readers", options.readers_count, "reading threads (shm)")->capture_default_str();
  app.add_option("--writers", options.writers_count, "owner processes (shm)")->capture_default_str();
  const std::map<std::string, Mutant> names{{"none", Mutant::kNone},
                                            {"no-validation", Mutant::kNoValidation}};
  const auto* mutant = app.add_option("--mutant", options.mutant,
                                      "run only this pass; without it both run and both must show what they should")
                           ->transform(CLI::CheckedTransformer(names, CLI::ignore_case));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  options.mutant_given = mutant->count() != 0;
  return options;
}

void StormCounts::add(const StormCounts& other_counts) {
  reads += other_counts.reads;
  hits += other_counts.hits;
  stale += other_counts.stale;
  overlapped += other_counts.overlapped;
  wrong += other_counts.wrong;
  puts += other_counts.puts;
  other += other_counts.other;
}

bool judge_storm(const char* name, const StormOptions& options, Mutant mutant, const StormCounts& counts) {
  const bool validated = mutant == Mutant::kNone;
  const double share = counts.reads == 0 ? 0.0
                                         : 100.0 * static_cast<double>(counts.overlapped) /
                                               static_cast<double>(counts.reads);
  std::printf("%s %-13s seed %" PRIu64 ": %" PRIu64 " reads, %" PRIu64 " hits, %" PRIu64
              " stale, %" PRIu64 " overlapped (%.2f %%), %" PRIu64 " puts, %" PRIu64
              " other, %" PRIu64 " WRONG, %.1f s\n",
              name, validated ? "validated" : "no-validation", options.seed_id, counts.reads,
              counts.hits, counts.stale, counts.overlapped, share, counts.puts, counts.other,
              counts.wrong, counts.seconds);
  std::fflush(stdout);
  if (!validated) {
    if (counts.wrong == 0) {
      std::printf("%s: FAILED: without validation no wrong page was returned, so this storm shows nothing\n", name);
    }
    return counts.wrong != 0;
  }
  if (counts.wrong != 0) {
    std::printf("%s: FAILED: %" PRIu64 " wrong pages\n", name, counts.wrong);
  }
  if (share < 1.0) {
    std::printf("%s: FAILED: %.2f %% of the reads overlapped a change of life, 1 %% is needed\n", name, share);
  }
  if (counts.other != 0) {
    std::printf("%s: FAILED: %" PRIu64 " reads ended neither as hit nor as stale\n", name, counts.other);
  }
  return counts.wrong == 0 && share >= 1.0 && counts.other == 0;
}

uint64_t mutant_reads(const StormOptions& options) {
  const uint64_t few = options.reads_count / 50;
  return few < 20'000 ? 20'000 : few;
}

}  // namespace peercache::test
