# expect: dynamic-code
cat job.py | python3
