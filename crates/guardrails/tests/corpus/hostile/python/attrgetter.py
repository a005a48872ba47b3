# expect: call
import operator
import os

operator.attrgetter("system")(os)("id")
