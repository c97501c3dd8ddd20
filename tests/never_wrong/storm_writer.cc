#include "tests/never_wrong/storm_writer.h"

#include <algorithm>
#include <bit>

namespace peercache::test {

namespace {

PoolOptions pool_options(NodeId node) {
  PoolOptions options;
  options.client_count = 1;
  // Few slots ahead: a slot that was freed is soon written again, while reads of it are under way.
  options.refill_max_count = 4;
  options.node = node;
  options.incarnation = Incarnation(1);
  return options;
}

}  // namespace

StormWriter::StormWriter(const PoolMemory& memory, const PagePattern& pattern, uint64_t seed, NodeId node)
    : pattern_(pattern), random_(seed ^ 0x5707) {
  pool_ = PublishedPool::open(pool_options(node), memory, this, Clock{}).value();
  for (size_t i = 0; i < kClasses; ++i) {
    classes_[i] = pool_->ensure_class(kLengths[i]).value();
  }
  client_ = pool_->attach_client(ClientIndex(0)).value();
  latest_.resize(memory.header_count);
  for (History& history : histories_) {
    history.ring.resize(std::bit_ceil(2 * memory.header_count));
  }
  choose_next();
}

void StormWriter::choose_next() {
  // The mix changes from time to time, so that classes grow and shrink and slots change their geometry.
  const bool mixed = next_number_ / 512 % 4 == 3;
  class_ = mixed ? random_.below(kClasses) : 0;
  // Now and then an object that was here before: the same key, another slot, another generation.
  const uint64_t number =
      next_number_ > 1000 && random_.below(16) == 0 ? next_number_ - 1 - random_.below(1000) : next_number_;
  ++next_number_;
  key_ = numbered_key(number * kClasses + class_);  // of one length for ever
  stage_ = Stage::kTake;
}

void StormWriter::step() {
  if (++steps_ % 4 == 0) {
    pool_->poll_once(Nanos(++now_ns_));
    return;
  }
  switch (stage_) {
    case Stage::kTake: {
      const auto grant = client_->take(classes_[class_]);
      if (!grant) {
        return;  // the agent's turn comes
      }
      grant_ = *grant;
      stage_ = Stage::kBegin;
      return;
    }
    case Stage::kBegin:
      generation_ = begin_life(client_->header(grant_));
      fill_step_ = 0;
      stage_ = Stage::kFill;
      return;
    case Stage::kFill: {
      const size_t words = kLengths[class_] / sizeof(uint64_t);
      const size_t begin = words * fill_step_ / kFillSteps * sizeof(uint64_t);
      const size_t end = words * (fill_step_ + 1) / kFillSteps * sizeof(uint64_t);
      pattern_.fill(client_->bytes(grant_), key_, begin, end);
      stage_ = ++fill_step_ == kFillSteps ? Stage::kPublish : Stage::kFill;
      return;
    }
    case Stage::kPublish: {
      const PublishedObject object{.key = key_,
                                   .length_bytes = kLengths[class_],
                                   .layout_digest_id = 1,
                                   .payload_hash = PayloadHash{},
                                   .sequence = Sequence(++sequence_)};
      const GroupPlace place{.group = key_, .parent = {}, .position_index = 0};
      if (client_->publish(grant_, generation_, object, place)) {
        ++puts_;
        choose_next();
      }
      return;
    }
  }
}

void StormWriter::on_published(const Location& location) {
  History& history = histories_[class_of(location)];
  if (history.published - history.oldest == history.ring.size()) {
    ++history.oldest;  // one that is touched again and again outlives those after it
  }
  latest_[location.slot.value()] = history.published;
  history.ring[history.published++ % history.ring.size()] = Known{location, kNotRetired};
}

void StormWriter::on_retired(const Location& location) {
  ++retired_;
  History& history = histories_[class_of(location)];
  const uint64_t number = latest_[location.slot.value()];
  if (number >= history.oldest) {
    history.ring[number % history.ring.size()].retired_at = retired_;
  }
  while (history.oldest != history.published &&
         forgotten(history.ring[history.oldest % history.ring.size()])) {
    ++history.oldest;
  }
}

const Location& StormWriter::pick(TestRandom& random) {
  while (true) {
    const History& history = histories_[random.below(8) == 0 ? random.below(kClasses) : 0];
    const uint64_t count = history.published - history.oldest;
    if (count == 0) {
      continue;
    }
    // Half of the reads go to the oldest: retired, or soon to be.
    const uint64_t among = random.below(2) == 0 ? std::min(count, kRetiredKept + 8) : count;
    const Known& known = history.ring[(history.oldest + random.below(among)) % history.ring.size()];
    if (!forgotten(known)) {
      return known.location;
    }
  }
}

}  // namespace peercache::test
