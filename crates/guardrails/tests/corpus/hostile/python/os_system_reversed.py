# expect: call
import os

name = "metsys"[::-1]
getattr(os, name)("uname -a")
