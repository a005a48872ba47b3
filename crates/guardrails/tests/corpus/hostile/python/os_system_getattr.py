# expect: call
import os

getattr(os, "sys" + "tem")("uname -a")
