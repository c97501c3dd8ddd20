#include "bindings/bind_process.h"

#include <array>
#include <chrono>
#include <string>
#include <string_view>

#include "bindings/bind_errors.h"
#include "bindings/call_gate.h"
#include "dataplane/base/log.h"

namespace py = pybind11;

namespace peercache {

namespace {

/// The Python callable that takes records, or null. Read by the log thread with the interpreter's
/// lock; the sink is taken out before the interpreter ends (shut_down), so the log thread never
/// asks for the lock afterwards.
PyObject* handler = nullptr;

/// Python's numbers for levels.
int python_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return 10;
    case LogLevel::kInfo:
      return 20;
    case LogLevel::kWarn:
      return 30;
    default:
      return 40;
  }
}

/// Runs on the log thread alone: that one may wait for the interpreter's lock, nobody waits for it.
void python_sink(void* /*context*/, const LogRecord& record) {
  const PyGILState_STATE state = PyGILState_Ensure();
  if (handler != nullptr) {
    constexpr double kNanosPerSecond = 1e9;
    // A long text may have been cut inside a character.
    PyObject* const text = PyUnicode_DecodeUTF8(
        record.text.data(), static_cast<Py_ssize_t>(record.text.size()), "replace");
    PyObject* const result = PyObject_CallFunction(
        handler, "isidiN", python_level(record.level), record.file, record.line,
        static_cast<double>(record.unix_time_ns) / kNanosPerSecond,
        static_cast<int>(record.thread_id), text);
    if (result == nullptr) {
      PyErr_WriteUnraisable(handler);
    }
    Py_XDECREF(result);
  }
  PyGILState_Release(state);
}

void set_log_handler(const py::object& callable) {
  check_gate();
  PyObject* const former = handler;
  handler = callable.is_none() ? nullptr : callable.inc_ref().ptr();
  const bool wanted = handler != nullptr;
  // The sink may be waiting for the lock that this thread holds.
  without_lock([wanted] { return set_log_sink(wanted ? &python_sink : nullptr, nullptr); });
  Py_XDECREF(former);
}

void set_level(std::string_view name) {
  struct Known {
    std::string_view name;
    LogLevel level;
  };
  constexpr std::array kLevels = {Known{"debug", LogLevel::kDebug}, Known{"info", LogLevel::kInfo},
                                  Known{"warning", LogLevel::kWarn},
                                  Known{"error", LogLevel::kError}, Known{"off", LogLevel::kOff}};
  for (const Known& known : kLevels) {
    if (known.name == name) {
      set_log_level(known.level);
      return;
    }
  }
  raise_error(Errc::kBadValue, "log_level is \"" + std::string(name) +
                                   "\", known are debug, info, warning, error, off");
}

/// Goes the way of every message of the core.
void write_log(std::string_view text) { PC_LOG_INFO("{}", text); }

/// Called once, at exit, while Python still runs: afterwards no thread of ours enters the
/// interpreter.
bool shut_down(double seconds) {
  const Nanos timeout = std::chrono::duration_cast<Nanos>(std::chrono::duration<double>(seconds));
  const Nanos end = monotonic_now() + timeout;
  bool quiet = CallGate::of_process().shut(timeout);
  quiet =
      without_lock([end] {
        flush_log(std::chrono::milliseconds(500));
        bool out = set_log_sink(
            nullptr, nullptr);  // waits up to 1 s for the sink, which may be inside a log handler
        while (!out && monotonic_now() < end) {
          out = set_log_sink(nullptr, nullptr);
        }
        return out;
      }) &&
      quiet;
  return quiet;
}

py::dict call_totals() {
  const CallGate& gate = CallGate::of_process();
  py::dict totals;
  totals["calls_count"] = gate.calls_count();
  totals["keys_count"] = gate.keys_count();
  totals["held_ns"] = gate.held().count();
  return totals;
}

}  // namespace

void bind_process(py::module_& module) {
  module.def("_set_log_handler", &set_log_handler, py::arg("handler"),
             "Gives every log record to handler(level, file, line, created, thread_id, text), or "
             "to standard error.");
  module.def("_set_log_level", &set_level, py::arg("level"),
             "Drops records below this level before they are made.");
  module.def("_write_log", &write_log, py::arg("text"), "Writes an info record to the C++ log.");
  module.def("_shutdown", &shut_down, py::arg("seconds"),
             "Closes all nodes, brings back threads inside calls and takes the log handler out. "
             "Says whether all did.");
  module.def(
      "_call_totals", &call_totals,
      "Batch calls so far: calls_count, keys_count, held_ns (time with the interpreter's lock).");
}

}  // namespace peercache
