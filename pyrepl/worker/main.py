"""The worker's loop: one command at a time, in the main thread.

Order at start: the channel and hello, and while the owner sends the first command, everything that
user code must find in place (streams, input, hooks). What is seldom needed is loaded on its first
use.
"""

from __future__ import annotations

import sys
from _socket import socket

from .channel import Channel
from .descriptors import move_high
from .streams import Streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .execute import Executor
    from .protocols import Fields
    from .session import Session

DESCRIPTOR = 3  # the channel has this number when the worker starts


class Commands:
    """The commands that the owner can send. Each method serves the command of its name."""

    def __init__(self, session: Session, executor: Executor) -> None:
        self.session, self.executor = session, executor
        self.by_name = {"exec": self.exec, "sync": self.sync, "variables": self.variables,
                        "imported": self.imported, "exit": self.exit, "fork": self.fork}

    def exec(self, fields: Fields) -> None:
        self.executor.job(fields, self.session.channel.rights(fields))

    def sync(self, fields: Fields) -> None:
        self.session.interrupts.sync()
        self.session.channel.send("sync", n=fields["n"])

    def variables(self, fields: Fields) -> None:
        from .variables import listing
        self.session.channel.send("variables", n=fields["n"], **listing(self.session.names, fields.get("pattern", "")))

    def imported(self, fields: Fields) -> None:
        from .names import modules
        found = [name for name in fields["modules"] if name in modules]
        self.session.channel.send("imported", n=fields["n"], modules=found)

    def fork(self, fields: Fields) -> None:
        from .branch import fork
        fork(self.session, self.executor.forks, fields, self.session.channel.rights(fields),
             self.executor.evaluator.ending_of)

    def exit(self, fields: Fields) -> None:
        from .exit import exit_cleanly
        exit_cleanly(self.session)

    def serve(self) -> None:
        """Serve commands until the channel ends."""
        channel = self.session.channel
        while True:
            op, fields = channel.take(self.executor.evaluator.ending_of)
            if op != "exec":
                self.executor.evaluator.reserve.clear()  # no user code runs that could take it
            command = self.by_name.get(op)
            if command is None:
                channel.send("unsupported", op=op, n=fields.get("n", 0))
            else:
                command(fields)


def run(token: str) -> None:
    """Send hello, then serve commands until the channel ends."""
    streams = Streams()
    channel = Channel(socket(fileno=move_high(DESCRIPTOR)), token, on_broken=streams.flush_all)
    version = "%d.%d.%d" % sys.version_info[:3]
    channel.send("hello", version=version)
    from . import hooks
    from .execute import Executor
    from .forks import Forks
    from .session import Session
    session = Session(channel, streams)
    forks = Forks(session)
    session.install()
    forks.install()
    hooks.install(session)
    Commands(session, Executor(session, forks)).serve()
