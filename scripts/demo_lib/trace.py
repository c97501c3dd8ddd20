"""Requests for the engines: generated chats, or a replay of a JSONL file (docs/traces.md).

A request is the list of its pages' keys, as a serving engine would name them: SHA-256 over the
previous page's digest and the page's 64 tokens as 32-bit little-endian numbers, in hex. Equal
prefixes give equal keys.
"""

import dataclasses
import hashlib
import heapq
import json
import random

from .models import PAGE_TOKENS

PAGE_BYTES = PAGE_TOKENS * 4
BLOCK_PAGES = 8  # a block of a trace file is 512 tokens
BLOCK_TOKENS = BLOCK_PAGES * PAGE_TOKENS


@dataclasses.dataclass(frozen=True)
class Request:
    """One prompt.

    Attributes:
        index: its place in the trace, from 0.
        conversation: number of the chat it belongs to.
        turn: its place in the chat, from 0.
        after: index of the request that must be over before this one is asked, or -1.
        timestamp_ms: when it arrived; the demo keeps the order and runs as fast as it can.
        tokens: length of the prompt.
        keys: one 64-digit hex string per whole page of the prompt.
    """

    index: int
    conversation: int
    turn: int
    after: int
    timestamp_ms: int
    tokens: int
    keys: tuple


class TraceError(ValueError):
    """A trace file that cannot be read; the text names file and line."""


class Chain:
    """The page keys of one growing token sequence."""

    def __init__(self):
        self.keys = []
        self._digest = b""
        self._rest = b""

    def extend(self, token_bytes):
        """Appends tokens (4 bytes each); every 64 of them make another key."""
        data = self._rest + token_bytes
        whole = len(data) - len(data) % PAGE_BYTES
        for start in range(0, whole, PAGE_BYTES):
            page = data[start : start + PAGE_BYTES]
            self._digest = hashlib.sha256(self._digest + page).digest()
            self.keys.append(self._digest.hex())
        self._rest = data[whole:]


def token_bytes(name, count):
    """Returns `count` tokens (below 2^17, 32-bit little-endian) that follow from a name."""
    raw = hashlib.shake_128(name.encode()).digest(4 * count)
    mask = int.from_bytes(b"\xff\xff\x01\x00" * count, "little")
    return (int.from_bytes(raw, "little") & mask).to_bytes(4 * count, "little")


# ---- generated ----------------------------------------------------------------------------------

# The shape of a day at a chat service, in round numbers: a few assistants share long system
# prompts, some chats open with a popular document, most chats are short and a few go on for very
# long.
_ASSISTANTS = 12
_DOCUMENTS = 60
_OPEN_CHATS = 40  # chats that are going on at a time
_DOCUMENT_SHARE = 0.35
_RETRY_SHARE = 0.04  # "regenerate": the same prompt again
_THINK_MS = 12_000.0


def _zipf(rng, count, exponent):
    """Returns an index below count; index i has a weight of 1 / (i + 1)^exponent."""
    weights = [1.0 / (i + 1) ** exponent for i in range(count)]
    return rng.choices(range(count), weights)[0]


def _lognormal(rng, median, sigma, low, high):
    """Returns a whole number around a median, between low and high."""
    return int(min(high, max(low, median * rng.lognormvariate(0.0, sigma))))


class _Chat:
    """One conversation: its tokens so far and how many turns it still has."""

    def __init__(self, rng, seed, number):
        self.number = number
        self.turn = 0
        self.last = -1
        self.chain = Chain()
        self.tokens = 0
        # Pareto: half of the chats end within 3 turns, one in a hundred lasts for over 25.
        self.turns_left = max(1, min(60, int(1.6 * rng.paretovariate(1.25))))
        assistant = _zipf(rng, _ASSISTANTS, 1.1)
        lengths = random.Random(f"{seed} system {assistant}")
        self._say(f"{seed} system {assistant}", _lognormal(lengths, 900, 0.6, 256, 4096))
        if rng.random() < _DOCUMENT_SHARE:
            document = _zipf(rng, _DOCUMENTS, 0.9)
            lengths = random.Random(f"{seed} document {document}")
            self._say(f"{seed} document {document}", _lognormal(lengths, 1500, 0.7, 256, 8192))

    def _say(self, name, count):
        self.chain.extend(token_bytes(name, count))
        self.tokens += count

    def ask(self, rng, seed):
        """Adds a question to the prompt."""
        length = _lognormal(rng, 140, 1.0, 8, 4096)
        self._say(f"{seed} chat {self.number} question {self.turn}", length)

    def answer(self, rng, seed):
        """Adds the answer, which is part of the next prompt."""
        length = _lognormal(rng, 260, 0.8, 8, 2048)
        self._say(f"{seed} chat {self.number} answer {self.turn}", length)
        self.turn += 1
        self.turns_left -= 1


