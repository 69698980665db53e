"""What the tests share: a scratch directory, an array in it, its server, and running commands.

Nothing here waits for a length of time, but for an event with a generous limit: machines differ.
"""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGET = os.path.join(ROOT, os.environ.get("CARGO_TARGET_DIR", "target"))
BINARY = os.environ.get("ZONEWEAVE", os.path.join(TARGET, "release", "zoneweave"))
SEED = int(os.environ.get("SEED") or random.SystemRandom().randrange(1 << 32))
ROUNDS = int(os.environ.get("ROUNDS") or 20)
LIMIT_SECONDS = 120
BLOCK = 4096


class Skipped(Exception):
    """This machine cannot run the test."""


def skip_part(workspace, reason):
    """Says that this machine cannot run a part of the test."""
    print(f"SKIPPED part of {workspace.name}: {reason}")


def require_binary():
    if not os.access(BINARY, os.X_OK):
        raise SystemExit(f"{BINARY} is missing: run `cargo build --release`")


def seeded(name):
    """Random choices of one test: the same for the same seed, whatever other tests ran."""
    return random.Random(f"{SEED} {name}")


def run(*command, code=0, limit=LIMIT_SECONDS, **options):
    """Runs a command, checks how it ends, and returns what it printed on both streams."""
    words = [str(word) for word in command]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          stdin=subprocess.DEVNULL, timeout=limit, check=False, **options)
    expected = code if isinstance(code, (tuple, list)) else (code,)
    if done.returncode not in expected:
        raise AssertionError(f"{' '.join(words)} ended with {done.returncode}, not {code}:\n"
                             f"{done.stdout}")
    return done.stdout


