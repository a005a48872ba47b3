# expect: system-file
cat image.bin > /dev/nvme0n1
