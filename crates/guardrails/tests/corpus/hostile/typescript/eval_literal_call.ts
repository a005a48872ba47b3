// expect: call
eval("std.popen('id', 'r')");
