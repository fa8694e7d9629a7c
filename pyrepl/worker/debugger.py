"""Keeps debuggers out of our frames: they step over them and don't list them."""

from .carry import like
from .interrupts import deliver


def connect(bdb):
    """Changes bdb.Bdb, on which pdb stands."""
    init, stack = bdb.Bdb.__init__, bdb.Bdb.get_stack

    def skipping_init(self, skip=None, *args, **options):
        init(self, [*(skip or ()), "async_repl.*"], *args, **options)

    def user_stack(self, frame, tb):
        frames, index = stack(self, frame, tb)
        shown = [f for f in frames if not ours(f[0])]
        index -= sum([ours(f[0]) for f in frames[:index + 1]])
        deliver()
        return shown, index

    bdb.Bdb.__init__ = like(init, skipping_init)
    bdb.Bdb.get_stack = like(stack, user_stack)


def ask_by_input(pdb):
    """Has pdb ask by input(): from 3.15 on it would draw its prompt on the terminal, and poll that for keys."""
    if hasattr(pdb, "_pyrepl_available"):
        pdb._pyrepl_available = bool  # says False


def ours(frame):
    """Reports whether a frame is ours, or the bootstrap's below them."""
    return frame.f_builtins is __builtins__ or frame.f_back is None and frame.f_code.co_filename == "<string>"
