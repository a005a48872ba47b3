# expect: dynamic-code
import runpy

runpy.run_path("/workspace/.hidden/job.py")
