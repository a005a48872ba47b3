# expect: call
import os

getattr(os, "".join(["p", "o", "p", "e", "n"]))("id").read()
