ls -la | tee listing.txt | wc -l
