"""The worker's own tests, for `python -m unittest discover -s worker/tests -t .` in pyrepl.

They are not part of what a worker receives.
"""
