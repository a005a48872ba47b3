ls *.png | xargs -P 4 -I{} cp {} thumbs/{}
