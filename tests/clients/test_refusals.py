"""Drives that do not belong: each gets its own clear message, and nothing is destroyed."""

import os
import pathlib
import shutil
import socket
import threading

import media
from array_under_test import BLOCK, ROOT, Array, Skipped, need, run
from tagged_load import Load


def prepared(workspace, **shape):
    """An array with known contents, whose server was killed: its next start has something to write."""
    need("nbdinfo")
    array = Array(workspace, zones=24, **shape)
    array.serve()
    load = Load(workspace.random, range(0, 1500), salt=1)
    load.write_until_dead(array.uri, 600, array.kill)
    return array, load


def still_whole(array, load, where):
    """Nothing is destroyed, no drive is out of service, the array starts with all its data, and the
    checker is content."""
    array.require_health()
    array.serve()
    array.require_health()
    load.verify(array.uri, where)
    array.stop()
    array.check()


def says(text, *words):
    missing = [word for word in words if word.lower() not in text.lower()]
    assert not missing, f"expected {missing} in:\n{text}"


def test_refusals_order_does_not_matter(workspace):
    array, load = prepared(workspace)
    array.serve(list(reversed(array.drives)))
    load.verify(array.uri, "reversed")
    assert array.health() == "healthy"
    array.stop()
    array.check(drives=[array.drives[at] for at in (2, 0, 3, 1)])


def test_refusals_drive_of_another_array(workspace):
    array, load = prepared(workspace)
    other = Array(workspace, name="other", zones=24)
    mixed = [*array.drives[:3], other.drives[3]]
    says(array.refused(mixed), "another array", "drive3", "--without")
    array.serve([*mixed, "--without", mixed[3]])
    assert array.health() == "degraded"
    load.verify(array.uri, "with a stranger")
    array.stop()
    # The stranger was not touched.
    other.check()
    text = array.zoneweave("array", "create", "third", *mixed, "--size", "max", code=4)
    says(text, "would be destroyed", "--yes-destroy")
    two_of_each = [*array.drives[:2], *other.drives[2:]]
    says(array.refused(two_of_each), "drive")
    other.check()
    array.check(drives=array.drives[:3], code=(0, 1))


def test_refusals_blank_drive_is_not_adopted(workspace):
    array, load = prepared(workspace)
    blank = workspace.drives("blank", 1, 24, "1MiB")[0]
    with_blank = [*array.drives[:3], blank]
    says(array.refused(with_blank), "blank", "--without")
    array.serve([*with_blank, "--without", blank])
    assert array.health() == "degraded"
    array.stop()
    inspected = array.zoneweave("array", "list", blank)
    says(inspected, "blank")
    only_blank = workspace.drives("more", 4, 24, "1MiB")
    says(array.refused(only_blank), "none of these drives", "array create")


def test_refusals_stale_drive_is_not_believed(workspace):
    array, load = prepared(workspace)
    array.serve(array.drives[:3])
    load.write(array.uri, 300)
    array.stop()
    # The fourth drive missed writes; now it comes back.
    array.serve()
    says(array.last_words(), "stale", "drive3")
    load.verify(array.uri, "beside a stale drive")
    # It gets what it missed; a scrub waits for that.
    array.zoneweave("array", "scrub", *array.drives)
    assert array.health() == "healthy", array.status()
    assert array.status()["others"] == [], array.status()
    array.stop()
    still_whole(array, load, "rebuilt")


def test_refusals_smaller_drive(workspace):
    array, load = prepared(workspace)
    small = workspace.drives("small", 1, 12, "1MiB")[0]
    text = array.zoneweave("array", "replace", *array.drives, "--slot", 2, "--with", small,
                           "--yes-destroy", code=(1, 4))
    says(text, "small")
    still_whole(array, load, "after the refusal")
    array.serve()
    text = array.zoneweave("array", "replace", *array.drives, "--slot", 2, "--with", small,
                           "--yes-destroy", code=(1, 4))
    says(text, "small")
    array.stop()
    still_whole(array, load, "after the second refusal")


def test_refusals_truncated_file(workspace):
    array, load = prepared(workspace)
    path = workspace.path(array.drives[1])
    kept = workspace.path("kept")
    shutil.copyfile(path, kept)
    os.truncate(path, os.path.getsize(path) - 4096)
    says(array.refused(), "truncated", f"--without {array.drives[1]}")
    array.serve([*array.drives, "--without", "any"])
    says(array.last_words(), "truncated", "drive1")
    assert array.health() == "degraded"
    load.verify(array.uri, "with a truncated drive")
    array.stop()
    # Nobody wrote to it meanwhile other than us: it is stale or whole, never wrong.
    shutil.copyfile(kept, path)
    array.serve()
    load.verify(array.uri, "with the drive restored")
    array.stop()


