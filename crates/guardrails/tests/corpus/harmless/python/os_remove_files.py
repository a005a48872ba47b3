import glob
import os

for path in glob.glob("/workspace/cache/*.tmp"):
    os.remove(path)
