# A volume of the host as the virtio disk of this guest, through QEMU's NBD client; the server is killed meanwhile.
# host: nbd
# modules: virtio_blk crc32c_generic ext4
# tools: mkfs.ext4 e2fsck fio fstrim blkdiscard
# qemu: -blockdev driver=nbd,node-name=vol,export=vol0,server.type=unix,server.path=@FOLDER@/host.sock,reconnect-delay=300,discard=unmap
# qemu: -device virtio-blk-pci,drive=vol,num-queues=2,logical_block_size=4096,physical_block_size=4096
# limit: 900

DISK=/dev/vda

check "the disk is there" within 30 test -b $DISK
check "fio writes and verifies" fio_verifies $DISK
check "ranges are discarded" /bin/blkdiscard -o 0 -l 8M $DISK
check "and read as zeros" cmp -n 8388608 $DISK /dev/zero
check "ext4 keeps what it is given" ext4_keeps $DISK
fio_verifies $DISK --io_size=64M >/tmp/fio.log 2>&1 &
FIO=$!
before=$(awk '{print $5}' /sys/block/vda/stat)
within 60 sh -c "[ \$(awk '{print \$5}' /sys/block/vda/stat) -gt $((before + 50)) ]"
kill -0 $FIO || fail "fio ended before the server did"
host kill
check "fio writes and verifies, although the server is killed" wait $FIO
check "ext4 keeps what it is given after that" ext4_keeps $DISK
