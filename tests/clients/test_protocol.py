"""The tools of libnbd and QEMU: what is advertised, and what comes back."""

import json
import os

from array_under_test import Array, need, run


def test_protocol_advertises_what_it_keeps(workspace):
    need("nbdinfo")
    array = Array(workspace)
    array.serve()
    for feature in ["connect", "fua", "flush", "trim", "zero", "multi-conn", "df", "fast-zero",
                    "write", "structured-reply"]:
        run("nbdinfo", "--can", feature, array.uri)
    for feature in ["read-only", "rotational"]:
        run("nbdinfo", "--is", feature, array.uri, code=2)
    listed = json.loads(run("nbdinfo", "--list", "--json", array.uri))
    assert [export["export-name"] for export in listed["exports"]] == [array.name], listed
    map_of_nothing = json.loads(run("nbdinfo", "--map", "--json", array.uri))
    assert [extent["type"] for extent in map_of_nothing] == [3], map_of_nothing
    wrong = run("nbdinfo", f"nbd+unix:///other?socket={array.socket}", code=1)
    assert "other" in wrong, wrong
    array.stop()
    array.check()


def test_protocol_copies_are_identical(workspace):
    need("nbdcopy")
    array = Array(workspace, zone_capacity="2MiB")
    array.serve()
    image, back = workspace.path("in.img"), workspace.path("out.img")
    size = array.size()
    with open(image, "wb") as file:
        # Data, holes and zeros by turns, so that every kind of command is sent.
        for index in range(size >> 20):
            file.seek(index << 20)
            file.write([workspace.random.randbytes(1 << 20), b"", bytes(4096)][index % 3])
        file.truncate(size)
    for connections in [1, 4]:
        run("nbdcopy", "--flush", f"--connections={connections}", image, array.uri)
        run("nbdcopy", f"--connections={connections}", array.uri, back)
        run("cmp", image, back)
        os.unlink(back)
    array.kill()
    array.serve()
    run("nbdcopy", array.uri, back)
    run("cmp", image, back)
    run("nbdcopy", "--connections=4", array.uri, "null:")
    array.stop()
    array.check()


def test_protocol_qemu_agrees(workspace):
    need("qemu-io", "qemu-img")
    array = Array(workspace)
    array.serve()

    def qemu_io(*commands):
        words = [word for command in commands for word in ("-c", command)]
        printed = run("qemu-io", "-f", "raw", *words, array.uri)
        assert "failed" not in printed and "error" not in printed.lower(), printed

    # 4 KiB blocks, and pieces of them, which the server reads, changes and writes.
    qemu_io("write -P 0xa5 -f 0 64k", "write -z -u 4k 8k", "read -P 0xa5 0 4k", "read -P 0 4k 8k",
            "read -P 0xa5 12k 52k", "discard 16k 16k", "read -P 0 16k 16k", "flush")
    qemu_io("write -P 0x11 1M 4k", "write -P 0x22 1049088 512", "read -P 0x11 1M 512",
            "read -P 0x22 1049088 512", "read -P 0x11 1049600 3072",
            "write -z 1050112 1024", "read -P 0 1050112 1024", "read -P 0x11 1051136 1536")
    qemu_io("write -P 0x33 2M 3M", "write -P 0x44 2097153 3145725", "read -P 0x33 2M 1",
            "read -P 0x44 2097153 3145725", "read -P 0x33 5242878 2")
    extents = json.loads(run("qemu-img", "map", "-f", "raw", "--output=json", array.uri))
    has_data = [(extent["start"], extent["length"]) for extent in extents if extent["data"]]
    assert sum(length for _, length in has_data) >= 3 << 20, extents
    assert not any(start <= 20 << 10 < start + length for start, length in has_data), extents
    assert extents[-1]["start"] + extents[-1]["length"] == array.size(), extents
    array.kill()
    array.serve()
    qemu_io("read -P 0xa5 0 4k", "read -P 0 16k 16k", "read -P 0x22 1049088 512",
            "read -P 0x44 2097153 3145725")
    again = json.loads(run("qemu-img", "map", "-f", "raw", "--output=json", array.uri))
    assert [extent["data"] for extent in again] == [extent["data"] for extent in extents], again
    run("qemu-img", "bench", "-f", "raw", "-c", "2000", "-d", "32", "-w", array.uri)
    array.stop()
    array.check()
