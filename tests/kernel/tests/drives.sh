# What every other test stands on: the guest has our binary, and drives by the names that were asked for.
# drives: zns zns plainzns disk
# modules: nbd ublk_drv

ls -l /dev/ng* /drives
for drive in zns0 zns1 plainzns0; do
  check "$drive is a character device" test -c "/drives/$drive"
done
check "disk0 is a block device" test -b /drives/disk0
check "the network block device is there" test -b /dev/nbd0
check "ublk is there" test -c /dev/ublk-control
check "our binary runs" zoneweave --version
check "the kernel can do what we need of it" zoneweave doctor --quiet
