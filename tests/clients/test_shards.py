"""A volume of several arrays, each by an engine and a thread of its own."""

import json

from array_under_test import Array, digest, need, run
from tagged_load import Load
from test_crash import rounds_of_kill

SHARDS = 2


def volume(workspace, **options):
    return Sharded(workspace, drives=4 * SHARDS, options=["--shards", str(SHARDS)], **options)


class Sharded(Array):
    """A volume of shards, of four drives each."""

    def of_shard(self, number):
        return [drive for drive in self.present() if drive in self.drives[4 * number:4 * number + 4]]

    def check(self, code=0, drives=None):
        """The offline checker takes one array at a time."""
        for number in range(SHARDS):
            named = [drive for drive in self.of_shard(number) if drive in (drives or self.present())]
            super().check(code=code, drives=named)


def test_crash_rounds_shards(workspace):
    # A drive of each shard is lost on the way.
    array = volume(workspace, zones=32, size="80MiB")
    rounds_of_kill(workspace, array, [(5, 1), (9, 6)])


def test_shards_are_told_apart_and_looked_after_one_by_one(workspace):
    need("nbdinfo")
    array = volume(workspace, zones=32, size="80MiB")
    listed = workspace.json("array", "list", *array.drives)["drives"]
    assert [drive["shard"]["number"] for drive in listed] == [0] * 4 + [1] * 4, listed
    missing = array.refused(array.of_shard(1))
    assert "no drive of shard 0 was given" in missing, missing
    # In any order.
    array.serve(array.drives[::-1])
    assert array.size() == 80 << 20
    load = Load(workspace.random, range(array.size() // 4096), salt=3)
    load.write(array.uri, 500)
    status = array.status()
    assert [shard["shard"]["number"] for shard in status["shards"]] == [0, 1], status
    assert status["size_bytes"] == 80 << 20, status
    # One drive is enough where it is served.
    assert workspace.json("array", "status", array.drives[5]).keys() == status.keys()
    for words in [["fail", "--slot", "1"], ["scrub"]]:
        refused = array.zoneweave("array", words[0], *array.drives, *words[1:], code=4)
        assert "belong to several shards" in refused, refused
    second = array.of_shard(1)
    array.zoneweave("array", "fail", *second, "--slot", "2")
    load.write(array.uri, 500)
    status = array.status()
    health = [status["health"], *(shard["health"] for shard in status["shards"])]
    assert health == ["degraded", "healthy", "degraded"], status
    array.zoneweave("array", "status", "--check", *array.drives, code=11)
    spare = workspace.drives("spares", 1, 32, "1MiB")[0]
    array.zoneweave("array", "replace", *second, "--slot", "2", "--with", spare)
    array.drives[6] = spare
    load.verify(array.uri, "after the rebuild")
    for number in range(SHARDS):
        array.zoneweave("array", "scrub", *array.of_shard(number))
    array.zoneweave("array", "status", "--check", *array.present())
    array.stop()
    array.check()


def states(array, drives):
    return [member["state"] for shard in array.workspace.json("array", "status", *drives)["shards"]
            for member in shard["members"]]


def test_a_shard_that_would_not_start_leaves_the_others_as_they_are(workspace):
    array = volume(workspace, zones=32, size="80MiB")
    array.serve()
    load = Load(workspace.random, range(array.size() // 4096), salt=3)
    load.write_until_dead(array.uri, 300, array.kill)
    before = digest(workspace.path("vol-drives"))
    # One of shard 0 is not named, which it could do without, and two of shard 1, of RAID-5 one too many.
    for drives in [array.drives[1:6], array.drives[:2] + array.drives[5:]]:
        said = array.refused(drives)
        assert "shard" in said and "2 of 4" in said or "drives" in said, said
        assert states(array, array.drives) == ["online"] * 8
        assert digest(workspace.path("vol-drives")) == before, "a start that was refused wrote"
    array.serve()
    array.require_health()
    load.verify(array.uri, "after refused starts")
    array.stop()
    array.check()


def test_only_drives_of_the_volume_are_put_together(workspace):
    """However many strangers there are: other arrays, shards of other volumes, blank and missing drives."""
    array = volume(workspace, zones=32, size="80MiB")
    alone = Array(workspace, name="alone", drives=7, zones=32)
    other = Sharded(workspace, name="other", drives=8, options=["--shards", "2"], zones=32)
    blank = workspace.drives("blank", 5, 32, "1MiB")
    for named, missing in [(array.of_shard(1) + alone.drives[:3], 0), (array.of_shard(0) + blank, 1),
                           (array.drives[:4] + other.drives[4:7], 1)]:
        said = array.refused(named)
        assert f"no drive of shard {missing} was given" in said, said
    # Shard 0 does without one of its drives; the strangers are more than the others.
    strangers = [alone.drives[0], *other.drives[:3], *blank]
    array.serve([*strangers, *array.drives])
    load = Load(workspace.random, range(array.size() // 4096), salt=3)
    load.write(array.uri, 500)
    assert states(array, array.drives) == ["online"] * 8
    array.stop()
    array.check()
    alone.check()
    other.check()


def test_a_shard_that_is_gone_is_told(workspace):
    array = volume(workspace, zones=32, size="80MiB")
    for slot in range(4, 8):
        array.remove_drive(slot)
    said = array.zoneweave("array", "status", "--check", *array.present(), code=14)
    assert "shard 1 not served" in " ".join(said.split()), said
    assert array.status()["unknown"] == [1], said


def test_commands_take_a_shard_of_which_a_drive_is_gone(workspace):
    array = volume(workspace, zones=32, size="80MiB")
    drives = array.of_shard(1)
    array.remove_drive(7)
    array.zoneweave("array", "check", *drives)
    spare = workspace.drives("spares", 1, 32, "1MiB")[0]
    array.zoneweave("array", "replace", *drives, "--slot", "3", "--with", spare)
    array.drives[7] = spare
    assert states(array, array.drives) == ["online"] * 8


def test_requests_span_shards(workspace):
    need("qemu-io", "nbdinfo")
    array = volume(workspace, zones=32, size="80MiB")
    array.serve()

    def io(*commands):
        words = [word for command in commands for word in ("-c", command)]
        return run("qemu-io", "-f", "raw", *words, array.uri)

    # Units are of 256 KiB, so this is of both, with parts of a block at its ends.
    said = io("write -P 0x5a 100k 3001k", "flush", "read -P 0x5a 100k 3001k", "read -P 0 0 100k",
              "discard 512k 1M", "read -P 0 512k 1M", "read -P 0x5a 1536k 1M")
    assert "error" not in said and "verification failed" not in said, said
    extents = json.loads(run("nbdinfo", "--map", "--json", array.uri))
    assert sum(extent["length"] for extent in extents) == 80 << 20, extents
    array.stop()
    array.check()
