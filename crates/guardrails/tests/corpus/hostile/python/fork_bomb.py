# expect: destructive
import os

while True:
    os.fork()
