"""The worker's loop: one command after the other, in the main thread.

Order at start: the channel and hello, and while the owner sends the first
command, all that user code will find in place (streams, input, hooks). What is
seldom needed is loaded on its first use.
"""

import sys
from posix import getpid

from . import channel


def exec_(message):
    from . import execute
    execute.job(message, channel.rights(message))


def sync(message):
    channel.send(ev="sync", n=message.get("n"))


def variables(message):
    from . import names, variables
    listed, total = variables.listing(names.namespace, message.get("pattern"))
    channel.send(ev="variables", n=message.get("n"), vars=listed, total=total)


def imported(message):
    from . import names
    found = [name for name in message.get("modules", ()) if name in names.modules]
    channel.send(ev="imported", n=message.get("n"), modules=found)


commands = {"exec": exec_, "sync": sync, "variables": variables, "imported": imported}


def run():
    """Says hello and serves until the channel ends."""
    version = "%d.%d.%d" % sys.version_info[:3]
    channel.send(ev="hello", pid=getpid(), version=version, executable=sys.executable or "")
    from . import console, execute, forks, hooks, streams, terminal
    terminal.keep()
    streams.install()
    console.install()
    forks.install()
    hooks.install()
    while True:
        message = channel.take()
        command = commands.get(message.get("op"))
        if command is None:
            channel.send(ev="unsupported", op=message.get("op"), n=message.get("n"))
        else:
            command(message)
