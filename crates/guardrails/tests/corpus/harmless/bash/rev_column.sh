rev names.txt | cut -d' ' -f1 | rev
