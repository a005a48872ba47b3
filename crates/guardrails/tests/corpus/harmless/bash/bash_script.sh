bash scripts/build.sh --fast
sh ./check.sh && echo ok
