# Session "lab", exported by async-repl; sha256 of what follows: 772bad10e998744e60e7952835df26f15f297fdf0426cd1d187cace0c6e40f31
from __future__ import annotations
from __future__ import division, generators

# %% [markdown]
# 2 earlier jobs are left out.

# %% 01A completed
import sys
print('a < b & c')
print('é', file=sys.stderr)

# %% 01B completed
# This cell awaits at top level: Jupyter and IPython run it, a plain script needs asyncio.run.
await thing()

# %% 01C failed (ZeroDivisionError: division by zero)
1/0

# %% 01D completed
plot()

# %% 01E failed (SyntaxError: invalid syntax)
# This is no valid Python, so it is a comment here:
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

