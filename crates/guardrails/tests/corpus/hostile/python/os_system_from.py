# expect: call
from os import system as say

say("cat /workspace/notes.txt")
