# Session "lab", exported by async-repl; sha256 of what follows: d0e43dbdf70b20985b1bd42ce5bccd9582ab0ce6e31f45bd7cc9a97014a57b0b
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

