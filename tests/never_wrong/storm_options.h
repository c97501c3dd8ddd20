#pragma once

#include <cstdint>

namespace peercache::test {

enum class Mutant : uint8_t { kNone, kNoValidation };

/// What a storm is told on its command line.
///
/// THREAD:     any; a value.
struct StormOptions {
  uint64_t reads_count = 0;
  uint64_t seed_id = 1;
  double seconds = 0;      ///< ends after this time with what it has; 0: after reads_count
  bool mutant_given = false;
  Mutant mutant = Mutant::kNone;  ///< with --mutant only this pass runs, and only its wrong pages decide
  uint64_t readers_count = 2;
  uint64_t writers_count = 1;
};

/// Parses the command line; prints and exits for --help and on errors.
StormOptions parse_storm_options(int argc, char** argv, uint64_t default_reads_count);

/// What one pass over a storm counted.
///
/// THREAD:     any; a value.
struct StormCounts {
  uint64_t reads = 0;       ///< validated READs that ended, as hit or as stale
  uint64_t hits = 0;
  uint64_t stale = 0;
  uint64_t overlapped = 0;  ///< generation changed between the post of the data READ and the header READ
  uint64_t wrong = 0;       ///< hits whose bytes are not the object's
  uint64_t puts = 0;
  uint64_t other = 0;       ///< ended otherwise; none is expected
  double seconds = 0;

  void add(const StormCounts& other_counts);
};

/// Prints a line and says whether the pass is what the mutant's kind demands: without a mutant no wrong page, nothing
/// unexpected and at least 1 % overlapped; without validation at least one wrong page.
bool judge_storm(const char* name, const StormOptions& options, Mutant mutant, const StormCounts& counts);

/// Reads of the pass without validation: enough to show wrong pages.
uint64_t mutant_reads(const StormOptions& options);

}  // namespace peercache::test