def test_refusals_not_a_drive(workspace):
    array, load = prepared(workspace)
    path = workspace.path("letter.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write("x" * 100_000)
    says(array.zoneweave("array", "list", path), "the file is not a drive")
    says(array.refused([*array.drives[:3], path]), "the file is not a drive", "--without")
    array.serve([*array.drives, path, "--without", path])
    assert array.health() == "healthy", array.status()
    array.stop()
    array.serve([*array.drives[:3], path, "--without", "any"])
    says(array.last_words(), "letter.txt", "the file is not a drive")
    array.stop()
    says(array.refused([*array.drives[:2], path, "nowhere", "--without", "any"]), "drive")


def test_refusals_too_few_drives(workspace):
    array, load = prepared(workspace)
    text = array.refused(array.drives[:2])
    says(text, "drive")
    still_whole(array, load, "after the refusal")


def test_refusals_drive_in_use(workspace):
    array, load = prepared(workspace)
    array.serve()
    second = Array.__new__(Array)
    second.__dict__.update(array.__dict__, server=None, socket=workspace.path("second.sock"))
    says(second.refused(), "in use")
    text = array.zoneweave("array", "check", *array.drives, code=4)
    says(text, "served")
    load.verify(array.uri, "beside a second server")
    array.stop()
    array.check()


def forged_server(workspace, path):
    """Another user's program, at the socket where an array's server would be: it greets, and calls everything done."""
    if os.geteuid() != 0:
        raise Skipped("only root can act as another user")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    # The kernel notes the user at this moment.
    os.seteuid(65534)
    try:
        listener.listen()
    finally:
        os.seteuid(0)
    believed = []

    def serve():
        while True:
            try:
                client = listener.accept()[0]
            except OSError:
                return
            with client:
                try:
                    client.sendall(b'{"answer":"hello","version":1}\n')
                    asked = client.makefile("rb").readline()
                    believed.extend([asked] if asked else [])
                    client.sendall(b'{"answer":"done","result":{}}\n')
                except OSError:
                    pass

    server = threading.Thread(target=serve)
    server.start()

    def stop():
        listener.shutdown(socket.SHUT_RDWR)
        server.join()

    workspace.undo.append(stop)
    return believed


def test_refusals_server_of_another_user_is_not_believed(workspace):
    array = Array(workspace, zones=24)
    uuid = array.status()["array"]
    blank = workspace.drives("blank", 1, 24, "1MiB")[0]
    believed = forged_server(workspace, workspace.path("run", f"{uuid}.sock"))
    # The status says that it is unknown, from the drives alone.
    for words, code in [(["status", "--check"], 14), (["fail", "--slot", 0], 5), (["scrub"], 5)]:
        text = array.zoneweave("array", words[0], *array.drives, *words[1:], code=code)
        says(text, "user (65534)", "refusing to trust", "ZONEWEAVE_RUNTIME_DIR")
    # It is passed over where all servers are asked.
    says(array.zoneweave("array", "list", blank, array.drives[0]), "blank", "vol")
    assert not believed, believed


def test_refusals_flipped_superblock_byte(workspace):
    array, load = prepared(workspace)
    drive = media.Drive(workspace.path(array.drives[0]))
    superblocks = [at for at in drive.written_blocks() if drive.kind(at) == "superblock"]
    assert superblocks, "the drive has superblock records"
    drive.flip(superblocks[-1], byte=60)
    says(array.zoneweave("inspect", array.drives[0]), "damaged record")
    array.check(code=1)
    array.serve()
    load.verify(array.uri, "with a flipped byte")
    array.zoneweave("array", "scrub", array.drives[0])
    array.stop()
    still_whole(array, load, "after the scrub")


def test_refusals_user_data_is_never_metadata(workspace):
    """The story: a file system held a copy of this repository, and with it the golden image of a
    superblock record. The next start took the file's blocks for records of another array and refused all
    drives. Only the out-of-band metadata tells what a block is, and users cannot write that."""
    array, load = prepared(workspace)
    golden = pathlib.Path(ROOT, "crates", "raid", "tests", "golden")
    blocks = [path.read_bytes() for path in sorted(golden.iterdir()) if path.stat().st_size == BLOCK]
    # Those of this array, too: its own records, headers and index blocks, as a user might find them.
    drive = media.Drive(workspace.path(array.drives[0]))
    for kind in ["superblock", "header", "index"]:
        at = [block for block in drive.written_blocks() if drive.kind(block) == kind]
        blocks += [drive.read(drive.data_at(block), BLOCK) for block in at[:3]]
    forged = workspace.path("forged.img")
    array.serve()
    with open(forged, "wb") as file:
        for index in range(array.size() // BLOCK):
            file.write(blocks[index % len(blocks)])
    run("nbdcopy", "--flush", forged, array.uri)
    for end in [array.stop, array.kill]:
        end()
        array.serve()
        assert array.health() == "healthy", array.status()
        run("nbdcopy", array.uri, workspace.path("back.img"))
        run("cmp", forged, workspace.path("back.img"))
    array.stop()
    array.check()
