"""The memory that PyTorch's caching allocator would reserve for what a program allocates.

The rules and sizes are those of ``c10/cuda/CUDACachingAllocator.cpp`` of PyTorch 2.13 with its
default settings: the allocator asks the driver for *segments*, cuts them into pieces, keeps freed
pieces for later requests, and gives whole segments back only when the device is full.
"""

from bisect import bisect_left, insort
from collections import defaultdict

MIB = 2**20
SMALL = 1 * MIB  # bytes: requests up to here share segments of their own
SMALL_SEGMENT = 2 * MIB
LARGE_REQUEST = 10 * MIB  # from here on a request has a segment to itself
LARGE_SEGMENT = 20 * MIB
ROUNDING = 2 * MIB  # of segments for one request
SMALLEST_REMAINDER = 512  # bytes that are split off in a small segment; in a large one `SMALL`


class Piece:
    """A part of a segment: in use, or free between two neighbours of the same segment."""

    __slots__ = ("address", "following", "free", "preceding", "request", "size", "small")

    def __init__(self, address, size, small):
        self.address = address
        self.size = self.request = size
        self.small = small
        self.free = True
        self.preceding = self.following = None

    def __lt__(self, other):
        """Order by size, then by address, as the allocator searches."""
        return (self.size, self.address) < (other.size, other.address)


class Segments:
    """The segments of one device.

    A request takes the smallest free piece that holds it; what is left over becomes a piece of its
    own. A request for as many bytes as a piece that was freed just before takes that one: freed
    pieces join their free neighbours only when no such piece is there. (The real allocator joins
    them at once. Over a program the reserved memory differs little; a test compares.) One stream is
    assumed; a real allocator keeps the pieces of every stream apart.

    Attributes
    ----------
    reserved, peak : int
        Bytes of all segments, and the most that there were.
    changing : bool
        Set while a change is under way. If it is still set when the next one begins, the last was
        interrupted, and `mend` comes first.
    """

    __slots__ = ("_address", "_free", "_freed", "_segments", "changing", "peak", "reserved")

    def __init__(self):
        self.reserved = self.peak = 0
        self.changing = False
        self._address = 0
        self._segments = {}  # first piece -> bytes
        self._free = {True: [], False: []}  # joined pieces, sorted, by whether they are small
        self._freed = defaultdict(list)  # pieces not joined yet, by the bytes requested

    def allocate(self, size: int, capacity: int) -> Piece | None:
        """Return a piece of `size` bytes, or None if `capacity` bytes are too few for it."""
        same = self._freed.get(size)
        if same:
            piece = same.pop()
            piece.free = False
            return piece
        self._join_freed()
        piece = self._find(size) or self._reserve(size, capacity)
        if piece is not None:
            piece.request = size
            piece.free = False
            self._split(piece, size)
        return piece

    @property
    def version(self) -> tuple:
        """What differs as soon as a segment has come or gone."""
        return self.reserved, self._address

    def sizes(self) -> dict[int, int]:
        """Return the bytes of every segment, by its address."""
        return {first.address: num_bytes for first, num_bytes in self._segments.items()}

    def layout(self) -> list[tuple[int, list[Piece]]]:
        """Return the bytes of every segment, and its pieces in the order of their addresses."""
        found = []
        for first, num_bytes in self._segments.items():
            pieces = [first]
            while pieces[-1].following is not None:
                pieces.append(pieces[-1].following)
            found.append((num_bytes, pieces))
        return found

    def free(self, piece: Piece) -> None:
        """Keep a piece for later requests."""
        piece.free = True
        self._freed[piece.request].append(piece)

    def release(self) -> None:
        """Give the segments in which nothing is used back to the device (``empty_cache``)."""
        self._join_freed()
        for pieces in self._free.values():
            empty = [p for p in pieces if p.preceding is None and p.following is None]
            for piece in empty:
                self.reserved -= self._segments.pop(piece)
            gone = set(map(id, empty))
            pieces[:] = [piece for piece in pieces if id(piece) not in gone]

    def mend(self, used) -> None:
        """Recompute sizes and free pieces: those that follow each other, except the `used` ones."""
        used = set(map(id, used))
        self._freed.clear()
        free, reserved = {True: [], False: []}, 0
        for first, num_bytes in self._segments.items():
            reserved += num_bytes
            preceding, piece = None, first
            while piece is not None:
                piece.preceding, piece.free = preceding, id(piece) not in used
                if piece.free:
                    while piece.following is not None and id(piece.following) not in used:
                        piece.following = piece.following.following
                    free[piece.small].append(piece)
                following = piece.following
                end = first.address + num_bytes if following is None else following.address
                piece.size = end - piece.address
                preceding, piece = piece, following
        self.reserved, self._free = reserved, {key: sorted(free[key]) for key in free}

    def _join_freed(self):
        freed = [piece for pieces in self._freed.values() for piece in pieces]
        self._freed.clear()
        waiting = set(map(id, freed))  # free, and not among the sorted ones
        for piece in freed:
            if id(piece) in waiting:
                waiting.remove(id(piece))
                insort(self._free[piece.small], self._join(piece, waiting))

    def _join(self, piece, waiting):
        """Return a piece joined with its free neighbours, which leave the lists."""
        while (other := piece.preceding) is not None and other.free:
            self._forget(other, waiting)
            other.size += piece.size
            other.following = piece.following
            if piece.following is not None:
                piece.following.preceding = other
            piece = other
        while (other := piece.following) is not None and other.free:
            self._forget(other, waiting)
            piece.size += other.size
            piece.following = other.following
            if other.following is not None:
                other.following.preceding = piece
        return piece

    def _forget(self, piece, waiting):
        if id(piece) in waiting:
            waiting.remove(id(piece))
        else:
            pieces = self._free[piece.small]
            del pieces[bisect_left(pieces, piece)]

    def _find(self, size):
        pieces = self._free[size <= SMALL]
        at = bisect_left(pieces, Piece(-1, size, True))
        return pieces.pop(at) if at < len(pieces) else None

    def _reserve(self, size, capacity):
        wanted = segment_size(size)
        if self.reserved + wanted > capacity:
            self.release()
        # A nearly full device gives what it has: tiny machines could hold nothing otherwise.
        wanted = min(wanted, max(size, capacity - self.reserved))
        if self.reserved + wanted > capacity:
            return None
        self.reserved += wanted
        self.peak = max(self.peak, self.reserved)
        self._address += wanted
        piece = Piece(self._address - wanted, wanted, size <= SMALL)
        self._segments[piece] = wanted
        return piece

    def _split(self, piece, size):
        rest = piece.size - size
        if rest < SMALLEST_REMAINDER or (rest <= SMALL and not piece.small):
            return
        piece.size = size
        other = Piece(piece.address + size, rest, piece.small)
        other.preceding, other.following = piece, piece.following
        if piece.following is not None:
            piece.following.preceding = other
        piece.following = other
        insort(self._free[piece.small], other)


def segment_size(size: int) -> int:
    """Return the bytes of the segment that a request of `size` bytes makes the allocator reserve.

    Examples
    --------
    >>> [segment_size(n * MIB) // MIB for n in (1, 2, 9, 10, 11)]
    [2, 20, 20, 10, 12]
    """
    if size <= SMALL:
        return SMALL_SEGMENT
    if size < LARGE_REQUEST:
        return LARGE_SEGMENT
    return -(-size // ROUNDING) * ROUNDING
