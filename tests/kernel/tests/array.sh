# An array of four zoned drives, served to the kernel: ext4 on it, a crash of the whole machine in the midst of writing,
# and everything that was acknowledged afterwards.
# drives: zns zns zns zns disk
# modules: nbd
# tools: nbd-client mkfs.ext4 e2fsck tagged_blocks
# limit: 420

ARRAY=vol0
DRIVES="/drives/zns0 /drives/zns1 /drives/zns2 /drives/zns3"
BLOCKS=512
tagged() { tagged_blocks "$1" /dev/nbd0 /drives/disk0 $BLOCKS ${2:-}; }
# Blocks that the journal has seen acknowledged.
acknowledged() { tagged verify | sed -n 's/.*of which \([0-9]*\) were.*/\1/p'; }

case "$(recall)" in
  '')
    for drive in $DRIVES; do zoneweave zones "$drive" >/dev/null; done
    # shellcheck disable=SC2086
    check "an array is made" zoneweave array create $ARRAY --level raid5 --size 256M $DRIVES
    check "and served" serve $DRIVES
    check "ext4 is made on it" mkfs.ext4 -q -F /dev/nbd0
    check "and mounted" mount -t ext4 /dev/nbd0 /mnt
    dd if=/dev/urandom of=/tmp/data bs=1M count=24 2>/dev/null
    check "a file is written" cp /tmp/data /mnt/data
    sync
    check "read back" cmp /tmp/data /mnt/data
    umount /mnt
    check "and the file system is whole" e2fsck -fn /dev/nbd0
    check "the server stops" stop_serving
    check "and starts again" serve $DRIVES
    mount -t ext4 /dev/nbd0 /mnt
    check "the file is there" cmp /tmp/data /mnt/data
    umount /mnt
    dd if=/dev/zero of=/dev/nbd0 bs=1M count=16 oflag=direct 2>/dev/null
    dd if=/dev/zero of=/drives/disk0 bs=1M count=16 conv=notrunc,fsync 2>/dev/null
    check "blocks are written" tagged write 5
    check "and verified" tagged verify
    remember crashed
    tagged write 600 &
    sleep 8
    crash
    ;;
  crashed)
    check "the array starts after a crash" serve $DRIVES
    cat /tmp/server.log
    check "what was acknowledged is there" tagged verify
    check "and can be overwritten" tagged write 3
    check "and verified" tagged verify
    check "the server stops" stop_serving
    # shellcheck disable=SC2086
    check "the checker agrees" zoneweave array check $DRIVES
    ;;
esac
