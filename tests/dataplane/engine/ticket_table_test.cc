#include "dataplane/engine/ticket_table.h"

#include <catch2/catch.hpp>
#include <vector>

#include "tests/dataplane/engine/fake_rail.h"

namespace peercache {

TEST_CASE("ticket table: a batch is reported once, by its last operation", "[unit]") {
  TicketTable table;
  const Ticket ticket = table.open(3, Nanos(5));
  REQUIRE_FALSE(table.finish(ticket.index, ticket.generation_id, true));
  REQUIRE_FALSE(table.finish(ticket.index, ticket.generation_id, false));
  table.check_invariants();
  REQUIRE(table.finish(ticket.index, ticket.generation_id, true));
  const TicketTable::Entry& entry = table.at(ticket);
  CHECK(entry.ok == 2);
  CHECK(entry.failed == 1);
  CHECK(entry.remaining == 0);
  CHECK(entry.deadline_at == Nanos(5));
  table.close(ticket);
  table.check_invariants();
}

TEST_CASE("ticket table: a released ticket and a default one are stale", "[unit]") {
  TicketTable table;
  CHECK(table.is_stale(Ticket{}));
  CHECK(table.is_stale(Ticket{.index = limits::kTicketsPerClient, .generation_id = 1}));
  const Ticket first = table.open(1, Nanos(0));
  CHECK_FALSE(table.is_stale(first));
  table.finish(first.index, first.generation_id, true);
  table.close(first);
  CHECK(table.is_stale(first));
  const Ticket second = table.open(1, Nanos(0));
  CHECK(second.index == first.index);  // the closed entry is the next one opened
  CHECK(second.generation_id != first.generation_id);
  CHECK(table.is_stale(first));
  table.finish(second.index, second.generation_id, true);
}

TEST_CASE("ticket table: all entries can be open, in any order of closing", "[unit]") {
  TicketTable table;
  std::vector<Ticket> tickets;
  for (size_t i = 0; i < limits::kTicketsPerClient; ++i) {
    REQUIRE_FALSE(table.full());
    tickets.push_back(table.open(1, Nanos(0)));
    table.records(tickets.back().index)[0] = static_cast<uint16_t>(i);
  }
  CHECK(table.full());
  table.check_invariants();
  for (size_t i = 0; i < tickets.size(); i += 2) {
    table.finish(tickets[i].index, tickets[i].generation_id, true);
    table.close(tickets[i]);
  }
  table.check_invariants();
  CHECK(table.open_count() == limits::kTicketsPerClient / 2);
  for (size_t i = 1; i < tickets.size(); i += 2) {
    CHECK(table.records(tickets[i].index)[0] == i);
    CHECK_FALSE(table.is_stale(tickets[i]));
  }
}

TEST_CASE("ticket table: a stale cookie, a cookie too many and an early close are bugs", "[unit]") {
  TicketTable table;
  const Ticket ticket = table.open(1, Nanos(0));
  CHECK(test::aborts([&] { table.close(ticket); }));
  CHECK(test::aborts([&] { table.finish(ticket.index, ticket.generation_id + 1, true); }));
  CHECK(table.finish(ticket.index, ticket.generation_id, true));
  CHECK(test::aborts([&] { table.finish(ticket.index, ticket.generation_id, true); }));
  table.close(ticket);
  CHECK(test::aborts([&] { table.finish(ticket.index, ticket.generation_id, true); }));
}

}  // namespace peercache
