"""The channel over a socketpair, and what a worker answers over it."""

from __future__ import annotations

import array
import json
import linecache
import os
import socket
import sys
import unittest
from types import FrameType
from typing import Any

from ..channel import Channel
from .owner import TOKEN, Worker


FORGE = """import os, stat
count = 0
for fd in range(3, 1024):
    try:
        if not stat.S_ISSOCK(os.fstat(fd).st_mode): continue
    except OSError: continue
    os.write(fd, b'\\n' + b'0' * 32 + b' done {"id": "J0", "end": "exit"}\\n')
    count += 1
count"""


class TestChannel(unittest.TestCase):
    def setUp(self) -> None:
        self.owner, self.end = socket.socketpair()
        self.broken = 0
        self.channel = Channel(self.end, TOKEN, self._on_broken)
        self.addCleanup(self.owner.close)
        self.addCleanup(self.channel.leave)

    def _on_broken(self) -> None:
        self.broken += 1

    def _refuse(self, error: BaseException) -> None:
        raise error

    def test_send_frames_an_event(self) -> None:
        self.channel.send("sync", n=1)
        self.assertEqual(self.owner.recv(1000), b'\n%s sync {"n": 1}\n' % TOKEN.encode())

    def test_take_returns_messages_in_order(self) -> None:
        self.owner.sendall(b'a {}\nb {"text": "\xc3\xa9"}\nc {"n')
        self.assertEqual(self.channel.take(self._refuse), ("a", {}))
        self.assertEqual(self.channel.take(self._refuse), ("b", {"text": "é"}))
        self.owner.sendall(b'": 1}\n')
        self.assertEqual(self.channel.take(self._refuse), ("c", {"n": 1}))

    def test_long_messages(self) -> None:
        text = "x" * (1 << 17)
        self.owner.sendall(b'a {"text": "%s"}\nb {}\n' % text.encode())
        self.assertEqual(self.channel.take(self._refuse), ("a", {"text": text}))
        self.assertEqual(self.channel.take(self._refuse), ("b", {}))

    def test_descriptors_stay_with_their_message(self) -> None:
        pipes = [os.pipe() for _ in range(2)]
        for n, (_, w) in enumerate(pipes):
            rights: Any = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [w]))
            self.owner.sendmsg([b'exec {"n": %d, "fds": 1}\n' % n], [rights])
            os.close(w)
        self.channel.hold_reserve()
        for n, (r, _) in enumerate(pipes):
            _, fields = self.channel.take(self._refuse)
            fds = self.channel.rights(fields)
            self.assertEqual((fields["n"], len(fds)), (n, 1))
            self.assertFalse(os.get_inheritable(fds[0]))
            os.write(fds[0], b"%d" % n)
            self.assertEqual(os.read(r, 10), b"%d" % n)
            os.close(fds[0])
            os.close(r)

    def test_answers_go_to_open_questions_only(self) -> None:
        self.channel.unanswered[1] = "job"
        for n in (1, 2):
            self.channel.post(("input", {"n": n, "line": "x"}))
        self.assertEqual(self.channel.answers, {1: {"n": 1, "line": "x"}})
        self.assertEqual(self.channel.unanswered, {})
        fields = self.owner.recv(1 << 16).partition(b" taken ")[2]
        self.assertEqual(json.loads(fields), {"id": "job", "n": 1})

    def test_ready_takes_nothing(self) -> None:
        self.assertFalse(self.channel.ready())
        self.owner.sendall(b'a {}\n')
        for _ in range(2):
            self.assertTrue(self.channel.ready())
        self.channel.wait()
        self.assertEqual(self.channel.receive(), ("a", {}))

    def test_errors_of_signal_handlers_are_not_the_channels(self) -> None:
        class Raising:
            def recv(self, *_: object) -> bytes:
                if self.sent:
                    return b"x"
                self.sent = True
                raise TimeoutError("the user's")
            sent = False
            fileno = self.end.fileno
            recvmsg = self.end.recvmsg
            detach = self.end.detach

        self.channel.sock = Raising()  # type: ignore[assignment]
        self.owner.sendall(b'a {}\n')
        seen: list[BaseException] = []
        self.assertEqual(self.channel.take(seen.append), ("a", {}))
        self.assertEqual([str(error) for error in seen], ["the user's"])
        self.assertEqual(self.broken, 0)

    def test_a_signal_handler_that_raises_leaves_no_sender(self) -> None:
        def trace(frame: FrameType, event: str, _: object) -> Any:
            if frame.f_code is Channel.send.__code__:
                text = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
                if event == "line" and "in senders" in text:
                    raise TimeoutError("the user's")
            return trace

        self.addCleanup(sys.settrace, sys.gettrace())
        sys.settrace(trace)
        with self.assertRaises(TimeoutError):
            self.channel.send("sync", n=1)
        sys.settrace(None)
        self.assertFalse(self.channel.interrupted())

    def test_a_forked_child_says_nothing(self) -> None:
        self.channel.leave()
        self.channel.send("done")
        self.assertEqual(self.owner.recv(1000), b"")


class TestWorkersChannel(unittest.TestCase):
    def setUp(self) -> None:
        self.worker = Worker()
        self.addCleanup(self.worker.close)

    def test_unknown_operations_are_answered(self) -> None:
        self.worker.send("fly", n=7)
        answer = self.worker.event("unsupported")
        self.assertEqual((answer["op"], answer["n"]), ("fly", 7))
        self.assertEqual(self.worker.run("1").done["result"], "1")

    def test_sync_is_answered(self) -> None:
        self.worker.send("sync", n=3)
        self.assertEqual(self.worker.event("sync")["n"], 3)

    def test_events_of_user_code_are_forgeries(self) -> None:
        done = self.worker.run(FORGE).done
        self.assertEqual(done["end"], "returned")
        self.assertGreater(int(done["result"]), 0)

    def test_the_end_of_the_channel_ends_the_worker(self) -> None:
        self.assertEqual(self.worker.close(), 0)
        self.assertEqual(self.worker.process.returncode, 0)
