"""Mishaps of operators, on a volume of each kind. A command that is refused changes no byte of any drive and
puts no drive out of service; nothing waits without end for a program that does not answer.

Each array holds data, and its server was killed: the next start has something to write, so that a start
before a refusal shows in the media.
"""

import concurrent.futures
import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess

import nbd

from array_under_test import (BINARY, BLOCK, LIMIT_SECONDS, Skipped, digest, need, run,
                              skip_part, wait_for)
from kinds import KINDS, Plain, Zoned, copied, copy_folder, killed, still_whole
from tagged_load import connect, contents
from test_refusals import says

NOBODY = 65534


def unchanged(array, before, what):
    assert digest(array.folder()) == before, f"{what} changed the drives of {array.name}"


def refused(workspace, *words, **options):
    return workspace.zoneweave(*words, code=options.pop("code", (1, 3, 4, 5)),
                               limit=LIMIT_SECONDS, **options)


def at_once(call, cases):
    """Side by side, as each waits for a time limit."""
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        list(pool.map(call, cases))


def front_ends(array, folder=""):
    """The front ends of a volume, at places of their own."""
    if isinstance(array, Zoned):
        return [["zoned"]]
    path = array.workspace.path(folder, array.name)
    return [["nbd", "--socket", f"unix:{path}.nbd"], ["vhost-user", "--socket", f"unix:{path}.vhost"],
            ["fuse", "--mountpoint", f"{path}.fuse"], ["nvme-tcp", "--listen", "127.0.0.1:0"]]


def as_nobody(workspace):
    """The binary as run by a user without privileges, with a folder of its own."""
    os.mkdir(workspace.path("nobody"), 0o700)
    if os.geteuid() != 0:
        return [BINARY]
    need("setpriv")
    os.chmod(workspace.folder, 0o711)
    os.chown(workspace.path("nobody"), NOBODY, NOBODY)
    # The one under test may lie where that user cannot go.
    binary = shutil.copy(BINARY, workspace.path("nobody", "zoneweave"))
    os.chmod(binary, 0o755)
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", binary]


def obstacles(workspace):
    """Reasons for which a server cannot serve although its drives are sound, with its messages."""
    os.mkdir(workspace.path("open"), 0o755)
    with open(workspace.path("file"), "w", encoding="utf-8"):
        pass
    folders = {"open": "accessible to other users", "file": "cannot create the directory",
               "x" * 90: "is longer than the 107 bytes"}
    if os.geteuid() == 0:
        mount(workspace, "read-only", "mode=700,ro")
        folders["read-only"] = "read-only file system"
    else:
        skip_part(workspace, "mounting a read-only folder needs root")
    for name, reason in folders.items():
        yield reason, {"ZONEWEAVE_RUNTIME_DIR": workspace.path(name)}
    need("prlimit")
    yield "raise the limit", {"command": ["prlimit", "--nofile=8", BINARY]}


def test_cases_start_that_does_not_serve_changes_nothing(workspace):
    arrays = [killed(workspace, name) for name in KINDS]
    before = [digest(array.folder()) for array in arrays]
    for reason, options in obstacles(workspace):
        for array, media in zip(arrays, before):
            for front_end in front_ends(array):
                says(refused(workspace, "serve", *front_end, *array.drives[:-1], **options), reason)
            unchanged(array, media, f"a start ({reason})")
    # A start that does serve changes copies of the same drives: the comparison can fail.
    copies = copied(arrays[0])
    arrays[0].serve(copies[:-1])
    arrays[0].kill()
    assert digest(copy_folder(arrays[0])) != before[0], "a start wrote nothing"
    for array in arrays:
        still_whole(array, "after starts that did not serve")


