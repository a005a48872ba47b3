# expect: call
import shutil

shutil.os.system("id")
