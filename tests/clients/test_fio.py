"""fio: everything written twice over, so that garbage collection runs, and verified."""

from array_under_test import Array, need, run

SIZES = "4k/40:8k/15:12k/10:16k/15:64k/10:256k/10"


def fio(workspace, array, depth, *options):
    return run("fio", "--name=load", "--ioengine=nbd", f"--uri={array.uri}", "--rw=randwrite",
               f"--bssplit={SIZES}", f"--size={array.size()}", f"--iodepth={depth}",
               "--verify=crc32c", "--verify_interval=4k", "--verify_fatal=1", "--do_verify=1",
               "--verify_state_save=0", f"--randseed={workspace.random.randrange(1 << 31)}",
               *options, limit=900, cwd=workspace.folder)


def overwritten_twice(workspace, depth, **shape):
    need("fio")
    array = Array(workspace, **shape)
    array.serve()
    fio(workspace, array, depth, "--loops=2")
    counters = array.status()["server"]["counters"]
    written = counters["user_blocks_written"] * 4096
    assert written >= 2 * array.size() * 0.99, counters
    assert counters["segments_reclaimed"] > 0, f"no garbage was collected: {counters}"
    array.stop()
    array.check()


def test_fio_depth_1(workspace):
    overwritten_twice(workspace, 1, zones=32)


def test_fio_depth_32(workspace):
    overwritten_twice(workspace, 32, zones=48)


def test_fio_depth_128(workspace):
    overwritten_twice(workspace, 128, zones=48)


def test_fio_depth_32_zone_write(workspace):
    overwritten_twice(workspace, 32, zones=48, options=["--mode", "zone-write"])


def test_fio_depth_32_raid6(workspace):
    overwritten_twice(workspace, 32, zones=48, drives=5, level="raid6")