def need(*tools):
    """Skips the test where a program is missing."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    missing = [tool for tool in tools if shutil.which(tool, path=path) is None]
    if missing:
        raise Skipped(f"no {', '.join(missing)}; scripts/install-packages test installs them")


def wait_for(what, condition, limit=LIMIT_SECONDS):
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {limit} s in vain for {what}")
        time.sleep(0.02)


def digest(path):
    """A checksum of a file, or of every file below a directory with its name."""
    if os.path.isfile(path):
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    total = hashlib.sha256()
    for folder, folders, files in os.walk(path):
        folders.sort()
        for name in sorted(files):
            full = os.path.join(folder, name)
            total.update(f"{os.path.relpath(full, path)} {digest(full)}\n".encode())
    return total.hexdigest()


class Workspace:
    """A scratch directory; at the end everything started in it is stopped, in reverse order."""

    def __init__(self, name):
        self.name = name
        self.random = seeded(name)
        self.folder = tempfile.mkdtemp(prefix="zoneweave-")
        self.keep = False
        self.undo = []
        self.environment = dict(os.environ, ZONEWEAVE_RUNTIME_DIR=self.path("run"))
        os.mkdir(self.path("run"), 0o700)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for action in reversed(self.undo):
            try:
                action()
            except Exception as error:  # The other actions have to be taken all the same.
                print(f"  cleaning up: {error}")
        if not self.keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def zoneweave(self, *words, code=0, limit=LIMIT_SECONDS, command=(BINARY,), **variables):
        """`command`: the binary, maybe behind another command; `variables`: of the environment."""
        return run(*command, *words, code=code, limit=limit, cwd=self.folder,
                   env=dict(self.environment, **variables))

    def json(self, *words, code=0):
        """The document that a command prints on its standard output."""
        done = subprocess.run([BINARY, "--json", *words], stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.DEVNULL, timeout=LIMIT_SECONDS, check=False,
                              env=self.environment, cwd=self.folder)
        assert done.returncode == code, f"{words} ended with {done.returncode}: {done.stdout}"
        return json.loads(done.stdout)

    def drives(self, folder, count, zones, zone_capacity):
        self.zoneweave("emu", "create", folder, "--drives", count, "--zones", zones,
                       "--zone-capacity", zone_capacity)
        return [f"{folder}/drive{number}" for number in range(count)]


class Array:
    """An array, and its server if it runs."""

    def __init__(self, workspace, name="vol", drives=4, zones=64, zone_capacity="1MiB",
                 level="raid5", size="max", options=()):
        self.workspace = workspace
        self.name = name
        self.drives = workspace.drives(f"{name}-drives", drives, zones, zone_capacity)
        workspace.zoneweave("array", "create", name, *self.drives, "--level", level,
                            *(["--size", size] if size else []), *options)
        self.socket = workspace.path(f"{name}.sock")
        self.uri = f"nbd+unix:///{name}?socket={self.socket}"
        self.server = None
        self.log = open(workspace.path(f"{name}-server.log"), "ab")
        workspace.undo.append(self.kill)

    def front_end(self):
        return ["nbd", "--socket", f"unix:{self.socket}"]

    def start(self, drives=None):
        """Starts the server without waiting for it."""
        assert self.server is None, "the server runs"
        if os.path.exists(self.socket):
            os.unlink(self.socket)
        command = [BINARY, "serve", *self.front_end(), *(drives or self.drives)]
        self.log.write(f"--- {' '.join(command)}\n".encode())
        self.log.flush()
        self.server = subprocess.Popen(command, env=self.workspace.environment,
                                       cwd=self.workspace.folder, stdin=subprocess.DEVNULL,
                                       stdout=self.log, stderr=self.log)

    def serve(self, drives=None):
        """Starts the server; returns when clients can connect."""
        self.start(drives)

        def ready():
            if self.server.poll() is not None:
                raise AssertionError(f"the server ended with {self.server.returncode}; "
                                     f"{self.last_words()}")
            return self.answers()

        wait_for("the server to serve", ready)

    def answers(self):
        probe = subprocess.run(["nbdinfo", "--size", self.uri], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, check=False)
        return probe.returncode == 0

    def refused(self, drives=None, limit=LIMIT_SECONDS):
        """Starts a server that must not start; returns what it says."""
        self.start(drives)
        code = self.server.wait(limit)
        self.server = None
        assert code != 0, "the server ended without an error"
        return self.last_words()

    def last_words(self):
        with open(self.log.name, encoding="utf-8", errors="replace") as log:
            return log.read().rsplit("--- ", 1)[-1]

    def stop(self, code=0):
        """Asks the server to end, and expects it to."""
        self.server.send_signal(signal.SIGTERM)
        ended = self.server.wait(LIMIT_SECONDS)
        self.server = None
        assert ended == code, f"the server ended with {ended} on SIGTERM: {self.last_words()}"

    def kill(self):
        """kill -9."""
        if self.server is not None:
            self.server.kill()
            self.server.wait()
            self.server = None

    def size(self):
        return int(run("nbdinfo", "--size", self.uri))

    def status(self):
        return self.workspace.json("array", "status", *self.present())

    def health(self):
        """In one word, once what a crash has left incomplete is written again."""
        return self.settled(self.status)

    def settled(self, look):
        for _ in range(5000):
            health = look()["health"]
            if health != "rebuilding":
                return health
        raise AssertionError(f"it is rebuilding for ever: {look()}")

    def present(self):
        full = [os.path.join(self.workspace.folder, drive) for drive in self.drives]
        return [drive for drive, path in zip(self.drives, full) if os.path.exists(path)]

    def require_health(self):
        """No drive is out of service, missing or stale, as the server says, or else the drives."""
        self.settled(lambda: self.workspace.json("array", "status", *self.drives))
        self.zoneweave("array", "status", "--check", *self.drives)

    def zoneweave(self, *words, code=0):
        return self.workspace.zoneweave(*words, code=code)

    def check(self, code=0, drives=None):
        """The offline checker on the stopped array."""
        assert self.server is None, "the server runs"
        return self.zoneweave("array", "check", *(drives or self.present()), code=code)

    def remove_drive(self, slot):
        """Pulls a drive out: its file is gone, also for who has it open."""
        path = os.path.join(self.workspace.folder, self.drives[slot])
        os.unlink(path)
