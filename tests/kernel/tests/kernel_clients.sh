# An array served to this kernel's NBD client, over several connections; and as a file by FUSE, under a loop device.
# modules: nbd loop crc32c_generic ext4
# tools: nbd-client mkfs.ext4 e2fsck fio fstrim blkdiscard losetup
# limit: 900

DRIVES="/tmp/d/drive0 /tmp/d/drive1 /tmp/d/drive2 /tmp/d/drive3"
ARRAY=vol0
DISK=/dev/nbd0

check "drives are made" zoneweave emu create /tmp/d --drives 4 --zones 48 --zone-capacity 8M
# shellcheck disable=SC2086
check "an array is made" zoneweave array create $ARRAY --level raid5 --size 400M $DRIVES
# shellcheck disable=SC2086
check "and served by NBD" serve_nbd $DRIVES
check "fio writes and verifies" fio_verifies $DISK
check "ranges are discarded" /bin/blkdiscard -o 0 -l 8M $DISK
check "and read as zeros" cmp -n 8388608 $DISK /dev/zero
check "ext4 keeps what it is given" ext4_keeps $DISK
check "the server stops" stop_nbd

VOLUME=/tmp/volume
serve_fuse() {
  : >/tmp/server.log
  # shellcheck disable=SC2086
  zoneweave serve fuse $DRIVES --mountpoint $VOLUME >/tmp/server.log 2>&1 &
  SERVER=$!
  within 200 grep -q '^ready' /tmp/server.log || { cat /tmp/server.log; return 1; }
}
# Past the page cache of the loop device, and through it.
for direct in on off; do
  check "it is served as a file (direct I/O $direct)" serve_fuse
  check "the file has the volume's size" test "$(stat -c %s $VOLUME)" = $((400 << 20))
  check "a loop device takes it" /bin/losetup --sector-size 4096 --direct-io=$direct /dev/loop0 $VOLUME
  check "fio writes and verifies on it" fio_verifies /dev/loop0
  check "ext4 keeps what it is given there" ext4_keeps /dev/loop0
  check "the loop device lets go of it" /bin/losetup -d /dev/loop0
  check "the server stops" stop_serving
  check "the file is empty again" test "$(stat -c %s $VOLUME)" = 0
done
# Writes of one client are read by the other.
# shellcheck disable=SC2086
check "it is served by NBD again" serve_nbd $DRIVES
check "and ext4 is still in order" e2fsck -fn $DISK
check "the server stops after that" stop_nbd
# shellcheck disable=SC2086
check "the array is in order" zoneweave array check $DRIVES
