#pragma once

namespace peercache::docs {

// Docstrings of peercache.Node, in the form of conventions that help() and editors show.

inline constexpr char kPut[] = R"(Publishes objects into this node's pool.

Args:
    keys: one key or a list of keys (str or bytes).
    buffers: one entry per key: a buffer, or a list of buffers whose bytes are joined; or one
        buffer that is cut into equal parts. Any dtype, C order, in the host's memory.
    parent: key of the page before the first one, if known.
    first_position: place of the first key in its prefix.
    chained: whether the keys are consecutive pages of one prefix, head first; eviction then takes
        tails before heads.
    timeout: seconds, positive; None for 1 s and 1 ms per MiB (options transfer_timeout_ms, ...).

Returns:
    Statuses, one per key: STORED, HELD (a live node has it; nothing was copied), NO_SPACE,
    DEADLINE, FAILED. All sources have been copied or given up.

Raises:
    ArgumentError: something is no buffer, or counts differ.
    CallError: closed, forked, too many calls at the same time.
    EngineError, PoolError: an object without bytes, with too many pieces, or of no size class.

Threads: any; blocking; GIL released.
Source: Node::put in controlplane/node/node.h.)";

inline constexpr char kGet[] = R"(Reads objects from whichever node holds them.

Args:
    keys: one key or a list of keys (str or bytes).
    buffers: writable, in the same forms as for put; the bytes of an entry must add up to the
        object's length, otherwise it is a miss.
    timeout: seconds, positive; None for 1 s and 1 ms per MiB.

Returns:
    Statuses, one per key: HIT_OWN or HIT_PEER (every byte was validated), MISS, DEADLINE, FAILED.
    Nobody writes to the buffers after the return; those of keys that are no hit have undefined bytes.

Raises:
    ArgumentError, CallError, EngineError: as put.

Threads: any; blocking; GIL released.
Source: Node::get.)";

inline constexpr char kExists[] = R"(Looks keys up in one round, and primes the get that follows.

Args:
    keys: one key or a list of keys of any length (str or bytes).
    timeout: seconds, positive; None for 0.25 s (option exists_timeout_ms).

Returns:
    Statuses, one per key: HIT_OWN, HIT_PEER or MISS; `leading` is the length of the leading run.

Raises:
    CallError: closed, forked, too many calls at the same time.

Threads: any; blocking; GIL released.
Source: Node::exists.)";

inline constexpr char kRemove[] =
    R"(Removes this node's own objects of these keys; those of other nodes stay.

Args:
    keys: one key or a list of keys.
    timeout: seconds, positive, or None.

Raises:
    CallError: closed, forked, timed out.

Threads: any; blocking; GIL released.
Source: Node::remove.)";

inline constexpr char kClear[] = R"(Removes all objects of this node; those of other nodes stay.

Args:
    timeout: seconds, positive, or None.

Raises:
    CallError: closed, forked, timed out.

Threads: any; blocking; GIL released.
Source: Node::clear.)";

inline constexpr char kFlush[] =
    R"(Waits until everything that was put so far can be found by every live node.

Args:
    timeout: seconds, positive, or None.

Raises:
    CallError: closed, forked, timed out.

Threads: any; blocking; GIL released.
Source: Node::flush.)";

inline constexpr char kStats[] = R"(Counters since the start, by the names of NodeStats.

Returns:
    dict of int, float (latencies, microseconds) and str; `peers` is a list of dicts.

Threads: any; does not block.
Source: NodeStats in controlplane/node/node_stats.h.)";

inline constexpr char kClose[] =
    R"(Ends all calls, leaves the cluster and frees the pool, within 5 s even if peers are dead.

Later calls raise CallError with reason "closed". May be called again.

Threads: any; blocking; GIL released.
Source: Node::close.)";

inline constexpr char kPrepareLength[] = R"(Prepares for objects of this length; optional.

Args:
    length_bytes: bytes of one object.

Raises:
    PoolError: the pool cannot hold one, or has too many size classes.

Threads: any; GIL released.
Source: Node::prepare_length.)";

}  // namespace peercache::docs
