#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "controlplane/wire/messages.h"
#include "dataplane/base/result.h"

namespace peercache {

/// Encodes a message (FlatBuffers, controlplane/wire/messages.fbs). The encoding is not canonical.
/// Errors: kBadLength if it breaks message_limits.
Result<std::vector<std::byte>> encode_message(const Message& message);

/// Decodes hostile bytes: verified before any field is read, counts and texts bounded, enumerators
/// checked. Record contents are not judged here (is_sound, check_location do that). Errors:
/// kBadLength, kTruncated (verification failed), kBadEnum, kOutOfRange.
Result<Message> decode_message(MessageType type, std::span<const std::byte> body);

}  // namespace peercache
