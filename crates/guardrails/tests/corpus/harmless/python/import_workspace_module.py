import sys

sys.path.append("/workspace/lib")
import helpers

print(helpers.clean(" x "))
