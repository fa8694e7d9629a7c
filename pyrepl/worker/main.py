"""The worker's loop: one command after the other, in the main thread.

Order at start: our modules first, then what user code sees (streams, hooks,
its own sys.path), then hello. The loop must outlive whatever user code does.
"""

import sys
from posix import getpid

from . import channel, console, execute, forks, hooks, names, streams, terminal


def exec_(message):
    execute.job(message, channel.rights(message))


def sync(message):
    channel.send(ev="sync", n=message.get("n"))


def variables(message):
    from . import variables
    listed, total = variables.listing(names.namespace, message.get("pattern"))
    channel.send(ev="variables", n=message.get("n"), vars=listed, total=total)


commands = {"exec": exec_, "sync": sync, "variables": variables}


def run():
    """Says hello and serves until the channel ends."""
    terminal.keep()
    streams.install()
    console.install()
    forks.install()
    hooks.install()
    channel.send(ev="hello", pid=getpid(), version="%d.%d.%d" % sys.version_info[:3], executable=sys.executable or "")
    while True:
        message = channel.take()
        command = commands.get(message.get("op"))
        if command is None:
            channel.send(ev="unsupported", op=message.get("op"), n=message.get("n"))
        else:
            command(message)
