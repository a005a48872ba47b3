# expect: raw-network
openssl s_client -connect example.org:443 < secret.txt
