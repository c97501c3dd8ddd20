#include "dataplane/pool/free_slots.h"

#include "dataplane/base/assert.h"

namespace peercache {

void FreeSlots::push_back(SizeClassIndex size_class, SlotIndex slot) {
  List& list = lists_[size_class.value()];
  const uint32_t at = slot.value() + 1;
  links_[slot.value()] = Link{.next = 0, .previous = list.last};
  (list.last != 0 ? links_[list.last - 1].next : list.first) = at;
  list.last = at;
  ++list.count;
}

void FreeSlots::push_front(SizeClassIndex size_class, SlotIndex slot) {
  List& list = lists_[size_class.value()];
  const uint32_t at = slot.value() + 1;
  links_[slot.value()] = Link{.next = list.first, .previous = 0};
  (list.first != 0 ? links_[list.first - 1].previous : list.last) = at;
  list.first = at;
  ++list.count;
}

std::optional<SlotIndex> FreeSlots::pop_front(SizeClassIndex size_class) {
  const List& list = lists_[size_class.value()];
  if (list.first == 0) {
    return std::nullopt;
  }
  const SlotIndex slot(list.first - 1);
  remove(size_class, slot);
  return slot;
}

void FreeSlots::remove(SizeClassIndex size_class, SlotIndex slot) {
  List& list = lists_[size_class.value()];
  const Link link = links_[slot.value()];
  PC_ASSERT(list.count > 0, slot, size_class);
  PC_ASSERT(link.previous != 0 || list.first == slot.value() + 1, slot, size_class);
  (link.previous != 0 ? links_[link.previous - 1].next : list.first) = link.next;
  (link.next != 0 ? links_[link.next - 1].previous : list.last) = link.previous;
  --list.count;
}

}  // namespace peercache
