echo "scale=3; 22 / 7" | bc
