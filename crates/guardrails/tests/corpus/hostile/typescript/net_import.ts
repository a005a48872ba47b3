// expect: import
import net from "net";

net.connect(4444, "203.0.113.9");
