# expect: raw-network
ssh -R 2222:localhost:22 ann@example.org
