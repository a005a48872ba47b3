# expect: introspection
import sys

frame = sys._getframe(1)
print(frame.f_globals)
