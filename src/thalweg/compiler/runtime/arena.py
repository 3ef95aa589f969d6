"""Memory for the texts that a run of a kernel makes: bump-allocated blocks, freed all at once.

An arena is three words at an address, all zero while it is empty: where the next text goes, the end of the block at
hand, and the newest block, which names the one before. Behind it stands a second one, the *scratch*, for the lists
of the call at hand. So a caller clears ``ARENA_WORDS`` control words, runs the kernel as often as it likes, builds what
it needs of the texts, and calls :func:`free_arena`. A text never moves.

Who makes texts reserves bytes and fills them in before it reserves more.
"""

from __future__ import annotations

from typing import Any, Final

import numba
from llvmlite import ir

from thalweg.compiler.runtime import support
from thalweg.compiler.runtime.support import (
    _BYTE,
    _loader,
    _storer,
    get_b,
    get_i,
    inner,
    put_i,
    types,
)
from thalweg.jit import njit

#: Words of one arena, and of both.
_WORDS: Final = 3
ARENA_WORDS: Final = 2 * _WORDS
#: Where the scratch stands behind the arena, bytes.
SCRATCH: Final = 8 * _WORDS
#: Bytes of the first block and of the largest that is made without need.
_LEAST: Final = 1 << 12
_MOST: Final = 1 << 20
#: Bytes of a block's head: the block before it, and its room.
_HEAD: Final = 16
#: No text is longer: Arrow counts its bytes in 31 bits.
LONGEST: Final = 2**31 - 1

_malloc: Final[Any] = types.ExternalFunction("malloc", types.int64(types.int64))
_free: Final[Any] = types.ExternalFunction("free", types.void(types.int64))
copy_bytes: Final[Any] = support.copy_bytes
put_w: Final = _storer(types.int32, ir.IntType(32))
_put_byte: Final = _storer(types.uint8, _BYTE)
get_w: Final = _loader(types.int32, ir.IntType(32))


@njit
def _new_block(arena: Any, size: Any) -> Any:
    last = get_i(arena + 16)
    room = _LEAST if last == 0 else min(2 * get_i(last + 8), _MOST)
    room = max(room, size)
    block = _malloc(room + _HEAD)
    if block == 0:
        raise MemoryError("no memory for a text")
    put_i(block, last)
    put_i(block + 8, room)
    put_i(arena + 16, block)
    put_i(arena, block + _HEAD + size)
    put_i(arena + 8, block + _HEAD + room)
    return block + _HEAD


@inner
def put(place: Any, value: Any) -> None:
    """Writes a byte."""
    _put_byte(place, types.uint8(value))


@inner
def reserve(arena: Any, size: Any) -> Any:
    """Where so many bytes, at least one, may be written.

    Raises:
        MemoryError: there is no memory, or no text may be so long.
    """
    if size > LONGEST:
        raise MemoryError("a text of more than 2 GB")
    top = get_i(arena)
    if top + size <= get_i(arena + 8):
        put_i(arena, top + size)
        return top
    return _new_block(arena, size)


@inner
def give_back(arena: Any, end: Any) -> None:
    """Makes what was reserved last end earlier."""
    put_i(arena, end)


@inner
def rewind(arena: Any, mark: Any) -> None:
    """Takes back all that was reserved since the first word was ``mark``; blocks stay for what comes."""
    block = get_i(arena + 16)
    if block != 0:
        inside = block + _HEAD <= mark <= get_i(arena + 8)
        put_i(arena, mark if inside else block + _HEAD)


@inner
def clear_scratch(arena: Any) -> None:
    """Takes back all lists of a call that is done."""
    rewind(arena + SCRATCH, 0)


@njit
def free_arena(arena: int) -> None:
    """Gives back all blocks, those of the scratch too; both are empty then."""
    for place in (arena, arena + SCRATCH):
        block = get_i(place + 16)
        while block != 0:
            before = get_i(block)
            _free(block)
            block = before
    for i in range(ARENA_WORDS):
        put_i(arena + 8 * i, 0)


# -- texts as Arrow arrays -----------------------------------------------------------------------------


@njit
def text_offsets(lengths: int, valid: int, rows: int, out: int) -> int:
    """Writes the int32 offsets of texts of these lengths (0 where not valid); how many bytes, -1 beyond 2 GB."""
    total = 0
    put_w(out, numba.int32(0))
    for i in range(rows):
        if valid == 0 or get_b(valid + i):
            total += get_i(lengths + 8 * i)
        if total > LONGEST:
            return -1
        put_w(out + 4 * (i + 1), numba.int32(total))
    return total


@njit
def copy_texts(places: int, offsets: int, rows: int, out: int) -> None:
    """Copies texts one behind the other, from their places to where their offsets say."""
    start = numba.int64(0)
    for i in range(rows):
        stop = numba.int64(get_w(offsets + 4 * (i + 1)))
        if stop > start:
            copy_bytes(out + start, get_i(places + 8 * i), stop - start)
        start = stop
