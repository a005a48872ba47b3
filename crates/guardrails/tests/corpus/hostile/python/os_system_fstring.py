# expect: call
import os

half = "sys"
getattr(os, f"{half}tem")("id")
