#pragma once

#include <span>
#include <string_view>

#include <pybind11/pybind11.h>

#include "bindings/store_core.h"
#include "dataplane/base/units.h"

namespace peercache {

/// The bytes of one key, a str or bytes object; valid as long as the object. Raises ArgumentError
/// for another type.
[[nodiscard]] std::string_view key_text(pybind11::handle key);

/// Copies all keys of a list or tuple into `scratch` and seals them.
void read_keys(pybind11::handle keys, CallScratch& scratch);

/// Seconds to a time-out; None means the default for the call. Raises ArgumentError unless
/// positive.
[[nodiscard]] Nanos read_timeout(pybind11::handle seconds);

/// Whether a status is what its caller hoped for: a hit, or stored or held already.
[[nodiscard]] constexpr bool is_success(KeyStatus status) noexcept {
  return status == KeyStatus::kHitOwn || status == KeyStatus::kHitPeer ||
         status == KeyStatus::kStored || status == KeyStatus::kHeld;
}

/// One bool per status.
[[nodiscard]] pybind11::object to_bool_list(std::span<const KeyStatus> statuses);

}  // namespace peercache
