# expect: call
exec("import os\nos.system('id')")
