# expect: call
import os

globals()["os"].system("id")
