"""A volume of each kind, with data, and what is common to them: the last four drives are one array, and
slot 3 of it is the last drive.
"""

import shutil
import subprocess

from array_under_test import BINARY, BLOCK, LIMIT_SECONDS, Array, need
from tagged_load import Load
from test_shards import Sharded


class Plain(Array):
    """Log-structured."""

    def __init__(self, workspace, name, **shape):
        super().__init__(workspace, name, zones=12, **shape)
        self.load = Load(workspace.random, range(0, 1000), salt=5)

    def fill(self):
        """Writes, and kills the server in the middle of it."""
        self.serve()
        self.load.write_until_dead(self.uri, 300, self.kill)

    def verify(self, where):
        self.load.verify(self.uri, where)

    def folder(self):
        return self.workspace.path(f"{self.name}-drives")

    def uuid(self):
        return self.status()["array"]

    def last(self):
        return self.workspace.path(self.drives[-1])


class Shards(Sharded, Plain):
    """Of two arrays, the second of which is asked for."""

    def __init__(self, workspace, name):
        super().__init__(workspace, name=name, drives=8, options=["--shards", "2"])

    def uuid(self):
        return self.status()["shards"][1]["array"]


class Zoned(Plain):
    """It is written and read by commands, a piece at a time."""

    def __init__(self, workspace, name):
        super().__init__(workspace, name, size=None, options=["--kind", "zoned", "--unit", "16KiB"])
        self.piece = workspace.random.randbytes(100 * BLOCK)
        self.pieces = [0] * 5

    def front_end(self):
        return ["zoned"]

    def answers(self):
        return "\nready; stop with" in self.last_words()

    def zoned(self, verb, zone, data=None):
        words = [BINARY, "zoned", verb, *self.present(), "--zone", str(zone)]
        return subprocess.run(words, input=data, capture_output=True, timeout=LIMIT_SECONDS,
                              check=False, cwd=self.workspace.folder,
                              env=self.workspace.environment)

    def write(self, zone):
        """Returns whether it was written, durably."""
        written = self.zoned("write", zone, self.piece).returncode == 0
        self.pieces[zone] += written
        return written

    def fill(self):
        self.serve()
        assert self.write(0)
        self.kill()

    def verify(self, where):
        for zone, count in enumerate(self.pieces):
            read = self.zoned("read", zone)
            assert read.returncode == 0, f"{where}: {read.stderr}"
            whole = read.stdout.startswith(self.piece * count)
            assert whole, f"{where}: zone {zone} holds other data, of {len(read.stdout)} bytes"


KINDS = {"log": Plain, "shards": Shards, "zoned": Zoned}


def killed(workspace, name):
    """An array whose next start has something to write."""
    need("nbdinfo")
    array = KINDS[name](workspace, name)
    array.fill()
    return array


def still_whole(array, where):
    """Nothing was spent: every drive is in service, and all data is there."""
    array.require_health()
    array.serve()
    array.require_health()
    array.verify(where)
    array.stop()
    array.check()


def copy_folder(array):
    return array.workspace.path(f"{array.name}-copies")


def copied(array):
    """Copies of the drives, byte for byte."""
    shutil.copytree(array.folder(), copy_folder(array))
    return [drive.replace("-drives/", "-copies/") for drive in array.drives]
