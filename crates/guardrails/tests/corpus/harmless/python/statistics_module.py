import math
import statistics as st

values = [2.5, 3.1, 4.7, 5.0]
print(st.mean(values), st.stdev(values), math.prod(values))
