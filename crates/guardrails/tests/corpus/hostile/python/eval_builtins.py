# expect: dynamic-code
import builtins

print(builtins.eval(input()))
