# An array as a disk of the kernel: file systems on it, the requests of the kernel, and a server that is killed.
# modules: ublk_drv crc32c_generic ext4 xfs
# tools: mkfs.ext4 e2fsck mkfs.xfs xfs_repair fio blkdiscard
# limit: 900

DRIVES="/tmp/d/drive0 /tmp/d/drive1 /tmp/d/drive2 /tmp/d/drive3"
OTHERS="/tmp/e/drive0 /tmp/e/drive1 /tmp/e/drive2 /tmp/e/drive3"
DISK=/dev/ublkb0

# Starts the server in the background, and waits until the disk is served. The output of an earlier one is deleted first:
# the job may empty its file later than it is looked at.
serve() {
  : >/tmp/serve.log
  zoneweave serve ublk $DRIVES "$@" >/tmp/serve.log 2>&1 &
  SERVER=$!
  within 60 grep -q '^ready' /tmp/serve.log || { cat /tmp/serve.log; return 1; }
}
nbd() {
  : >/tmp/serve.log
  zoneweave serve nbd $DRIVES --socket unix:/tmp/s.sock "$@" >/tmp/serve.log 2>&1 &
  SERVER=$!
  within 60 grep -q '^ready' /tmp/serve.log || { cat /tmp/serve.log; return 1; }
}
stop() { kill -TERM $SERVER && wait $SERVER; }
sectors() { cat "/sys/block/ublkb0/queue/$1"; }
# Field 12 counts discards, 16 flushes.
counted() { awk "{print \$$1}" /sys/block/ublkb0/stat; }

check "drives are made" zoneweave emu create /tmp/d --drives 4 --zones 48 --zone-capacity 8M
check "an array is made" zoneweave array create vol0 --level raid5 --size 400M $DRIVES
check "doctor knows ublk" sh -c 'zoneweave doctor | grep -q "^ublk *ready"'
check "the array is served" serve
check "it says where" grep -q $DISK /tmp/serve.log
check "it is a block device" test -b $DISK
check "blocks are of 4 KiB" test "$(sectors logical_block_size)" = 4096
check "it has a cache to be flushed" test "$(sectors write_cache)" = "write back"
check "it takes FUA" test "$(sectors fua)" = 1
check "it takes discards" test "$(sectors discard_max_bytes)" -gt 0
check "status tells of it" sh -c "zoneweave array status ${DRIVES%% *} | grep -q 'exports.*$DISK'"
refused "another server" zoneweave serve ublk $DRIVES

check "fio writes and verifies" fio --name=v --filename=$DISK --direct=1 --ioengine=io_uring --rw=randwrite \
  --bsrange=4k-512k --blockalign=4k --size=64M --io_size=16M --iodepth=32 --verify=crc32c --do_verify=1 \
  --verify_fatal=1 --fsync=64 --minimal
check "ranges are discarded" blkdiscard -o 0 -l 8M $DISK
check "and read as zeros" cmp -n 8388608 $DISK /dev/zero
check "ranges are zeroed" /bin/blkdiscard -z -o 8M -l 8M $DISK
check "they read as zeros, too" cmp -n 16777216 $DISK /dev/zero

for kind in ext4 xfs; do
  if [ $kind = ext4 ]; then force=-F; else force=-f; fi
  check "$kind is made" mkfs.$kind -q $force $DISK
  check "$kind is mounted" mount -t $kind -o discard $DISK /mnt
  dd if=/dev/urandom of=/tmp/random bs=1M count=8 2>/dev/null
  cp /tmp/random /mnt/one
  mkdir /mnt/many
  for number in $(seq 120); do echo "$number" >"/mnt/many/$number"; done
  rm /mnt/many/1?
  (cd /mnt && find . -type f -exec md5sum {} + >/tmp/sums)
  sync
  check "$kind is unmounted" umount /mnt
  check "$kind is mounted again" mount -t $kind $DISK /mnt
  check "$kind has what was written" sh -c "cd /mnt && md5sum -c /tmp/sums >/tmp/differences"
  check "$kind is put away" umount /mnt
  if [ $kind = ext4 ]; then
    check "ext4 is in order" e2fsck -fn $DISK
  else
    check "xfs is in order" xfs_repair -n $DISK
  fi
done
check "discards arrived" test "$(counted 12)" -gt 0
check "flushes arrived" test "$(counted 16)" -gt 0

# A server is killed during writes: the disk stays, and its users wait and go on.
check "xfs is mounted before the kill" mount -t xfs $DISK /mnt
fio --name=k --directory=/mnt --rw=randwrite --bs=16k --size=16M --io_size=48M --ioengine=io_uring --iodepth=16 \
  --direct=1 --fsync=32 --verify=crc32c --do_verify=1 --verify_fatal=1 --minimal >/tmp/fio.log 2>&1 &
FIO=$!
for round in 1 2 3; do
  before=$(counted 5)
  within 60 sh -c "[ \$(awk '{print \$5}' /sys/block/ublkb0/stat) -gt $((before + 100)) ]"
  if [ $round = 1 ]; then check "fio runs" kill -0 $FIO; fi
  kill -9 $SERVER
  wait $SERVER || true
  check "the disk outlives its server ($round)" test -b $DISK
  check "another server takes it over ($round)" serve
  check "and says so ($round)" grep -q 'taken over' /tmp/serve.log
done
check "fio wrote and verifies, across three servers" wait $FIO
umount /mnt
check "xfs is in order after that" xfs_repair -n $DISK
check "the server stops" stop
check "the disk is gone" test ! -e $DISK
check "so is the device" test ! -e /dev/ublkc0

check "it is served over NBD, too" nbd --ublk=7
check "the number is that" test -b /dev/ublkb7
check "the socket is there" test -S /tmp/s.sock
check "xfs is still in order" xfs_repair -n /dev/ublkb7
check "another array is made" zoneweave emu create /tmp/e --drives 4
check "of the other drives" zoneweave array create vol1 --level raid5 --size 64M $OTHERS
refused "a number that is another's" zoneweave serve ublk $OTHERS --number 7
check "a disk that is mounted" mount -t xfs /dev/ublkb7 /mnt
check "is taken away all the same" stop
check "which is told" grep -q 'still in use' /tmp/serve.log
refused "a file on it" cp /tmp/random /mnt/three
check "until it is unmounted" umount /mnt
check "then it is gone" within 30 test ! -e /dev/ublkc7
check "the array is in order" zoneweave array check $DRIVES
