import socket

print(socket.gethostname(), socket.AF_INET)
