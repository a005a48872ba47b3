# expect: call
import os

if (starter := os.system):
    starter("id")
