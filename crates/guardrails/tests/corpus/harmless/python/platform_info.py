import platform
import sys

print(platform.system(), platform.python_version(), sys.platform, sys.maxsize)
print(open("/proc/cpuinfo").read().count("processor"))
