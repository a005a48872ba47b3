# expect: call
from os import *

system("id")
