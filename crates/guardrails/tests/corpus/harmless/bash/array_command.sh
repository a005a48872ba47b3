options=(--sort=size --reverse)
listing=(ls -l "${options[@]}")
"${listing[@]}" .
