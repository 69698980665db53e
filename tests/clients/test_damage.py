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
