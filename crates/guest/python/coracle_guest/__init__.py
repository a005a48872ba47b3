"""Runs inside a sandbox: receives code from the host, runs it, and answers with one result.

Start reading at `agent.serve`. Two rules hold everywhere in this package:

- Standard library only, Python 3.10 to 3.14, and no module imports at its top anything that a successful run does not
  need: a cold start pays for every import. That is why `typing`, `json`, `re`, `traceback` and `subprocess` are not
  imported at the top.
- User code shares our process. Nothing that it does may break a frame, and nothing that it leaves behind is trusted:
  not its objects, not `sys.stdout`, not descriptors 1 and 2.
"""
