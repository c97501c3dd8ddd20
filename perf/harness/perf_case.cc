#include "perf/harness/perf_case.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "dataplane/base/clock.h"

namespace peercache::perf {
namespace {

void print_help(const char* what) {
  std::printf(
      "%s\n\n"
      "  --runs N     interleaved runs per case (default 7)\n"
      "  --quick      shorter runs, smaller sets\n"
      "  --smoke      one tiny run per case: proves that it works, its figures mean nothing\n"
      "  --state S    recorded with each row: idle or busy\n"
      "  --only TEXT  only cases whose name contains TEXT\n\n"
      "Prints one JSON object per case; scripts/bench runs all programs and makes the table.\n",
      what);
}

void print_list(const char* name, const std::vector<double>& values) {
  std::printf(", \"%s\": [", name);
  for (size_t i = 0; i < values.size(); ++i) std::printf("%s%.6g", i == 0 ? "" : ", ", values[i]);
  std::printf("]");
}

}  // namespace

Nanos PerfOptions::run_time() const {
  if (smoke) return std::chrono::milliseconds(5);
  return quick ? std::chrono::milliseconds(150) : std::chrono::milliseconds(500);
}

bool PerfOptions::wants(const std::string& case_name) const {
  return only.empty() || case_name.find(only) != std::string::npos;
}

PerfOptions parse_perf_options(int argc, char** argv, const char* what) {
  PerfOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&]() -> const char* {
      if (i + 1 >= argc) {
        std::fprintf(stderr, "%s needs a value; see --help\n", argument.c_str());
        std::exit(2);
      }
      return argv[++i];
    };
    if (argument == "--help" || argument == "-h") {
      print_help(what);
      std::exit(0);
    } else if (argument == "--quick") {
      options.quick = true;
    } else if (argument == "--smoke") {
      options.smoke = true;
      options.runs_count = 1;
    } else if (argument == "--runs") {
      options.runs_count = static_cast<uint32_t>(std::strtoul(value(), nullptr, 10));
      if (options.runs_count == 0) options.runs_count = 1;
    } else if (argument == "--state") {
      options.state = value();
    } else if (argument == "--only") {
      options.only = value();
    } else {
      std::fprintf(stderr, "unknown argument %s; see --help\n", argument.c_str());
      std::exit(2);
    }
  }
  return options;
}

void report(const PerfOptions& options, const PerfRow& row) {
  std::printf(
      "{\"bench\": \"%s\", \"case\": \"%s\", \"state\": \"%s\", \"unit\": \"%s\", "
      "\"higher_is_better\": %s",
      row.bench.c_str(), row.case_name.c_str(), options.state.c_str(), row.unit.c_str(),
      row.higher_is_better ? "true" : "false");
  print_list("values", row.values);
  if (!row.ceiling_name.empty()) {
    std::printf(", \"ceiling_name\": \"%s\"", row.ceiling_name.c_str());
    print_list("ceilings", row.ceilings);
  }
  if (row.budget_ratio > 0) std::printf(", \"budget_ratio\": %.6g", row.budget_ratio);
  if (row.budget_value > 0) std::printf(", \"budget_value\": %.6g", row.budget_value);
  for (const auto& [name, value] : row.extra) std::printf(", \"%s\": %.6g", name.c_str(), value);
  std::printf("}\n");
  std::fflush(stdout);
}

void run_interleaved(const PerfOptions& options,
                     PerfRow& row,
                     const std::function<double()>& ceiling,
                     const std::function<double()>& subject) {
  if (!options.smoke) {
    if (ceiling) ceiling();
    subject();
  }
  for (uint32_t run = 0; run < options.runs_count; ++run) {
    if (ceiling) row.ceilings.push_back(ceiling());
    row.values.push_back(subject());
  }
}

double rate_of(Nanos time, const std::function<double()>& step) {
  const Nanos began_at = monotonic_now();
  double units = 0;
  Nanos now = began_at;
  do {
    units += step();
    now = monotonic_now();
  } while (now - began_at < time);
  return units / std::chrono::duration<double>(now - began_at).count();
}

}  // namespace peercache::perf
