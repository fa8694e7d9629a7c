"""Branches: what a worker forks off shares with it, and what it must not share."""

from __future__ import annotations

import os
import signal
import shutil
import subprocess
import sys
import tempfile
import unittest
from importlib.util import find_spec
from time import monotonic
from typing import Any

from ..threads import PYTHON, gpu, reason
from .owner import Branch, Refused, Worker


@unittest.skipUnless(sys.platform == "linux", "branches need /proc")
class TestBranch(unittest.TestCase):
    def setUp(self) -> None:
        self.worker = Worker()
        self.addCleanup(self.worker.close)
        self.directory = self.enterContext(tempfile.TemporaryDirectory())

    if sys.version_info < (3, 11):
        def enterContext(self, cm: Any) -> Any:
            self.addCleanup(cm.__exit__, None, None, None)
            return cm.__enter__()

    def fork(self, of: Worker | None = None, session: str = "base") -> Branch:
        branch = (of or self.worker).fork(session)
        self.addCleanup(branch.close)
        return branch

    def refused(self) -> str:
        with self.assertRaises(Refused) as caught:
            self.fork()
        return str(caught.exception)

    def result(self, worker: Worker, code: str) -> Any:
        result = worker.run(code)
        self.assertEqual(result.done["end"], "returned", result)
        return result.done.get("result")

    def test_two_namespaces(self) -> None:
        self.worker.run("from __future__ import annotations\nstate = [1]")
        branch = self.fork()
        self.worker.run("state.append('parent')")
        self.assertEqual(self.result(branch, "state.append('branch'); state"), "[1, 'branch']")
        self.assertEqual(self.result(self.worker, "state"), "[1, 'parent']")
        self.assertEqual(self.result(branch, "def f(a: nowhere): pass\nf.__annotations__"),
                         "{'a': 'nowhere'}")
        deep = self.fork(branch, "twig")
        self.assertEqual(self.result(deep, "state.append('deep'); state"), "[1, 'branch', 'deep']")
        self.assertEqual(self.result(branch, "state"), "[1, 'branch']")

    def test_terminal_and_process_session_are_its_own(self) -> None:
        ids = "import os; os.getsid(0) == os.getpid() == os.getpgrp() == os.tcgetpgrp(0)"
        branch = self.fork()
        self.assertEqual(self.result(branch, ids), "True")
        code = "import subprocess; subprocess.getoutput('echo $ASYNC_REPL_JOB; tty')"
        self.assertEqual(self.result(branch, code), "\"the branch's\\n%s\"" % self.result(
            branch, "os.ttyname(0)").strip("'"))

    def test_output_goes_to_its_own_jobs(self) -> None:
        self.worker.run("import sys\nprint('before')\nprint('held', end='')")
        branch = self.fork()
        both = "print('mine'); print('e', file=sys.stderr)"
        self.assertEqual(branch.run(both)[1:], ("mine\n", "e\n"))
        self.assertEqual(branch.run("import os; os.write(1, b'raw')").out, "raw")
        self.assertEqual(self.worker.run("print('theirs')").out, "theirs\n")

    def test_the_pipes_of_the_parents_jobs_end(self) -> None:
        first = self.worker.start("print('one')")
        first.end()
        self.fork()
        self.worker.run("")
        self.worker.run("")
        first.output_ends()

    def test_questions_and_interrupts(self) -> None:
        branch = self.fork()
        job = branch.start("print(input('who? '))")
        asked = branch.event("input", job.id)
        branch.send("input", n=asked["n"], line="me")
        self.assertEqual(job.end().out, "who? me\n")
        self.assertEqual(self.worker.run("1").done["result"], "1")

    def test_the_end_of_either_leaves_the_other(self) -> None:
        self.worker.run("x = 5")
        branch, other = self.fork(), self.fork()
        branch.start("import os; os.abort()")
        with self.assertRaises(EOFError):
            branch.event("done")
        self.assertEqual(self.result(self.worker, "x"), "5")
        self.worker.send("exit")
        with self.assertRaises(EOFError):
            self.worker.event("done")
        self.assertEqual(self.result(other, "x"), "5")

    def test_children_of_the_parent(self) -> None:
        self.worker.run("import subprocess\nkid = subprocess.Popen(['sleep', '1000'])\n"
                        "done = subprocess.Popen(['true']); done.wait()")
        self.addCleanup(self.worker.run, "kid.kill()")
        pid = self.result(self.worker, "kid.pid")
        branch = self.fork()
        self.assertIn("child %s (sleep)" % pid, branch.shared)
        error = "ChildProcessError: pid %s belongs to session base" % pid
        for call in ("kid.poll()", "kid.wait()", "kid.communicate()", "kid.kill()"):
            self.assertEqual(branch.run(call).done.get("error"), error, call)
        self.assertEqual(self.result(branch, "done.poll()"), "0")
        code = "subprocess.run(['sh', '-c', 'exit 3']).returncode"
        self.assertEqual(self.result(branch, code), "3")
        branch.run("own = subprocess.Popen(['sleep', '1000'])")
        self.addCleanup(branch.run, "own.kill(); own.wait()")
        deep = self.fork(branch, "twig")
        self.assertEqual(deep.run("kid.poll()").done.get("error"), error)
        own = self.result(branch, "own.pid")
        self.assertEqual(deep.run("own.poll()").done.get("error"),
                         "ChildProcessError: pid %s belongs to session twig" % own)
        self.assertEqual(self.result(branch, "own.poll()"), None)
        self.assertEqual(self.result(self.worker, "kid.poll()"), None)

    def test_files_have_offsets_of_their_own(self) -> None:
        path = os.path.join(self.directory, "lines")
        with open(path, "w") as file:
            file.writelines("%d\n" % n for n in range(9999))
        self.worker.run("f = open(%r); first = f.readline()\nout = open(%r, 'a+')\n"
                        "held = out.write('parent\\n')" % (path, path + ".out"))
        branch = self.fork()
        self.assertIn("file %s.out, open for writing" % path, branch.shared)
        self.assertEqual(self.result(branch, "len(f.readlines())"), "9998")
        self.assertEqual(self.result(self.worker, "len(f.readlines())"), "9998")
        branch.run("out.write('branch\\n'); out.flush()")
        self.worker.run("out.flush()")
        with open(path + ".out") as file:
            self.assertEqual(file.read(), "parent\nbranch\n")
        inherited = "import os; [os.get_inheritable(each.fileno()) for each in (f, out)]"
        self.assertEqual(self.result(branch, inherited), "[False, False]")

    def test_random_numbers_continue(self) -> None:
        self.worker.run("import random\nrandom.seed(1)")
        branch = self.fork()
        self.assertEqual(self.result(branch, "random.random()"),
                         self.result(self.worker, "random.random()"))

    def test_nothing_of_the_parent_ends_with_a_branch(self) -> None:
        trace = os.path.join(self.directory, "trace")
        self.worker.run(
            "import atexit, tempfile, weakref\n"
            "def note(text):\n    with open(%r, 'a') as file: file.write(text)\n"
            "class Ends:\n    def __init__(self, text): self.text = text\n"
            "    def __del__(self): note(self.text)\n"
            "atexit.register(note, 'atexit ')\nends, kept = Ends('del '), Ends('kept')\n"
            "weakref.finalize(kept, note, 'finalize ')\ntd = tempfile.TemporaryDirectory()\n"
            "class Hidden: pass\nhidden = Hidden()\nhidden.file = open(%r, 'a')\n"
            "written = hidden.file.write('once')" % (trace, trace + ".hidden"))
        branch = self.fork()
        branch.run("atexit.register(note, 'own handler ')\nmine = Ends('own object ')\n"
                   "weakref.finalize(Ends, note, 'own finalizer ')\n"
                   "late = open(%r, 'w'); held = late.write('late')" % (trace + ".late"))
        branch.exit()
        with open(trace) as file:
            self.assertEqual(sorted(file.read().split("own ")),
                             ["", "finalizer ", "handler ", "object "])
        with open(trace + ".late") as file:
            self.assertEqual(file.read(), "late")
        with open(trace + ".hidden") as file:
            self.assertEqual(file.read(), "")
        self.assertEqual(self.result(self.worker, "import os; os.path.isdir(td.name)"), "True")
        self.worker.run("hidden.file.flush()")
        with open(trace + ".hidden") as file:
            self.assertEqual(file.read(), "once")

    def test_pending_tasks_refuse(self) -> None:
        self.worker.run("import asyncio\ntask = asyncio.create_task(asyncio.sleep(1000))")
        self.assertIn("unfinished tasks of the event loop: 1", self.refused())
        self.worker.run("task.cancel()\nawait asyncio.sleep(0)")
        self.fork()
        self.worker.run("server = await asyncio.start_server(print, '127.0.0.1', 0)")
        self.assertIn("servers or connections", self.refused())

    def test_an_idle_loop_is_forked(self) -> None:
        self.worker.run("import asyncio\nawait asyncio.sleep(0)\nlock = asyncio.Lock()")
        branch = self.fork()
        self.assertEqual(branch.shared, [])  # each has its own self-pipe
        for worker in (branch, self.worker, branch):
            code = "import threading\nloop = asyncio.get_event_loop()\nevent = asyncio.Event()\n" \
                "thread = threading.Thread(target=loop.call_soon_threadsafe, args=(event.set,))\n" \
                "thread.start()\nawait asyncio.wait_for(event.wait(), 60)\nthread.join()\n'woken'"
            self.assertEqual(self.result(worker, code), "'woken'")

    def test_threads_refuse(self) -> None:
        self.worker.run("import threading\nstop = threading.Event()\n"
                        "thread = threading.Thread(target=stop.wait, name='holder')\n"
                        "thread.start()")
        reason = self.refused()
        self.assertIn("a thread runs that would be missing after a fork (holder)", reason)
        self.assertIn("or run the code again in a new session", reason)
        self.worker.run("stop.set(); thread.join()")
        self.fork()
        self.worker.run("from concurrent.futures import ThreadPoolExecutor\n"
                        "pool = ThreadPoolExecutor(2)\npool.submit(int).result()")
        self.assertIn("(ThreadPoolExecutor-0_0); end what runs by executor.shutdown()",
                      self.refused())
        self.worker.run("pool.shutdown()")
        branch = self.fork()
        code = "with ThreadPoolExecutor(2) as pool: print(list(pool.map(abs, [-1])))"
        self.assertEqual(branch.run(code).out, "[1]\n")

    def test_threads_that_their_library_starts_again_are_no_obstacle(self) -> None:
        package = os.path.join(self.directory, "tqdm")
        os.mkdir(package)
        with open(os.path.join(package, "__init__.py"), "w"):
            pass  # else a tqdm that is installed would be preferred
        with open(os.path.join(package, "_monitor.py"), "w") as file:
            file.write("from threading import Event, Thread\nclass TMonitor(Thread):\n"
                       "    def __init__(self):\n        super().__init__(daemon=True)\n"
                       "        self.was_killed = Event(); self.start()\n"
                       "    def run(self): self.was_killed.wait()\n")
        self.worker.run("import asyncio, sys; sys.path.insert(0, %r)\n"
                        "from tqdm._monitor import TMonitor; monitor = TMonitor()\n"
                        "await asyncio.to_thread(abs, -1)" % self.directory)
        branch = self.fork()
        for worker in (branch, self.worker, branch):
            self.assertEqual(self.result(worker, "await asyncio.to_thread(abs, -2)"), "2")
            self.assertEqual(self.result(worker, "monitor.is_alive()"), "False")

    @unittest.skipUnless(find_spec("joblib"), "joblib is not installed")
    def test_an_idle_pool_of_joblib_is_no_obstacle(self) -> None:
        self.worker.run("import joblib\n"
                        "def double(): return joblib.Parallel(2)([joblib.delayed(abs)(-2)] * 4)")
        self.assertEqual(self.result(self.worker, "double()"), "[2, 2, 2, 2]")
        branch = self.fork_when_ended()
        for worker in (branch, self.worker, branch):
            self.assertEqual(self.result(worker, "double()"), "[2, 2, 2, 2]")
        for worker in (branch, self.worker):
            self.fork_when_ended(worker)  # ends the pool, whose processes would outlive it

    def test_pools_of_loky(self) -> None:
        found = [name for name in ("joblib", "loky") if find_spec(name)]
        if not found:
            self.skipTest("neither loky nor joblib is installed")
        for name in found:
            module = {"joblib": "joblib.externals.loky"}.get(name, name)
            self.worker.run("import time; from %s import get_reusable_executor as pool" % module)
            self.assertEqual(self.result(self.worker, "pool(1).submit(abs, -1).result()"), "1")
            self.fork_when_ended()
            self.worker.run("pending = pool(1).submit(time.sleep, 1000)")
            reason = self.refused()
            self.assertIn("ExecutorManagerThread", reason)
            self.assertIn("end what runs by get_reusable_executor().shutdown() (of joblib.", reason)
            self.worker.run("pool(1).shutdown(kill_workers=True); mine = pool(1)")
            self.assertEqual(self.result(self.worker, "mine.submit(abs, -1).result()"), "1")
            self.assertIn("ExecutorManagerThread", self.refused())  # and its user notices nothing
            self.assertEqual(self.result(self.worker, "mine.submit(abs, -2).result()"), "2")
            self.worker.run("pool(1).shutdown()")
            self.fork()

    def fork_when_ended(self, of: Worker | None = None) -> Branch:
        """Fork, again if processes took longer to end than a fork waits for them."""
        until = monotonic() + 60
        while True:
            try:
                return self.fork(of)
            except Refused:
                if monotonic() > until:
                    raise

    def test_work_of_asyncio_that_nobody_awaits_is_finished(self) -> None:
        self.worker.run(
            "import asyncio, threading; event = threading.Event()\nasync def start():\n"
            "    return asyncio.get_running_loop().run_in_executor(None, event.wait)\n"
            "future = await start()")
        self.assertIn("(asyncio_0); end what runs by", self.refused())
        self.assertEqual(self.result(self.worker, "event.set(); await future"), "True")
        self.fork()

    @unittest.skipUnless(shutil.which("gcc"), "compiles a library")
    def test_openmp_computes_in_both(self) -> None:
        path = os.path.join(self.directory, "sum")
        with open(path + ".c", "w") as file:
            file.write("int sum(void) {\n    int n = 0;\n"
                       "    #pragma omp parallel num_threads(4) reduction(+:n)\n"
                       "    n += 1;\n    return n;\n}\n")
        subprocess.run(["gcc", "-shared", "-fPIC", "-fopenmp", "-o", path + ".so", path + ".c"],
                       check=True)
        self.worker.run("import ctypes, os; library = ctypes.CDLL(%r)" % (path + ".so"))
        code = "library.sum(), len(os.listdir('/proc/self/task'))"
        self.assertEqual(self.result(self.worker, code), "(4, 4)")
        branch = self.fork()
        for worker in (branch, self.worker, branch):
            self.assertEqual(self.result(worker, code), "(4, 4)")

    def test_a_refusal_names_threads_and_what_ends_them(self) -> None:
        self.assertIsNone(reason({}, []))
        self.assertEqual(
            reason({"_duckdb.cpython-311.so": 9, PYTHON: 1}, ["worker"]),
            "10 threads run that would be missing after a fork (_duckdb, worker); end what runs by "
            "executor.shutdown(), Thread.join(), Pool.terminate(), con.close(), "
            "duckdb.default_connection().close(), or run the code again in a new session, by from_job "
            "with rerun=true")
        self.assertEqual(reason({"_polars.so": 1}, []),
                         "a thread runs that would be missing after a fork (_polars); "
                         "run the code again in a new session, by from_job with rerun=true")

    def test_an_open_gpu_is_found(self) -> None:
        self.assertEqual(gpu(["/tmp/x", "/dev/nvidia0", "/dev/null"]), "/dev/nvidia0")
        self.assertEqual(gpu(["/dev/dri/renderD128"]), "/dev/dri/renderD128")
        self.assertIsNone(gpu(["/home/u/dev/nvidia0", "/dev/null", "socket:[1]"]))

    def test_what_is_shared_is_listed(self) -> None:
        self.worker.run(
            "import socket, sqlite3, mmap\nserver = socket.create_server(('127.0.0.1', 0))\n"
            "client = socket.create_connection(server.getsockname())\n"
            "db = sqlite3.connect(%r); db.execute('create table t (a)'); db.commit()\n"
            "written = open(%r, 'w')\n"
            "import multiprocessing; lock = multiprocessing.Lock()\n"
            "memory = mmap.mmap(-1, 1 << 16)" % (os.path.join(self.directory, "d.sqlite"),
                                                os.path.join(self.directory, "log")))
        port = self.result(self.worker, "server.getsockname()[1]")
        shared = self.fork().shared
        for text in ("socket listening on 127.0.0.1:" + port,
                     "socket connected to 127.0.0.1:" + port,
                     "SQLite database " + os.path.join(self.directory, "d.sqlite"),
                     "file %s, open for writing" % os.path.join(self.directory, "log"),
                     "shared memory /dev/zero (deleted)"):
            self.assertIn(text, shared)
        self.assertIn("multiprocessing lock /dev/shm/sem.", " ".join(shared))

    def test_what_is_shared_with_whom(self) -> None:
        path = os.path.join(self.directory, "log")
        with open(path + ".map", "wb") as file:
            file.write(b"x" * 4096)
        self.worker.run("import subprocess, mmap\nout, source = open(%r, 'w'), open(%r, 'r+b')\n"
                        "memory = mmap.mmap(source.fileno(), 4096)\n"
                        "kid = subprocess.Popen(['sleep', '1000'])" % (path, path + ".map"))
        kid = self.result(self.worker, "kid.pid")
        self.addCleanup(os.kill, int(kid), signal.SIGKILL)
        branch = self.fork()
        self.assertEqual([text for text in branch.shared if ".map" in text],
                         ["shared memory %s.map" % path])
        branch.run("own = open(%r, 'w')" % (path + ".own"))
        written = "file %s, open for writing" % path
        self.assertEqual(self.fork(branch, "twig").shared, [
            written + "; also with base", "file %s.own, open for writing" % path,
            "shared memory %s.map; also with base" % path,
            "child %s (sleep) of session base" % kid])
        self.worker.run("out.close()")
        self.assertIn(written, self.fork(branch, "twig").shared)
        self.worker.start("import os; os.abort()")
        self.assertTrue(self.worker.ended())
        deep = self.fork(branch, "twig")
        self.assertEqual(deep.shared, [
            written, "file %s.own, open for writing" % path, "shared memory %s.map" % path])
        self.assertEqual(deep.run("kid.poll()").done.get("error"), "ChildProcessError: pid %s "
                         "belonged to the Python of session base, which has ended" % kid)

    def test_processes_that_user_code_forks_stay_ordinary(self) -> None:
        branch = self.fork()
        code = "import os\npid = os.fork()\n" \
            "if pid: status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n" \
            "else: print('child')\n" \
            "if pid: print(status)"
        self.assertEqual(branch.run(code).out, "child\n0\n")
        code = "import multiprocessing as mp\nwith mp.Pool(2) as p: print(p.map(abs, [-1, -2]))"
        self.assertEqual(branch.run(code).out, "[1, 2]\n")
