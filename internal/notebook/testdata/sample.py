# Session "lab", exported by async-repl; sha256 of what follows: 087e11ead35fea4ef7febb78b4ec45740fc910624fb5c6c8c73819e09bf73cba
from __future__ import annotations
from __future__ import division
from __future__ import division, generators

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

# %% 01G completed