def generate(seed):
    """Yields requests without end: many chats at a time, each turn after the one before it.

    The same seed gives the same requests, however many are taken.
    """
    rng = random.Random(f"peercache trace {seed}")
    waiting = []  # (when, number, chat)
    chats = 0
    index = 0
    while True:
        while len(waiting) < _OPEN_CHATS:
            start = waiting[0][0] if waiting else 0.0
            chat = _Chat(rng, seed, chats)
            heapq.heappush(waiting, (start + rng.expovariate(1.0 / _THINK_MS), chats, chat))
            chats += 1
        now, number, chat = heapq.heappop(waiting)
        chat.ask(rng, seed)
        for _ in range(2 if rng.random() < _RETRY_SHARE else 1):
            keys = tuple(chat.chain.keys)
            yield Request(index, number, chat.turn, chat.last, int(now), chat.tokens, keys)
            chat.last = index
            index += 1
        chat.answer(rng, seed)
        if chat.turns_left > 0:
            heapq.heappush(waiting, (now + rng.expovariate(1.0 / _THINK_MS), number, chat))


# ---- replay -------------------------------------------------------------------------------------


def _parse_line(text, where):
    """Returns (timestamp_ms, input_length, hash_ids) of one line."""
    try:
        row = json.loads(text)
        hash_ids = row["hash_ids"]
        length = row.get("input_length", BLOCK_TOKENS * len(hash_ids))
        when = row.get("timestamp", 0)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TraceError(
            f"{where}: not a request ({type(error).__name__}: {error}); "
            "docs/traces.md shows the form"
        ) from None
    if not isinstance(hash_ids, list) or not all(type(i) is int for i in hash_ids) or not hash_ids:
        raise TraceError(f"{where}: hash_ids must be a list of whole numbers, at least one")
    for name, value in (("input_length", length), ("timestamp", when)):
        if not isinstance(value, (int, float)) or isinstance(value, bool) or value < 0:
            raise TraceError(f"{where}: {name} must be a number from 0, not {value!r}")
    return int(when), int(length), hash_ids


class _Blocks:
    """Keys of blocks by their place in a chain; each block's eight keys are computed once."""

    def __init__(self):
        self._known = {}

    def keys(self, hash_ids):
        """Returns the page keys of a prompt that consists of these blocks."""
        digest = b""
        keys = []
        for block in hash_ids:
            found = self._known.get((digest, block))
            if found is None:
                found = self._compute(digest, block)
                self._known[digest, block] = found
            digest, block_keys = found
            keys.extend(block_keys)
        return tuple(keys)

    @staticmethod
    def _compute(digest, block):
        tokens = token_bytes(f"block {block}", BLOCK_TOKENS)
        keys = []
        for start in range(0, len(tokens), PAGE_BYTES):
            digest = hashlib.sha256(digest + tokens[start : start + PAGE_BYTES]).digest()
            keys.append(digest.hex())
        return digest, tuple(keys)


class _Conversations:
    """Finds out which chat a prompt goes on with: files do not say.

    A prompt continues the latest one whose whole blocks are a prefix of its own and more than one
    block long (a first block alone is usually a system prompt that everybody shares).
    """

    def __init__(self):
        self._tails = {}  # (blocks, last of them) -> (request index, conversation, turn)
        self._count = 0

    def place(self, index, hash_ids):
        """Returns (conversation, turn, index of the turn before or -1) of the next request."""
        found = None
        for length in range(len(hash_ids), 1, -1):
            found = self._tails.pop((length, hash_ids[length - 1]), None)
            if found:
                break
        if found:
            after, conversation, turn = found[0], found[1], found[2] + 1
        else:
            after, conversation, turn = -1, self._count, 0
            self._count += 1
        whole = len(hash_ids) - 1  # the last block is rarely full, so it is not in the next prompt
        if whole > 1:
            self._tails[whole, hash_ids[whole - 1]] = (index, conversation, turn)
        return conversation, turn, after


def count_requests(path):
    """Returns how many requests a trace file has, without looking at them."""
    with open(path, encoding="utf-8") as file:
        return sum(bool(text.strip()) for text in file)


def replay(path):
    """Yields the requests of a trace file, in its order.

    Raises:
        TraceError: a line is no request, or the file holds none.
        OSError: the file cannot be read.
    """
    blocks = _Blocks()
    conversations = _Conversations()
    index = 0
    with open(path, encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            if not text.strip():
                continue
            when, length, hash_ids = _parse_line(text, f"{path}:{number}")
            conversation, turn, after = conversations.place(index, hash_ids)
            tokens = min(length, BLOCK_TOKENS * len(hash_ids))
            keys = blocks.keys(hash_ids)
            yield Request(index, conversation, turn, after, when, tokens, keys)
            index += 1
    if index == 0:
        raise TraceError(f"{path}: no requests in it")
