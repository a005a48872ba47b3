# expect: introspection
import sys

sys.settrace(lambda frame, event, argument: print(frame.f_locals))
