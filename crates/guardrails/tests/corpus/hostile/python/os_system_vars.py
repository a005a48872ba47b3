# expect: call
import os

vars(os)["popen"]("id")
