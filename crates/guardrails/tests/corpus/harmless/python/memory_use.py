import gc
import resource

gc.collect()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
print(open("/proc/self/status").read().splitlines()[0])
