"""A worker in a process of its own, and the part that Go plays for it."""

from __future__ import annotations

import array
import base64
import fcntl
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
from hashlib import sha256
from typing import Any, NamedTuple, NoReturn

DIRECTORY = pathlib.Path(__file__).resolve().parent.parent
TOKEN = "0123456789abcdef" * 2
PATIENCE = 60  # seconds that anything may take on a busy machine
RIGHTS = socket.CMSG_SPACE(64) + socket.CMSG_SPACE(12)  # descriptors, and who sends them


def sources() -> dict[str, str]:
    """Return the files that a worker receives, by name."""
    return {path.name: path.read_text() for path in sorted(DIRECTORY.glob("[a-z]*.py"))}


class Result(NamedTuple):
    """How a job ended."""

    done: dict[str, Any]
    out: str
    err: str


class Job:
    """A job that was sent to a worker."""

    def __init__(self, worker: Worker, id: str) -> None:
        self.worker, self.id = worker, id
        self.texts = {1: b"", 2: b""}
        self.pipes: dict[int, int] = {}  # stream -> our end

    def read(self) -> bool:
        """Read what is in the pipes now, and report whether that was anything."""
        before = sum(map(len, self.texts.values()))
        for stream, fd in self.pipes.items():
            try:
                while True:
                    data = os.read(fd, 1 << 16)
                    if not data:
                        break
                    self.texts[stream] += data
            except BlockingIOError:
                pass
        return sum(map(len, self.texts.values())) > before

    def prints(self, text: str) -> None:
        """Wait until the job has printed text."""
        while text.encode() not in self.texts[1]:
            if not select.select([self.pipes[1]], [], [], PATIENCE)[0] or not self.read():
                self.worker.give_up("printed %r" % text)

    def output_ends(self) -> None:
        """Wait until no process has the other end of the output, of which nothing is left."""
        if not select.select([self.pipes[1]], [], [], PATIENCE)[0] or self.read():
            self.worker.give_up("closed its output")

    def end(self) -> Result:
        """Wait for the end of the job."""
        done = self.worker.event("done", self.id)
        self.read()
        return Result(done, self.texts[1].decode(), self.texts[2].decode())

    def close(self) -> None:
        for fd in self.pipes.values():
            os.close(fd)


