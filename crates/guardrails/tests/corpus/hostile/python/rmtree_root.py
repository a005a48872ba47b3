# expect: destructive
import shutil

shutil.rmtree("/", ignore_errors=True)
