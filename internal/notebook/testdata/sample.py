# Session "lab", exported by async-repl; sha256 of what follows: 0540a7ba6c132097c6d27f4897e3b65ba9c905c5a810420995817fc97a969dd0
from __future__ import annotations
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
1/0

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

# %% 01G completed

