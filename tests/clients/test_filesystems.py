"""File systems of the kernel on the volume (NBD to FUSE to loop), through everything that happens to an
array: a killed server, a drive pulled out, a replacement, and rot. Needs root, /dev/fuse and loop devices.
"""

import os
import shutil
import subprocess
import sys

import media
from array_under_test import ROOT, Array, Skipped, digest, need, run, wait_for

# A program of its own, because it is to be killed or to die of an input/output error. It prints the number
# of each transaction once sqlite says that it is durable.
WORKLOAD = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("PRAGMA journal_mode=WAL")
database.execute("PRAGMA synchronous=FULL")
database.execute("CREATE TABLE IF NOT EXISTS load (number INTEGER PRIMARY KEY, filler BLOB)")
number = database.execute("SELECT coalesce(max(number), 0) FROM load").fetchone()[0]
while True:
    number += 1
    database.execute("INSERT INTO load VALUES (?, randomblob(?))", (number, number * 37 % 9000))
    if number % 40 == 0:
        database.execute("DELETE FROM load WHERE number % 3 = 0 AND number < ?", (number - 200,))
    print(number, flush=True)
"""


class Mount:
    """A file system on an array."""

    MAKE = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"]}
    CHECK = {"ext4": ["e2fsck", "-f", "-n"], "xfs": ["xfs_repair", "-n"]}

    def __init__(self, workspace, array, kind):
        self.workspace = workspace
        self.array = array
        self.kind = kind
        self.image = workspace.path("image")
        self.folder = workspace.path("mounted")
        self.fuse = None
        self.device = None
        self.mounted = False
        os.mkdir(self.folder)
        with open(self.image, "wb"):
            pass
        workspace.undo.append(self.detach)

    def attach(self):
        """The volume as a block device."""
        # Its output goes nowhere: a pipe would be held open for as long as it runs.
        self.fuse = subprocess.Popen(["nbdfuse", self.image, self.array.uri],
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL, start_new_session=True)

        def ready():
            assert self.fuse.poll() is None, "nbdfuse ended"
            return os.stat(self.image).st_size > 0

        wait_for("nbdfuse", ready)
        self.device = run("losetup", "-f", "--show", "--direct-io=on", self.image).strip()

    def make(self):
        run(*self.MAKE[self.kind], self.device)

    def mount(self):
        run("mount", "-t", self.kind, self.device, self.folder)
        self.mounted = True

    def unmount(self, died=False):
        """After the server died, the file system cannot write back what it holds."""
        if self.mounted:
            run("umount", self.folder, code=(0, 32) if died else 0)
            self.mounted = False

    def detach(self):
        self.unmount(died=True)
        if self.device:
            run("losetup", "-d", self.device, code=(0, 1))
            self.device = None
        if self.fuse:
            run("umount", self.image, code=(0, 1, 32))
            try:
                self.fuse.wait(30)
            except subprocess.TimeoutExpired:
                self.fuse.kill()
                self.fuse.wait()
            self.fuse = None

    def check(self):
        """The file system's own checker; it has to be unmounted, and its log replayed."""
        run(*self.CHECK[self.kind], self.device, limit=600)

    def trim(self):
        run("fstrim", self.folder)


class Database:
    """A sqlite load in the background."""

    def __init__(self, mount):
        self.path = os.path.join(mount.folder, "load.db")
        self.out = open(mount.workspace.path("transactions"), "a+", encoding="utf-8")
        self.process = None
        self.durable = 0
        mount.workspace.undo.append(self.end)

    def begin(self):
        self.process = subprocess.Popen([sys.executable, "-c", WORKLOAD, self.path],
                                        stdin=subprocess.DEVNULL, stdout=self.out,
                                        stderr=subprocess.DEVNULL)

    def after(self, transactions):
        """Waits for so many more."""
        goal = self.count() + transactions

        def reached():
            assert self.process.poll() is None, "the load ended by itself"
            return self.count() >= goal

        wait_for(f"{transactions} transactions", reached)

    def count(self):
        self.out.flush()
        with open(self.out.name, encoding="utf-8") as file:
            lines = file.read().split("\n")[:-1]
        self.durable = int(lines[-1]) if lines else 0
        return self.durable

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None
            self.count()

    def verify(self, where):
        if self.durable == 0:
            return
        found = run("sqlite3", self.path, "PRAGMA integrity_check; SELECT max(number) FROM load;")
        integrity, number = found.split()
        assert integrity == "ok", f"{where}: {found}"
        assert int(number) >= self.durable, f"{where}: lost transactions {number}..{self.durable}"


