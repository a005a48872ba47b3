# expect: call
import random

random._os.system("id")
