# Session "lab", exported by async-repl
from __future__ import annotations
from __future__ import division
from __future__ import division, generators
from __future__ import division

# %% [markdown]
# 2 earlier jobs are left out.

# %% 01A completed
import sys
print('a < b & c')
print('é', file=sys.stderr)

# %% 01B completed
# This cell awaits at top level: Jupyter, IPython and execute_python run it, plain Python does not.
await thing()

# %% 01C failed (ZeroDivisionError: division by zero)
try:
    if True:
    	x = (1,
    2)

    1/0
except Exception:
    __import__("traceback").print_exc()

# %% 01D completed
plot()

# %% 01E failed (SyntaxError: invalid syntax)
# Python does not run this, so it is a comment here:
# if True print(' ')
# y = (

# %% [markdown]
# **Python was restarted**: x and y were lost.
#
# Second line.

# %% 01F running
# why

x = 1
# %% no cell of its own
from __future__ import late

# %% 01H failed (exit 1; variables kept)
try:
    exec("x = \"\"\"a\nb\"\"\"; import sys; sys.exit(x)")
except SystemExit:
    __import__("traceback").print_exc()

# %% 01I failed
# This cell awaits at top level: Jupyter, IPython and execute_python run it, plain Python does not.
await f("""
""")

# %% 01J failed (exit 2; variables kept)
try:
    from sys import exit, exit as quit  # Jupyter's own would end its kernel
    y = 1; exit(2)
except SystemExit:
    __import__("traceback").print_exc()

# %% 01G completed

