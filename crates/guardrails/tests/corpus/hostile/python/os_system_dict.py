# expect: call
import os

os.__dict__["system"]("id")