def test_cases_start_with_few_descriptors_costs_no_drive(workspace):
    """The story: drives that could not be opened any more were taken for lost, two of twelve."""
    need("nbdinfo", "prlimit")
    array = Plain(workspace, "twelve", drives=12, level="raid6")
    array.fill()
    before = digest(array.folder())
    for count in [8, 16, 24]:
        said = refused(workspace, "serve", *array.front_end(), *array.drives,
                       command=["prlimit", f"--nofile={count}", BINARY])
        says(said, "raise the limit")
    unchanged(array, before, "a start with few descriptors")
    still_whole(array, "after starts with few descriptors")


def test_cases_copies_give_no_orders(workspace):
    blank = workspace.drives("blank", 1, 12, "1MiB")[0]
    arrays = [killed(workspace, name) for name in KINDS]
    copies = {array: copied(array) for array in arrays}
    before = [digest(copy_folder(array)) for array in arrays]
    for array in arrays:
        array.serve()

    def start_copies(array):
        said = refused(workspace, "serve", *front_ends(array)[0], *copies[array][:-1])
        says(said, workspace.path("run"), "is in use by a running server")

    at_once(start_copies, arrays)
    for array, media in zip(arrays, before):
        orders = [["replace", "--slot", 3, "--with", blank, "--yes-destroy"], ["fail", "--slot", 3],
                  ["scrub"], ["stop"], ["status", "--check"]]
        for verb, *words in orders:
            says(array.zoneweave("array", verb, *copies[array][-4:], *words, code=4), "a copy of")
        says(array.zoneweave("array", "list", copies[array][-1]), "a copy of")
        if isinstance(array, Zoned):
            said = array.zoneweave("zoned", "reset", *copies[array], "--zone", 0, code=4)
            says(said, "a copy of")
        assert digest(copy_folder(array)) == media, f"the copies of {array.name} changed"
        array.require_health()
        array.verify("after orders by copies")
        array.stop()
        still_whole(array, "after orders by copies")


def refuse_without_last(array, reason, folder="", **options):
    """All that would start the array refuses to, as a drive that was named cannot be opened."""
    drives = array.drives
    commands = [["serve", *front_end, *drives] for front_end in front_ends(array, folder)]
    commands += [["array", "scrub", *drives[-4:]], ["array", "fail", *drives[-4:], "--slot", 1]]
    if isinstance(array, Zoned):
        commands.append(["zoned", "reset", *drives, "--zone", 0])
    for words in commands:
        says(refused(array.workspace, *words, **options), f"{drives[-1]}: cannot open it", reason)


def test_cases_drive_without_permission_refuses_a_start(workspace):
    nobody = as_nobody(workspace)
    for array in [killed(workspace, name) for name in KINDS]:
        before = digest(array.folder())
        for drive in array.drives:
            if os.geteuid() == 0:
                os.chown(workspace.path(drive), NOBODY, NOBODY)
        os.chmod(array.last(), 0)
        refuse_without_last(array, "permission denied", "nobody", command=nobody,
                            ZONEWEAVE_RUNTIME_DIR=workspace.path("nobody"))
        os.chmod(array.last(), 0o600)
        unchanged(array, before, "a drive without permission")
        still_whole(array, "after a drive without permission")


def test_cases_immutable_drive_refuses_a_start(workspace):
    if os.geteuid() != 0:
        raise Skipped("chattr +i needs root")
    need("chattr")
    for array in [killed(workspace, name) for name in KINDS]:
        before = digest(array.folder())
        with immutable(array.last()):
            refuse_without_last(array, "not permitted")
        unchanged(array, before, "an immutable drive")
        still_whole(array, "after an immutable drive")
        # With a word, it starts without it.
        with immutable(array.last()):
            array.serve([*array.drives, "--without", array.drives[-1]])
            assert array.health() == "degraded", array.status()
            array.verify("without an immutable drive")
            array.stop()


