# expect: call
import os

getattr(os, "{}{}".format("sys", "tem"))("id")
