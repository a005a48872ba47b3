# expect: call
import os

getattr(os, "%stem" % "sys")("id")
