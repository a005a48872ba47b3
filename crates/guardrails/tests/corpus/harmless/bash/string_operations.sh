path=/workspace/site/index.html
echo "${path##*/} ${path%/*} ${path//\//:} ${path^^} ${path:0:10}"
