# expect: call
import posix

posix.system("id")
