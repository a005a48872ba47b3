# expect: break-out
import os

os.unshare(os.CLONE_NEWUSER | os.CLONE_NEWNS)