@contextlib.contextmanager
def immutable(path):
    probe = subprocess.run(["chattr", "+i", path], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        raise Skipped(f"this file system knows no immutable files: {probe.stderr.strip()}")
    try:
        yield
    finally:
        run("chattr", "-i", path)


def test_cases_refused_replacement_spends_nothing(workspace):
    small = workspace.drives("small", 1, 8, "1MiB")[0]
    for array in [killed(workspace, name) for name in KINDS]:
        before = digest(array.folder())
        away = workspace.path("away")
        os.rename(array.last(), away)
        for words in [["--yes-destroy"], ["--dry-run"], []]:
            says(array.zoneweave("array", "replace", *array.drives[-4:-1], "--slot", 3, "--with",
                                 small, *words, code=1), "8 zones of 1 MiB")
        os.rename(away, array.last())
        unchanged(array, before, "a refused replacement")
        still_whole(array, "after a refused replacement")


def hung(path):
    """A socket on which a program listens that takes no connections."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(0)
    return listener


def test_cases_start_gives_up_on_a_hung_socket(workspace):
    arrays = [killed(workspace, name) for name in KINDS]
    before = [digest(array.folder()) for array in arrays]
    controls = [workspace.path("run", f"{array.uuid()}.sock") for array in arrays[1:]]
    for path in controls:
        os.unlink(path)
    listeners = [hung(path) for path in [workspace.path("hung"), *controls]]
    few = arrays[0].drives[:-1]
    starts = [["nbd", "--socket", "unix:hung", *few]]
    starts += [[*array.front_end(), *array.drives[:-1]] for array in arrays[1:]]
    at_once(lambda words: refused(workspace, "serve", *words, code=5), starts)
    # A signal does not wait for that: the start has connected once it has found the socket in its way.
    again = hung(workspace.path("again"))
    start = subprocess.Popen([BINARY, "serve", "nbd", "--socket", "unix:again", *few],
                             cwd=workspace.folder, env=workspace.environment,
                             stderr=subprocess.DEVNULL)
    workspace.undo.append(start.kill)
    assert select.select([again], [], [], LIMIT_SECONDS)[0], "the start did not connect"
    start.send_signal(signal.SIGTERM)
    assert start.wait(LIMIT_SECONDS) == -signal.SIGTERM, start.returncode
    for array, media in zip(arrays, before):
        unchanged(array, media, "a start beside a hung socket")
    for listener in listeners:
        os.unlink(listener.getsockname())
    for array in arrays:
        still_whole(array, "after a hung socket")


def test_cases_commands_give_up_on_a_stopped_server(workspace):
    blank = workspace.drives("blank", 3, 12, "1MiB")
    arrays = [killed(workspace, name) for name in KINDS]
    calls = []
    for array, spare in zip(arrays, blank):
        array.serve()
        array.server.send_signal(signal.SIGSTOP)
        orders = [["status", "--check"], ["fail", "--slot", 1], ["scrub"], ["stop"],
                  ["replace", "--slot", 1, "--with", spare, "--yes-destroy"]]
        for verb, *words in orders:
            calls.append(["array", verb, *array.drives[-4:], *words])
        if isinstance(array, Zoned):
            calls.append(["zoned", "reset", *array.drives, "--zone", 0])
        # By a drive of one shard, all of them are asked.
        calls.append(["array", "status", "--check", array.drives[-1]])
    try:
        at_once(lambda words: says(refused(workspace, *words, code=5), "has not answered for"), calls)
    finally:
        for array in arrays:
            array.server.send_signal(signal.SIGCONT)
    for array in arrays:
        array.require_health()
        array.verify("after a server was stopped")
        array.stop()
        still_whole(array, "after a server was stopped")


def has_failed(array):
    if isinstance(array, Zoned):
        # Not before a command needs a drive.
        array.write(1)
    return array.health() == "failed"


def test_cases_failed_volume_of_someone_else_is_not_healthy(workspace):
    nobody = as_nobody(workspace)
    if os.geteuid() != 0:
        skip_part(workspace, "only root can act as another user")
    os.mkdir(workspace.path("elsewhere"), 0o700)
    arrays = [killed(workspace, name) for name in KINDS]
    for array in arrays:
        array.serve()
        for slot in [-4, -3]:
            array.remove_drive(slot)
        wait_for("the volume to fail", lambda array=array: has_failed(array))
        array.zoneweave("array", "status", "--check", *array.present(), code=12)
        for drive in array.present():
            os.chmod(workspace.path(drive), 0o644)

    def asked_elsewhere(case):
        array, folder, command, code = case
        said = workspace.zoneweave("array", "status", "--check", *array.present(), code=code,
                                   command=command, ZONEWEAVE_RUNTIME_DIR=workspace.path(folder))
        assert "HEALTHY" not in said, said
        says(said, "permission denied" if code == 1 else "served by someone else")

    at_once(asked_elsewhere, [(array, *who, 14) for array in arrays
                              for who in [("elsewhere", [BINARY]), ("nobody", nobody)]])
    # A user without permission to read the drives gets that as the reason.
    for array in arrays:
        for drive in array.present():
            os.chmod(workspace.path(drive), 0)
    at_once(asked_elsewhere, [(array, "nobody", nobody, 1) for array in arrays])


def start_without_late_drive(array):
    """A clean stop has left nothing to decide, so that a start without a drive writes nothing. A shard
    with all of its drives is published at its start, as an array with all of them."""
    drives = [array.workspace.path(drive) for drive in array.drives[-4:]]
    before = [digest(drive) for drive in drives]
    array.serve(array.drives[:-1])
    assert array.health() == "degraded", array.status()
    array.verify("without a late drive")
    array.stop()
    after = [digest(drive) for drive in drives]
    assert after == before, f"a start without a late drive changed the drives of {array.name}"
    still_whole(array, "after a start without a late drive")


def test_cases_start_without_a_late_drive_costs_it_nothing(workspace):
    """The story: the late drive was out of service for good, although it had missed no write."""
    for name in ["log", "shards"]:
        array = killed(workspace, name)
        # This life stops before it has relocated all that the crash has left behind.
        array.serve()
        array.stop()
        start_without_late_drive(array)
        array.serve()
        array.load.write(array.uri, 300)
        array.stop()
        start_without_late_drive(array)


def mount(workspace, folder, options):
    path = workspace.path(folder)
    os.mkdir(path)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", path],
                             capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        raise Skipped(f"mounting a file system: {mounted.stderr.strip()}")
    workspace.undo.append(lambda: run("umount", "-l", path))


def fill_up(array):
    """Writes until there is no room; each piece is durable once it is answered."""
    if isinstance(array, Zoned):
        assert not all(array.write(zone) for zone in range(5) for _ in range(7)), "there was room"
        return
    array.load.blocks = range(0, 4096)
    oracle, handle = array.load.oracle, connect(array.uri)
    with contextlib.suppress(nbd.Error):
        for start in range(0, 4096, 16):
            versions = {block: oracle.submit(block, False) for block in range(start, start + 16)}
            data = [contents(oracle.salt, *each) for each in versions.items()]
            handle.pwrite(b"".join(data), start * BLOCK)
            handle.flush()
            for block, version in versions.items():
                oracle.acknowledge(block, version)
        raise AssertionError("there was room")


def test_cases_full_file_system_is_told_and_survived(workspace):
    need("nbdinfo")
    for name, kind in KINDS.items():
        mount(workspace, f"{name}-drives", "size=9m")
        array = kind(workspace, name)
        array.serve()
        fill_up(array)
        status = ["array", "status", "--check", *array.drives]
        says(array.zoneweave(*status, code=12), "FAILED", "free some space", "no drive is lost")
        array.stop(code=1)
        before = digest(array.folder())
        says(array.zoneweave(*status, code=12), "FAILED", "free some space")
        says(array.refused(), "no space left", "free some space")
        unchanged(array, before, "a start without space")
        run("mount", "-o", "remount,size=64m", array.folder())
        still_whole(array, "after space was freed")
