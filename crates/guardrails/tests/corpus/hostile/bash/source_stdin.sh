# expect: dynamic-code
cat job.sh | source /dev/stdin
