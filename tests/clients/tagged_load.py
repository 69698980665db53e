"""A load in which every block says which block it is and which version, and what may be read back.

The oracle knows for every block a floor (the newest version that was acknowledged, or that was read: what
was once seen must not go away) and every version submitted since. After a killed server a block must hold
the floor or a later one, whole. At most one request per block is in flight, so the order of versions is
the order of admission.
"""

import struct

import nbd

from array_under_test import BLOCK

TAG = struct.Struct("<8sQQQ")
MARK = b"ZWTAGGED"


def contents(salt, block, version):
    """4 KiB that say what they are, all over."""
    return TAG.pack(MARK, salt, block, version) * (BLOCK // TAG.size)


class Oracle:
    """What each block of a range may hold. Version 0 is a block that was never written: zeros."""

    def __init__(self, salt):
        self.salt = salt
        self.next_version = 1
        self.floor = {}
        self.zero_versions = set()
        self.pending = {}

    def submit(self, block, zero):
        version = self.next_version
        self.next_version += 1
        if zero:
            self.zero_versions.add(version)
        self.pending.setdefault(block, []).append(version)
        return version

    def acknowledge(self, block, version):
        self.floor[block] = version
        self.pending[block] = [later for later in self.pending[block] if later > version]

    def observe(self, block, data, where):
        """Checks what was read, and makes it the floor."""
        floor = self.floor.get(block, 0)
        allowed = [floor, *self.pending.get(block, [])]
        if data == bytes(BLOCK):
            found = [version for version in allowed if version == 0 or version in self.zero_versions]
            assert found, f"{where}: block {block} is zeros, expected one of {allowed}"
            version = max(found)
        else:
            mark, salt, tagged, version = TAG.unpack_from(data)
            assert mark == MARK, f"{where}: block {block} holds garbage"
            assert (salt, tagged) == (self.salt, block), (
                f"{where}: block {block} holds block {tagged} of writer {salt}")
            assert data == contents(salt, tagged, version), f"{where}: block {block} is torn"
            assert version in allowed and version not in self.zero_versions, (
                f"{where}: block {block} holds version {version}; acknowledged {floor}, allowed "
                f"{allowed}")
        self.floor[block] = version
        self.pending[block] = []


class Load:
    """One writer on two connections, with blocks of its own."""

    DEPTH = 24

    def __init__(self, random, blocks, salt):
        self.random = random
        self.blocks = blocks
        self.oracle = Oracle(salt)

    def write_until_dead(self, uri, acknowledgements, stop):
        """Keeps DEPTH requests in flight; calls `stop` once after so many acknowledgements, and returns
        when the connection is gone. Every other death is the server's fault."""
        handles = [connect(uri) for _ in range(2)]
        busy, acknowledged, stopped = set(), 0, False

        def finished(handle, block_range, versions, error):
            nonlocal acknowledged
            if error.value == 0:
                acknowledged += 1
                for block, version in zip(block_range, versions):
                    self.oracle.acknowledge(block, version)
            elif not stopped:
                raise AssertionError(f"a write failed with error {error.value}")
            busy.difference_update(block_range)
            return 1

        try:
            while True:
                for handle in handles:
                    while handle.aio_in_flight() < self.DEPTH // len(handles):
                        self.submit(handle, busy, finished)
                    handle.poll(5)
                if acknowledged >= acknowledgements and not stopped:
                    stopped = True
                    stop()
        except nbd.Error:
            assert stopped, "the connection broke before the server was killed"
        return acknowledged

    def write(self, uri, acknowledgements):
        """As before, but everything is answered at the end."""
        handle = connect(uri)
        busy, acknowledged = set(), 0

        def finished(_, block_range, versions, error):
            nonlocal acknowledged
            assert error.value == 0, f"a write failed with error {error.value}"
            acknowledged += 1
            for block, version in zip(block_range, versions):
                self.oracle.acknowledge(block, version)
            busy.difference_update(block_range)
            return 1

        while acknowledged < acknowledgements:
            while handle.aio_in_flight() < self.DEPTH:
                self.submit(handle, busy, finished)
            handle.poll(-1)
        while handle.aio_in_flight() > 0:
            handle.poll(-1)
        handle.shutdown()

    def submit(self, handle, busy, finished):
        """One random request: mostly small writes, some long ones, some trims, zeroes and flushes."""
        choice = self.random.random()
        length = self.random.choice([1, 1, 1, 2, 4, 5, 16, 64])
        block_range = self.pick(length, busy)
        if block_range is None:
            return
        busy.update(block_range)
        zero = choice < 0.1
        versions = [self.oracle.submit(block, zero) for block in block_range]
        offset, size = block_range.start * BLOCK, len(block_range) * BLOCK

        def completion(error):
            return finished(handle, block_range, versions, error)

        if choice < 0.05:
            handle.aio_trim(size, offset, completion)
        elif choice < 0.1:
            handle.aio_zero(size, offset, completion)
        else:
            salt = self.oracle.salt
            data = b"".join(contents(salt, block, version)
                            for block, version in zip(block_range, versions))
            flags = nbd.CMD_FLAG_FUA if choice > 0.97 else 0
            # No nbd.Buffer: libnbd 1.14 never gives the memory of one back, 20 GB in 200 rounds.
            handle.aio_pwrite(bytearray(data), offset, completion, flags)
        if 0.10 <= choice < 0.12:
            handle.aio_flush()

    def pick(self, length, busy):
        for _ in range(20):
            start = self.random.randrange(self.blocks.start, self.blocks.stop - length)
            block_range = range(start, start + length)
            if busy.isdisjoint(block_range):
                return block_range
        return None

    def verify(self, uri, where):
        """Reads everything and checks it."""
        handle = connect(uri)
        step = 256
        for start in range(self.blocks.start, self.blocks.stop, step):
            count = min(step, self.blocks.stop - start)
            data = handle.pread(count * BLOCK, start * BLOCK)
            for index in range(count):
                piece = bytes(data[index * BLOCK:(index + 1) * BLOCK])
                self.oracle.observe(start + index, piece, where)
        handle.shutdown()


def connect(uri):
    handle = nbd.NBD()
    handle.connect_uri(uri)
    return handle
