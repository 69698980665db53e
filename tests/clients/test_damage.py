"""Rot on one drive: every file's contents are right, and scrubbing heals all of it."""

import media
from array_under_test import Array, need
from tagged_load import Load


def rot_and_heal(workspace, array, slots, count):
    need("nbdinfo")
    array.serve()
    load = Load(workspace.random, range(0, 6000), salt=3)
    load.write(array.uri, 3000)
    array.stop()
    array.check()
    for slot in slots:
        drive = media.Drive(workspace.path(array.drives[slot]))
        kinds = drive.damage(workspace.random, count)
        print(f"  slot {slot}: damaged {kinds}")
        assert sum(kinds.values()) == count, kinds
        assert {"header", "index", "superblock", "role 0"} <= set(kinds), kinds
    array.check(code=1)
    array.serve()
    load.verify(array.uri, "damaged")
    found = workspace.json("array", "scrub", array.drives[0])
    assert found["unrepairable"] == 0, found
    load.verify(array.uri, "scrubbed")
    array.stop()
    array.check()
    array.serve()
    load.write(array.uri, 500)
    load.verify(array.uri, "written again")
    array.stop()
    array.check()


def test_damage_thousand_blocks_of_one_drive(workspace):
    rot_and_heal(workspace, Array(workspace, zones=48, size="64MiB"), [2], 1000)


def test_damage_blocks_of_two_drives_raid6(workspace):
    array = Array(workspace, drives=5, level="raid6", zones=48, size="64MiB")
    rot_and_heal(workspace, array, [1, 4], 500)


def test_damage_headers_of_a_rebuilt_drive(workspace):
    """The story: zones of a rebuilt column are listed in their own headers only. With such a header gone
    the zone belonged to no segment, and no scrub rebuilt the column."""
    need("nbdinfo")
    array = Array(workspace, zones=48, size="64MiB")
    array.serve()
    load = Load(workspace.random, range(0, 6000), salt=3)
    load.write(array.uri, 2000)
    spare = workspace.drives("spare", 1, 48, "1MiB")[0]
    array.zoneweave("array", "replace", array.drives[0], "--slot", 1, "--with", spare, "--yes-destroy")
    array.drives[1] = spare
    array.stop()
    array.check()
    drive = media.Drive(workspace.path(spare))
    headers = [block for block in drive.written_blocks() if drive.kind(block) == "header"]
    for block in headers[:3]:
        drive.write(drive.data_at(block), workspace.random.randbytes(4096))
    array.serve()
    load.verify(array.uri, "with damaged headers")
    array.zoneweave("array", "scrub", array.drives[0])
    array.stop()
    array.check()
