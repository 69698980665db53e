# A volume of the host as the virtio disk of this guest, by vhost-user; its server is killed, and restarted, meanwhile.
# host: vhost-user
# modules: virtio_blk crc32c_generic ext4
# tools: mkfs.ext4 e2fsck fio fstrim blkdiscard
# qemu: -object memory-backend-memfd,id=mem,size=2048M,share=on -machine memory-backend=mem
# qemu: -chardev socket,id=vol,path=@FOLDER@/host.sock,reconnect=1 -device vhost-user-blk-pci,chardev=vol,num-queues=2
# limit: 900

DISK=/dev/vda
queue() { cat "/sys/block/vda/queue/$1"; }

check "the disk is there" within 30 test -b $DISK
check "its size is that of the volume" test "$(cat /sys/block/vda/size)" = 819200
check "blocks are of 4 KiB" test "$(queue logical_block_size)" = 4096
check "it has a cache to be flushed" test "$(queue write_cache)" = "write back"
check "it takes discards" test "$(queue discard_max_bytes)" = 1073741824
check "it takes writes of zeros" test "$(queue write_zeroes_max_bytes)" = 1073741824
check "a stripe is known" test "$(queue optimal_io_size)" -gt 4096
check "it has two queues" test -d /sys/block/vda/mq/1
check "it is called what the volume is" grep -q vol0 /sys/block/vda/serial
check "fio writes and verifies" fio_verifies $DISK
check "ranges are discarded" /bin/blkdiscard -o 0 -l 8M $DISK
check "and read as zeros" cmp -n 8388608 $DISK /dev/zero
check "ranges are zeroed" /bin/blkdiscard -z -o 8M -l 8M $DISK
check "they read as zeros, too" cmp -n 16777216 $DISK /dev/zero
check "ext4 keeps what it is given" ext4_keeps $DISK

# The next server executes the requests that a killed one did not answer.
fio_verifies $DISK --io_size=64M >/tmp/fio.log 2>&1 &
FIO=$!
written() { awk '{print $5}' /sys/block/vda/stat; }
for way in kill restart kill; do
  before=$(written)
  within 200 sh -c "[ \$(awk '{print \$5}' /sys/block/vda/stat) -gt $((before + 50)) ]"
  kill -0 $FIO || fail "fio ended before the server did"
  host $way
done
check "fio writes and verifies, although the server is killed" wait $FIO
check "ext4 keeps what it is given after that" ext4_keeps $DISK
