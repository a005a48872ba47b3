# expect: call
import sys

sys.modules["os"].system("id")
