import io

import pandas as pd

TEXT = """name,city,points
Ann,Berlin,10
Bo,Oslo,12
Cy,Paris,7
"""
print(pd.read_csv(io.StringIO(TEXT)).sort_values("points").to_markdown())
