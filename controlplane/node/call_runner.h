#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "controlplane/node/call_counters.h"
#include "controlplane/node/call_shared.h"
#include "controlplane/node/lookup_round.h"
#include "controlplane/node/missing_cache.h"
#include "controlplane/node/node.h"
#include "controlplane/node/node_notice.h"
#include "dataplane/base/unique_handle.h"
#include "dataplane/engine/client.h"
#include "dataplane/pool/pool_client.h"
#include "dataplane/queue/spsc_ring.h"

namespace peercache {

/// Runs one call (put, get or exists) at a time for one leased client, step by step, so that the same code serves blocking
/// calls and tickets.
///
///   exists: own index -> lookup round -> statuses, primed locations
///   get:    own index, primed locations, else lookup round -> validated reads -> once more for what proved stale
///   put:    own index, lookup round -> per absent key: take a slot, copy, publish
///
/// THREAD:     the thread that holds the lease; `notices` is popped by the conductor, `counters` read by anyone.
/// OWNS:       scratch arrays that grow to the largest call and stay.
/// BORROWS:    CallShared, the engine client and the pool client; the caller's arrays until the call is over.
/// INVARIANTS: (R1) when wait() or poll() says over, nothing touches the caller's memory any more. (R2) every status is then final.
///             (R3) kHitOwn and kHitPeer are set only after a validated read that ended kOk (get), or a record (exists).
/// COST:       no allocation once the scratch has grown; one mutex for the routes and no system call per call.
class CallRunner {
 public:
  static Result<std::unique_ptr<CallRunner>> open(const CallShared& shared,
                                                  Client& client,
                                                  PoolClient& pool_client);
  ~CallRunner();
  CallRunner(const CallRunner&) = delete;
  CallRunner& operator=(const CallRunner&) = delete;

  void begin_exists(std::span<const Key128> keys, std::span<KeyStatus> statuses, Nanos deadline_at);
  void begin_get(const ObjectBatch& batch, std::span<KeyStatus> statuses, Nanos deadline_at);
  void begin_put(const ObjectBatch& batch,
                 const PrefixPlace& place,
                 std::span<KeyStatus> statuses,
                 Nanos deadline_at);

  /// The call ends as soon as its memory is quiet; keys without an outcome become kCancelled.
  void cancel();

  /// Runs the call until it is over (true) or `until` has passed: spins shortly, then blocks on its events.
  bool wait(Nanos until);

  /// One step for a ticket; leaves the events armed, so that event_fd() becomes readable when the next step can progress.
  bool poll();

  /// Leading run of hits of the last exists.
  uint32_t leading_hits_count() const { return leading_hits_count_; }

  bool idle() const { return stage_ == Stage::kIdle; }
  int event_fd() const { return events_.get(); }
  Client& client() { return client_; }
  PoolClient& pool_client() { return pool_client_; }
  SpscRing<NodeNotice>& notices() { return notices_; }
  const CallCounters& counters() const { return counters_; }
  const ClientCounters& client_counters() const { return client_.counters(); }
  /// Bytes and objects read per peer index; single writer, read by anyone.
  struct PeerCounters {
    Counter objects, bytes;
  };
  const PeerCounters& peer_counters(PeerIndex peer) const { return peer_counters_[peer.value()]; }

 private:
  enum class Kind : uint8_t { kExists, kGet, kPut };
  enum class Stage : uint8_t { kIdle, kLookup, kReadSubmit, kReadWait, kCopy };

  /// What is known of one key while its call runs.
  struct KeyPlan {
    Location location;
    PeerIndex peer{0};
    bool found = false;
    bool own = false;
    bool primed = false;
    bool fresh = false;  ///< comes from a lookup of this call
    bool retried = false;
  };

  CallRunner(const CallShared& shared, Client& client, PoolClient& pool_client, UniqueFd events);

  bool step();
  bool announce_sleep();
  void cancel_sleep();
  static constexpr Nanos kOutlivedAfter =
      std::chrono::milliseconds(250);  // the time for fencing, design.md 4
  void block(Nanos longest);

  void begin(Kind kind,
             std::span<const Key128> keys,
             std::span<KeyStatus> statuses,
             Nanos deadline_at);
  bool advance(Nanos now);
  void end(Nanos now);
  bool expired(Nanos now) const { return cancelled_ || now >= deadline_at_; }

  // call_lookup.cc
  void find_own();
  void find_primed();
  void start_lookups();
  bool finish_lookups();
  bool acceptable(const Location& location, PeerIndex& peer) const;
  void choose(uint32_t key_index, std::span<const LookupResult* const> answers);

  // call_get.cc
  bool submit_reads();
  bool collect_reads();
  void judge_read(uint32_t key_index, OpStatus status);
  void note_stale(uint32_t key_index, OpStatus status);
  bool start_retry();
  void touch_own_hits();

  // call_exists.cc
  void report_exists();

  // call_put.cc
  void report_held();
  bool copy_some(Nanos now);
  bool put_one(uint32_t key_index);
  void fill_slot(uint32_t key_index, const SlotGrant& grant);
  void drop_unpublished();
  void announce_wanted();
  void fail_rest(uint32_t from_index, KeyStatus status);
  uint32_t object_bytes(uint32_t key_index) const;
  SizeClassIndex class_of(uint32_t length_bytes);

  void notice(NoticeKind kind, const Location& location, PeerIndex peer);
  std::span<const LocalPiece> pieces_of(uint32_t key_index) const;

  const CallShared& shared_;
  Client& client_;
  PoolClient& pool_client_;
  UniqueFd events_;  // epoll over the client's and the pool client's event
  SpscRing<NodeNotice> notices_;
  bool noticed_ = false;

  // The call under way.
  Stage stage_ = Stage::kIdle;
  Kind kind_ = Kind::kExists;
  std::span<const Key128> keys_;
  ObjectBatch batch_;
  PrefixPlace place_;
  std::span<KeyStatus> statuses_;
  Nanos began_at_{0};
  Nanos deadline_at_{0};
  bool cancelled_ = false;
  bool retrying_ = false;
  bool cancel_sent_ = false;
  uint32_t leading_hits_count_ = 0;
  uint32_t cursor_ = 0;  // put: next key to copy; get: next plan to submit
  std::shared_ptr<const DirectoryRoutes> routes_;

  // Scratch, grown to the largest call.
  std::vector<KeyPlan> plans_;
  std::vector<KeyStatus> own_statuses_;  // for exists without statuses
  std::vector<LookupResult> own_results_;
  std::vector<uint32_t> wanted_;  // key indices to look up, or to read again
  std::vector<uint32_t> retry_;
  std::vector<Op> ops_;
  std::vector<uint32_t> op_keys_;
  std::vector<Key128> touched_;
  LookupRound lookup_round_;
  MissingCache missing_;
  Ticket read_ticket_{};

  // A slot that is filled, and whose message did not fit the ring yet.
  struct Unpublished {
    SlotGrant grant{};
    Generation generation{0};
    PublishedObject object{};
    GroupPlace place{};
    bool waiting = false;
  };
  Unpublished unpublished_;
  bool progressed_ = false;  // the last step stopped by its budget, not for lack of work

  struct ClassOf {
    uint32_t length_bytes = 0;
    SizeClassIndex size_class{0};
  };
  std::vector<ClassOf> classes_;

  CallCounters counters_;
  std::unique_ptr<PeerCounters[]> peer_counters_;
};

}  // namespace peercache