class Worker:
    """A worker that was started as Go starts it, and has said hello."""

    def __init__(self) -> None:
        files = sources()
        bootstrap = files.pop("bootstrap.py")
        self.sock, theirs = socket.socketpair()
        self.sock.settimeout(PATIENCE)
        fd = fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, 100)
        theirs.close()
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-X", "faulthandler", "-c", bootstrap], cwd="/",
            env={**os.environ, "PWD": os.getcwd()}, stdin=subprocess.DEVNULL,
            start_new_session=True, close_fds=False, preexec_fn=lambda: os.dup2(fd, 3))
        os.close(fd)
        self.pid = self.process.pid
        texts = [text.encode() for text in files.values()]
        head = repr((TOKEN, [(name, len(text)) for name, text in zip(files, texts)])) + "\n"
        body = head.encode() + b"".join(texts)
        self.sock.sendall(b"%d\n" % len(body) + body)
        self.buffer = b""
        self.files: list[int] = []  # descriptors whose event has not been read
        self.events: list[tuple[str, dict[str, Any]]] = []  # all that came
        self.jobs: list[Job] = []
        self.hello = self.event("hello")

    def event(self, name: str, id: str = "") -> dict[str, Any]:
        """Wait for an event of that name, about the job of that id."""
        while True:
            line = self.line()
            if line.startswith(TOKEN.encode()):
                said, _, fields = line[len(TOKEN) + 1:].decode().partition(" ")
                event: dict[str, Any] = json.loads(fields)
                if said == "display":
                    self.load(event)
                self.events.append((said, event))
                if said == name and event.get("id", "") == id:
                    return event

    def line(self) -> bytes:
        """Read one line, and the descriptors that come with it. Read what the last job writes."""
        end = time.monotonic() + PATIENCE
        while b"\n" not in self.buffer:
            pipes = list(self.jobs[-1].pipes.values()) if self.jobs else []
            left = max(0, end - time.monotonic())
            ready = select.select([self.sock.fileno(), *pipes], [], [], left)[0]
            if self.sock.fileno() in ready:
                self.receive()
            elif ready and self.jobs[-1].read():
                end = time.monotonic() + PATIENCE
            elif not left:  # pipes that have ended are ready all the time
                self.give_up("sent an event")
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line

    def receive(self) -> None:
        """Read what is in the channel."""
        data, ancillary, _, _ = self.sock.recvmsg(1 << 16, RIGHTS)
        if not data:
            raise EOFError("the worker closed its channel; events so far: %r" % self.events)
        self.buffer += data
        for _, kind, rights in ancillary:
            if kind == socket.SCM_RIGHTS:
                self.files += array.array("i", rights)
            else:  # SCM_CREDENTIALS, which begin with the pid
                self.pid = array.array("i", rights)[0]

    def load(self, event: dict[str, Any]) -> None:
        """Put the data of a display's items where Go would find it: inline, or in a file."""
        taken, self.files = self.files[:event["fds"]], self.files[event["fds"]:]
        for item in event["items"]:
            if "data" in item:
                item["data"] = base64.b64decode(item["data"])
                continue
            fd = taken.pop(0)
            item["data"] = os.pread(fd, os.fstat(fd).st_size, 0)
            os.close(fd)
        assert len(taken) <= 1, "more descriptors than items"
        for fd in taken:  # the worker waits for its end
            os.close(fd)

    def displays(self, job: Job) -> list[dict[str, Any]]:
        """Return what a job that has ended has shown."""
        return [e for name, e in self.events if name == "display" and e["id"] == job.id]

    def send(self, op: str, files: tuple[int, ...] = (), **fields: object) -> None:
        """Send a command, with descriptors."""
        line = (op + " " + json.dumps(fields) + "\n").encode()
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))
        self.sock.sendmsg([line], [rights] if files else [])

    def start(self, code: str, request: dict[str, Any] | None = None, **file: Any) -> Job:
        """Send a job, or one that answers a request about the namespace or runs a file."""
        job = Job(self, "J%d" % len(self.jobs))
        self.jobs.append(job)
        theirs = []
        for stream in (1, 2):
            job.pipes[stream], end = os.pipe()
            os.set_blocking(job.pipes[stream], False)
            theirs.append(end)
        fields = file if request is None else {"request": request}
        name = "<code %s>" % sha256(code.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self.send("exec", tuple(theirs), id=job.id, file=name, code=code, fds=2, **fields)
        for end in theirs:
            os.close(end)
        return job

    def run(self, code: str) -> Result:
        """Run a job to its end."""
        return self.start(code).end()

    def run_file(self, path: object, *args: str) -> Result:
        """Run a file to its end."""
        return self.start("", path=str(path), args=args).end()

    def ask(self, do: str, code: str = "", **fields: object) -> Result:
        """Send a request about the namespace and wait for its answer."""
        return self.start(code, {"do": do, **fields}).end()

    def interrupt(self) -> None:
        """Ask once for an interrupt."""
        self.process.send_signal(signal.SIGURG)

    def interrupt_to_the_end(self, job: Job) -> Result:
        """Ask for an interrupt until the job has ended, as Go does: one request may be lost."""
        over = threading.Event()

        def ask() -> None:
            while not over.wait(0.005):
                self.interrupt()

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            return job.end()
        finally:
            over.set()
            asking.join()
            self.send("sync", n=0)
            self.event("sync")

    def fork(self, session: str = "base") -> Branch:
        """Fork the worker into one of another session."""
        return Branch(self, session)

    def close(self) -> int:
        """Close the channel and return the worker's exit code."""
        self.sock.close()
        try:
            if not self.ended():
                self.give_up("ended with its channel")
        finally:
            for job in self.jobs:
                job.close()
        return self.process.wait()

    def ended(self) -> bool:
        """Wait for the end of the worker, and report whether it came."""
        try:
            self.process.wait(PATIENCE)
            return True
        except subprocess.TimeoutExpired:
            return False

    def give_up(self, what: str) -> NoReturn:
        """End the worker and its children, and fail: it has not done what it was to do.

        Its last words are its stack, by faulthandler."""
        os.kill(self.pid, signal.SIGABRT)
        self.ended()
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        texts: dict[int, bytes] = {}
        if self.jobs:
            self.jobs[-1].read()
            texts = self.jobs[-1].texts
        written = "".join("\n" + text.decode() for text in texts.values())
        raise TimeoutError("the worker has not %s, and was ended; it has written:%s\n"
                           "its last events: %r" % (what, written, self.events[-3:]))


class Refused(Exception):
    """The worker can't be forked."""


class Branch(Worker):
    """A worker that was forked off another one, and has said hello."""

    def __init__(self, parent: Worker, session: str) -> None:
        self.sock, theirs = socket.socketpair()
        self.sock.settimeout(PATIENCE)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)  # its events carry its pid
        self.buffer, self.files = b"", []
        self.master, slave = os.openpty()
        null = os.open(os.devnull, os.O_RDWR)
        parent.send("fork", (theirs.fileno(), slave, null, null), n=1, fds=4, token=TOKEN,
                    mark="the branch's", session=session)
        theirs.close()
        os.close(slave)
        os.close(null)
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.jobs: list[Job] = []
        forked = parent.event("forked")
        if "error" in forked:
            self.close()
            raise Refused(forked["error"])
        self.shared: list[str] = forked["shared"]
        self.hello = self.event("hello")

    def exit(self) -> None:
        """Have the branch exit as Python does, and wait for that."""
        self.send("exit")
        try:
            while True:
                self.line()
        except EOFError:
            pass

    def close(self) -> int:
        try:
            self.sock.shutdown(socket.SHUT_WR)
            if not self.ended():
                self.give_up("ended with its channel")
        finally:
            self.sock.close()
            os.close(self.master)
            for job in self.jobs:
                job.close()
        return 0

    def ended(self) -> bool:
        try:
            while True:
                self.receive()
        except socket.timeout:
            return False
        except (EOFError, ConnectionError):
            return True


class WorkerTestCase(unittest.TestCase):
    """Tests that share one worker."""

    worker: Worker

    @classmethod
    def setUpClass(cls) -> None:
        cls.worker = Worker()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.worker.close()
