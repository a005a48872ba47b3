xxd -l 64 image.png | head -n 4
