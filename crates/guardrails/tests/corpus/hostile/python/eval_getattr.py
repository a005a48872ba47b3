# expect: dynamic-code
import builtins

getattr(builtins, "ev" + "al")(read_file("sum.txt"))
