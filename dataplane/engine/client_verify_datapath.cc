// The optional check of the payload hash, on top of the slot header.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "dataplane/engine/client_state.h"

namespace peercache {

// True unless the hash that the owner stored differs from the bytes that arrived. The state is 576 bytes of stack.
bool Client::State::payload_holds(const OpRecord& record) noexcept {
  if (record.kind != OpKind::kRead || record.validation != Validation::kHeader ||
      record.landing.payload_hash == PayloadHash{}) {
    return true;  // nothing to compare with
  }
  if (options.verify == VerifyReads::kSampled && --verify_countdown != 0) {
    return true;
  }
  verify_countdown = options.verify_sample_reads_count;
  counters->verified.add();
  if (record.piece_count == 1) {
    return XXH3_64bits(record.pieces[0].address, record.pieces[0].length_bytes) ==
           record.landing.payload_hash.value();
  }
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_64bits_reset(&state);
  for (uint16_t i = 0; i < record.piece_count; ++i) {
    XXH3_64bits_update(&state, record.pieces[i].address, record.pieces[i].length_bytes);
  }
  return XXH3_64bits_digest(&state) == record.landing.payload_hash.value();
}

}  // namespace peercache
