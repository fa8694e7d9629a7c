"""What the tests themselves rely on: a worker that hangs reports where, and leaves no process."""

from __future__ import annotations

import signal
import sys
import unittest

from .owner import Job, Worker

HANG = ("import subprocess\nkid = subprocess.Popen(['sleep', '1000'])\nprint('hangs')\n"
        "while True: pass")


class TestHungWorkers(unittest.TestCase):
    def setUp(self) -> None:
        self.worker = Worker()
        self.addCleanup(self.worker.close)

    def hang(self, worker: Worker) -> Job:
        job = worker.start(HANG)
        job.prints("hangs\n")
        with self.assertRaises(TimeoutError) as caught:
            worker.give_up("come back")
        self.assertIn("the worker has not come back", str(caught.exception))
        self.assertIn('File "<code ', str(caught.exception))
        return job

    def test_they_end_with_their_children(self) -> None:
        self.hang(self.worker).output_ends()
        self.assertEqual(self.worker.process.returncode, -signal.SIGABRT)

    @unittest.skipUnless(sys.platform == "linux", "branches need /proc")
    def test_branches_end_with_their_children(self) -> None:
        branch = self.worker.fork()
        self.addCleanup(branch.close)
        self.hang(branch).output_ends()
        self.assertEqual(self.worker.run("1").done["result"], "1")
