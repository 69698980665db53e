"""kill -9 under load: nothing that was acknowledged is lost, nothing is torn, mixed up or made up."""

import time

from array_under_test import BLOCK, ROUNDS, Array, need
from tagged_load import Load


def rounds_of_kill(workspace, array, removals=()):
    """`removals`: the rounds in which a drive is pulled out under load, and its slot."""
    need("nbdinfo")
    array.serve()
    # A hot region, so that blocks are overwritten and collected often.
    blocks = range(0, min(array.size() // BLOCK, 6000))
    load = Load(workspace.random, blocks, salt=workspace.random.randrange(1 << 60))
    for number in range(ROUNDS):
        where = f"round {number}"
        pulled = dict(removals).get(number)
        if pulled is not None:
            load.write(array.uri, workspace.random.randrange(20, 400))
            array.remove_drive(pulled)
            load.write(array.uri, 200)
        load.write_until_dead(array.uri, workspace.random.randrange(20, 3000), array.kill)
        if workspace.random.random() < 0.3:
            # Once more during recovery. How far it gets is up to the machine, so every round differs.
            array.start(array.present())
            time.sleep(workspace.random.random() / 20)
            array.kill()
        if number % 5 == 0:
            array.check(drives=array.present())
        array.serve(array.present())
        load.verify(array.uri, where)
    array.stop()
    array.check()
    return load


def test_crash_rounds_raid5(workspace):
    # Little room, so that garbage collection is caught in the act as well.
    rounds_of_kill(workspace, Array(workspace, zones=32, size="40MiB"))


def test_crash_rounds_raid5_zone_write(workspace):
    array = Array(workspace, zones=32, size="40MiB", options=["--mode", "zone-write"])
    rounds_of_kill(workspace, array)


def test_crash_rounds_raid6_with_two_drives_lost(workspace):
    array = Array(workspace, drives=5, level="raid6", zones=32, size="40MiB")
    lost = [(ROUNDS // 4, 1), (ROUNDS // 2, 3)]
    load = rounds_of_kill(workspace, array, lost)
    spares = workspace.drives("spares", 2, 32, "1MiB")
    array.serve(array.present())
    assert array.health() == "degraded", array.status()
    for (_, slot), spare in zip(lost, spares):
        array.zoneweave("array", "replace", *array.present(), "--slot", slot, "--with", spare)
        array.drives[slot] = spare
        load.write(array.uri, 200)
    load.verify(array.uri, "after the rebuild")
    assert array.health() == "healthy", array.status()
    array.stop()
    array.check()
