// expect: dynamic-code
(0, eval)(read_file("sum.txt"));
