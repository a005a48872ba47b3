# expect: break-out
docker run -v /:/host --privileged alpine chroot /host
