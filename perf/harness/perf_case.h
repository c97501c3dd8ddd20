#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dataplane/base/units.h"

namespace peercache::perf {

/// How a benchmark program was asked to run.
///
///   --runs N    interleaved runs per case (default 7, at least 5 for a published row)
///   --quick     shorter runs, smaller sets
///   --smoke     one tiny run per case: proves that it works, its figures mean nothing
///   --state S   recorded with each row: idle or busy (one core kept busy by somebody else)
///   --only TEXT cases whose name contains TEXT
struct PerfOptions {
  uint32_t runs_count = 7;
  bool quick = false;
  bool smoke = false;
  std::string state = "idle";
  std::string only;

  /// Time that one run of one case should take.
  Nanos run_time() const;
  bool wants(const std::string& case_name) const;
};

/// Reads the arguments; prints help or the fault and exits when that is what was asked for.
PerfOptions parse_perf_options(int argc, char** argv, const char* what);

/// One row: what was measured, in which unit, beside which ceiling, all runs of both. `scripts/bench` makes medians of it.
struct PerfRow {
  std::string bench;
  std::string case_name;
  std::string unit;
  bool higher_is_better = true;
  std::vector<double> values;
  std::string ceiling_name;      ///< empty: none
  std::vector<double> ceilings;  ///< one per value
  double budget_ratio = 0;       ///< least wanted value / ceiling; 0: none
  double budget_value = 0;       ///< least (or most) wanted value; 0: none
  std::vector<std::pair<std::string, double>> extra;
};

/// Prints the row as one line of JSON on stdout.
void report(const PerfOptions& options, const PerfRow& row);

/// Runs ceiling and subject in turn, `runs_count` times (after one run of each that is thrown away), and collects what
/// they return. `ceiling` may be empty.
void run_interleaved(const PerfOptions& options,
                     PerfRow& row,
                     const std::function<double()>& ceiling,
                     const std::function<double()>& subject);

/// Repeats `step` (which returns the units it did) until `time` has passed; units per second.
double rate_of(Nanos time, const std::function<double()>& step);

}  // namespace peercache::perf
