"""What runs inside a sandbox: it takes code from the host, runs it, and answers with one result.

Start reading at `agent.serve`. Two rules hold everywhere in this package:

- Standard library only, Python 3.10 to 3.14, and nothing is imported at module top that a run which succeeds does
  not need: a cold start pays for every import. That is why `typing`, `json`, `re`, `traceback` and `subprocess` are
  absent from the module tops.
- The code that runs here shares our process. Nothing it does may break a frame, and nothing it leaves behind is
  trusted: not its objects, not `sys.stdout`, not descriptors 1 and 2.
"""
