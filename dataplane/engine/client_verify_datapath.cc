// The optional check of the payload hash, on top of the slot header.
#include "dataplane/base/key.h"
#include "dataplane/base/stream_hash.h"
#include "dataplane/engine/client_state.h"

namespace peercache {

// True unless the hash that the owner stored differs from the bytes that arrived. The state is 576
// bytes of stack.
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
    return hash_bytes64(record.pieces[0].address, record.pieces[0].length_bytes) ==
           record.landing.payload_hash.value();
  }
  StreamHash64 hash;
  for (uint16_t i = 0; i < record.piece_count; ++i) {
    hash.update(record.pieces[i].address, record.pieces[i].length_bytes);
  }
  return hash.digest() == record.landing.payload_hash.value();
}

}  // namespace peercache