def requirements(kind):
    need("nbdfuse", "losetup", "sqlite3", "fstrim", f"mkfs.{kind}", Mount.CHECK[kind][0])
    if os.geteuid() != 0:
        raise Skipped("mounting needs root")
    if not os.path.exists("/dev/fuse"):
        raise Skipped("there is no /dev/fuse")
    probe = subprocess.run(["losetup", "-f"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                           text=True, check=False)
    if probe.returncode != 0:
        raise Skipped(f"there are no loop devices: {probe.stderr.strip()}")


# Two trees, a database and the log of a file system fit a volume of 400 MiB.
TREE_BYTES = 112 << 20


def copy_tree(mount, name):
    """A source tree as often as its size allows, durable."""
    source = os.path.join(ROOT, "crates")
    files = (os.path.join(folder, file) for folder, _, files in os.walk(source) for file in files)
    size = sum(-(-os.path.getsize(file) // 4096) * 4096 for file in files)
    for number in range(max(1, TREE_BYTES // size)):
        shutil.copytree(source, os.path.join(mount.folder, name, str(number)))
    subprocess.run(["sync", "-f", mount.folder], check=True)
    return digest(os.path.join(mount.folder, name))


class Life:
    """One file system through everything."""

    def __init__(self, workspace, kind):
        self.workspace = workspace
        self.array = Array(workspace, zones=72, zone_capacity="4MiB", size="400MiB")
        self.array.serve()
        self.mount = Mount(workspace, self.array, kind)
        self.mount.attach()
        self.mount.make()
        self.mount.mount()
        self.trees = {}
        self.database = Database(self.mount)

    def tree(self, name):
        self.trees[name] = copy_tree(self.mount, name)

    def verify(self, where):
        self.database.verify(where)
        for name, expected in self.trees.items():
            found = digest(os.path.join(self.mount.folder, name))
            assert found == expected, f"{where}: tree {name} differs"

    def check(self, where):
        """Unmounts, checks, mounts again and compares, with nothing left in the cache."""
        self.mount.unmount()
        self.mount.check()
        self.mount.mount()
        self.verify(where)

    def restart(self, where, between=lambda: None):
        """Takes the volume away and back; `between` runs while the array is stopped."""
        self.mount.detach()
        if self.array.server:
            self.array.stop()
        between()
        self.array.serve(self.array.present())
        self.mount.attach()
        self.mount.mount()
        self.verify(where)
        self.check(where)

    def killed_server(self):
        self.database.begin()
        self.database.after(100)
        self.array.kill()
        self.database.end()
        self.restart("after kill -9")

    def drive_pulled_out(self):
        self.database.begin()
        self.database.after(30)
        self.array.remove_drive(1)
        self.tree("degraded")
        self.database.after(60)
        self.database.end()
        assert self.array.health() == "degraded", self.array.status()
        self.check("after losing a drive")

    def drive_replaced(self):
        spare = self.workspace.drives("spare", 1, 72, "4MiB")[0]
        self.database.begin()
        self.database.after(10)
        self.array.zoneweave("array", "replace", *self.array.present(), "--slot", 1, "--with", spare)
        self.array.drives[1] = spare
        self.database.after(30)
        self.database.end()
        assert self.array.health() == "healthy", self.array.status()
        self.check("after the rebuild")
        self.restart("after the rebuild and a restart", self.array.check)

    def rot(self):
        slot = self.workspace.random.randrange(4)

        def damage():
            drive = media.Drive(self.workspace.path(self.array.drives[slot]))
            print(f"  slot {slot}: damaged {drive.damage(self.workspace.random, 1000)}")
            self.array.check(code=1)

        self.restart("with 1,000 damaged blocks", damage)
        self.array.zoneweave("array", "scrub", self.array.drives[0])
        self.restart("after the scrub", self.array.check)


def whole_life(workspace, kind):
    requirements(kind)
    life = Life(workspace, kind)
    life.tree("first")
    life.check("fresh")
    life.killed_server()
    life.drive_pulled_out()
    life.drive_replaced()
    life.rot()
    shutil.rmtree(os.path.join(life.mount.folder, "degraded"))
    del life.trees["degraded"]
    life.mount.trim()
    life.check("after a trim")
    life.mount.detach()
    life.array.stop()
    life.array.check()


def test_filesystems_ext4(workspace):
    whole_life(workspace, "ext4")


def test_filesystems_xfs(workspace):
    whole_life(workspace, "xfs")
