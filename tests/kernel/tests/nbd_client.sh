# An array served to this kernel's NBD client, over several connections.
# modules: nbd crc32c_generic ext4
# tools: nbd-client mkfs.ext4 e2fsck fio fstrim blkdiscard
# limit: 900

DRIVES="/tmp/d/drive0 /tmp/d/drive1 /tmp/d/drive2 /tmp/d/drive3"
ARRAY=vol0
DISK=/dev/nbd0

check "drives are made" zoneweave emu create /tmp/d --drives 4 --zones 48 --zone-capacity 8M
# shellcheck disable=SC2086
check "an array is made" zoneweave array create $ARRAY --level raid5 --size 400M $DRIVES
check "and served" serve $DRIVES
check "fio writes and verifies" fio_verifies $DISK
check "ranges are discarded" /bin/blkdiscard -o 0 -l 8M $DISK
check "and read as zeros" cmp -n 8388608 $DISK /dev/zero
check "ext4 keeps what it is given" ext4_keeps $DISK
check "the server stops" stop_serving
# shellcheck disable=SC2086
check "the array is in order" zoneweave array check $DRIVES
