"""The bytes of a drive file, read from their description (crates/emulator/src/media_format.rs and
docs/format.md) and not from the engine's code, so that damage can be done where it is meant to be.
"""

import struct

BLOCK = 4096
OOB = 64
PLACES = {1: "header", 2: "chunk", 3: "index", 4: "superblock", 5: "hole", 6: "filler"}


def whole_blocks(count):
    return -(-count // BLOCK) * BLOCK


class Drive:
    """A drive that nobody serves. Blocks are (zone, offset)."""

    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            header = file.read(BLOCK)
            assert header[:8] == b"ZWDRIVE1", f"{path} is no drive"
            self.zones, _, self.capacity = struct.unpack_from("<III", header, 28)
            table = whole_blocks(self.zones * 64)
            tables = [file.read(table), file.read(table)]
        self.data_start = BLOCK + 2 * table
        self.zone_bytes = self.capacity * BLOCK + whole_blocks(self.capacity * OOB)
        self.write_pointers = [self.write_pointer(tables, zone) for zone in range(self.zones)]

    @staticmethod
    def write_pointer(tables, zone):
        """Of the copy with the higher sequence number."""
        copies = [table[zone * 64:(zone + 1) * 64] for table in tables]
        newest = max(copies, key=lambda copy: struct.unpack_from("<Q", copy, 16)[0])
        return struct.unpack_from("<I", newest, 36)[0]

    def written_blocks(self):
        return [(zone, offset) for zone, pointer in enumerate(self.write_pointers)
                for offset in range(pointer)]

    def data_at(self, block):
        zone, offset = block
        return self.data_start + zone * self.zone_bytes + offset * BLOCK

    def oob_at(self, block):
        zone, offset = block
        return self.data_start + zone * self.zone_bytes + self.capacity * BLOCK + offset * OOB

    def read(self, position, count):
        with open(self.path, "rb") as file:
            file.seek(position)
            return file.read(count)

    def write(self, position, data):
        with open(self.path, "r+b") as file:
            file.seek(position)
            file.write(data)

    def kind(self, block):
        """`header`, `index`, `superblock`, `data`, `parity` and so on, by the out-of-band metadata."""
        oob = self.read(self.oob_at(block), OOB)
        place = PLACES.get(oob[39], "unknown")
        if place != "chunk":
            return place
        # Parity blocks have a checksum of their own bytes; only their role distinguishes them.
        return f"role {oob[38]}"

    def flip(self, block, byte):
        position = self.data_at(block) + byte
        self.write(position, bytes([self.read(position, 1)[0] ^ 0xFF]))

    def damage(self, random, count):
        """Overwrites so many written blocks with garbage: data, metadata, or both. Every kind of block
        is among them where there is one; returns how many of each."""
        by_kind = {}
        for block in self.written_blocks():
            by_kind.setdefault(self.kind(block), []).append(block)
        chosen = [random.choice(blocks) for _, blocks in sorted(by_kind.items())]
        rest = sorted(set(self.written_blocks()) - set(chosen))
        chosen += random.sample(rest, min(count, len(rest) + len(chosen)) - len(chosen))
        kinds = {}
        for block in chosen:
            kind = self.kind(block)
            kinds[kind] = kinds.get(kind, 0) + 1
            what = random.choice(["data", "oob", "both"])
            if what != "oob":
                self.write(self.data_at(block), random.randbytes(BLOCK))
            if what != "data":
                self.write(self.oob_at(block), random.randbytes(OOB))
        return kinds
