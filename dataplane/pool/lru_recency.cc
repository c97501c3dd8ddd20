// The recency half of LruEviction: which leaf is the oldest.
#include <algorithm>
#include <bit>

#include "dataplane/base/assert.h"
#include "dataplane/pool/lru_eviction.h"

namespace peercache {

namespace {

// Leaves that are looked at for one of a class in which no leaf is at home: some 50 µs. Beyond that
// the pool looks at the class's slots instead.
constexpr uint32_t kScanMax = 4096;

}  // namespace

void LruEviction::advance_epoch() {
  epoch_touch_count_ = 0;
  ++epoch_;
  if (epoch_ < kEpochs) {
    return;
  }
  // The oldest list gives its place to the new epoch: its groups become the oldest of the next one.
  const auto from_bit = static_cast<uint32_t>(epoch_ % kEpochs);
  const auto to_bit = static_cast<uint32_t>((epoch_ + 1) % kEpochs);
  for (HomeLists& home : homes_) {
    if ((home.filled_set & (1ULL << from_bit)) == 0) {
      continue;
    }
    List& from = home.lists[from_bit];
    List& to = home.lists[to_bit];
    (to.oldest != 0 ? nodes_[to.oldest].list_next : to.newest) = from.newest;
    nodes_[from.newest].list_previous = to.oldest;
    to.oldest = from.oldest;
    from = List{};
    home.filled_set &= ~(1ULL << from_bit);
    home.filled_set |= 1ULL << to_bit;
  }
}

LruEviction::List& LruEviction::list_of(const Node& node, uint32_t& bit) {
  bit = static_cast<uint32_t>(std::max(node.epoch, oldest_epoch()) % kEpochs);
  return homes_[node.home_class].lists[bit];
}

void LruEviction::enlist(uint32_t index, bool newest_end) {
  Node& node = nodes_[index];
  uint32_t bit = 0;
  List& list = list_of(node, bit);
  if (newest_end) {
    node.list_next = list.newest;
    node.list_previous = 0;
    (list.newest != 0 ? nodes_[list.newest].list_previous : list.oldest) = index;
    list.newest = index;
  } else {
    node.list_next = 0;
    node.list_previous = list.oldest;
    (list.oldest != 0 ? nodes_[list.oldest].list_next : list.newest) = index;
    list.oldest = index;
  }
  homes_[node.home_class].filled_set |= 1ULL << bit;
  node.listed = true;
}

void LruEviction::delist(uint32_t index) {
  Node& node = nodes_[index];
  uint32_t bit = 0;
  List& list = list_of(node, bit);
  PC_ASSERT(node.listed, index);
  PC_ASSERT(node.list_previous != 0 || list.newest == index, index);
  (node.list_previous != 0 ? nodes_[node.list_previous].list_next : list.newest) = node.list_next;
  (node.list_next != 0 ? nodes_[node.list_next].list_previous : list.oldest) = node.list_previous;
  node.list_next = node.list_previous = 0;
  node.listed = false;
  if (list.newest == 0) {
    homes_[node.home_class].filled_set &= ~(1ULL << bit);
  }
}

uint32_t LruEviction::oldest_at_home(uint32_t home_class) const {
  const HomeLists& home = homes_[home_class];
  if (home.filled_set == 0) {
    return 0;
  }
  // The set, turned so that the oldest epoch is bit 0.
  const auto first_bit = static_cast<int>(oldest_epoch() % kEpochs);
  const auto ages = static_cast<uint32_t>(std::countr_zero(std::rotr(home.filled_set, first_bit)));
  return home.lists[(static_cast<uint32_t>(first_bit) + ages) % kEpochs].oldest;
}

uint32_t LruEviction::oldest_with(uint32_t size_class) const {
  uint32_t best = 0;
  uint32_t scan_count = 0;
  for (const HomeLists& home : homes_) {
    if (home.filled_set == 0) {
      continue;
    }
    bool found = false;
    for (uint64_t age = 0; age < kEpochs && !found && scan_count < kScanMax; ++age) {
      uint32_t at = home.lists[(oldest_epoch() + age) % kEpochs].oldest;
      for (; at != 0 && !found && scan_count < kScanMax; at = nodes_[at].list_previous) {
        ++scan_count;
        if ((nodes_[at].class_mask & (1U << size_class)) != 0) {
          found = true;
          if (best == 0 || nodes_[at].epoch < nodes_[best].epoch) {
            best = at;
          }
        }
      }
    }
  }
  return best;
}

}  // namespace peercache
