cut -d. -f2 token.txt | base64 -d 2> /dev/null | jq .sub
