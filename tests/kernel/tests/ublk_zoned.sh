# An emulated drive as a zoned disk of the kernel: reports, zone management, appends, file systems for zones: zonefs,
# btrfs, and f2fs, which keeps overwritten blocks on a conventional disk beside it.
# modules: ublk_drv crc32c_generic xxhash_generic blake2b_generic btrfs zonefs f2fs loop
# tools: blkzone dd fio mkfs.btrfs btrfs mkfs.f2fs fsck.f2fs losetup
# limit: 900

DISK=/dev/ublkb0
ZONES=32

# Starts the server of a drive in the background, and waits until the disk is served.
serve() {
  : >/tmp/serve.log
  zoneweave emu serve "$1" >/tmp/serve.log 2>&1 &
  SERVER=$!
  within 60 grep -q '^ready' /tmp/serve.log || { cat /tmp/serve.log; return 1; }
}
stop() { kill -TERM $SERVER && wait $SERVER; }
sectors() { cat "/sys/block/ublkb0/queue/$1"; }
# How many zones are in a state, in the words of blkzone.
in_state() { /bin/blkzone report $DISK | grep -c "zcond:.*($1)" || true; }

check "a drive is made" zoneweave emu create /tmp/d --drives 1 --zones $ZONES --zone-capacity 12M
check "the drive is served" serve /tmp/d/drive0
check "it is zoned" test "$(sectors zoned)" = host-managed
check "it has its zones" test "$(sectors nr_zones)" = $ZONES
check "zones start every 16 MiB" test "$(sectors chunk_sectors)" = 32768
check "14 may be open and active" test "$(sectors max_open_zones) $(sectors max_active_zones)" = "14 14"
/bin/blkzone report -c 2 $DISK
check "every zone is empty" test "$(in_state em)" = $ZONES
check "12 MiB of a zone can be written" sh -c "/bin/blkzone report -c 1 $DISK | grep -q 'cap 0x006000'"

dd if=/dev/urandom of=/tmp/random bs=1M count=4 2>/dev/null
check "a zone is written" /bin/dd if=/tmp/random of=$DISK bs=64k oflag=direct,seek_bytes seek=16M conv=notrunc
check "what was written is read" cmp -n 4194304 /tmp/random $DISK 0 16777216
check "the zone is open" test "$(in_state oi)" = 1
refused "a write behind the write pointer" sh -c "/bin/dd if=/tmp/random of=$DISK bs=4k count=1 \
  oflag=direct,seek_bytes seek=16M conv=notrunc 2>/dev/null"
check "a zone is opened" /bin/blkzone open -o 65536 -l 32768 $DISK
check "it is open explicitly" test "$(in_state oe)" = 1
check "zones are closed" /bin/blkzone close -o 32768 -l 65536 $DISK
check "they hold resources until they are reset" test "$(in_state cl)" = 2
check "a zone is finished" /bin/blkzone finish -o 32768 -l 32768 $DISK
check "it is full" test "$(in_state fu)" = 1
check "one zone is reset" /bin/blkzone reset -o 32768 -l 32768 $DISK
check "it reads as zeros" cmp -n 4194304 /dev/zero $DISK 0 16777216
check "all zones are reset" /bin/blkzone reset $DISK
check "every zone is empty again" test "$(in_state em)" = $ZONES

# Not by io_uring, which hands requests that would wait for an earlier write of their zone to threads, and those send it in any order.
check "fio writes zones and verifies" fio --name=z --filename=$DISK --direct=1 --zonemode=zbd --ioengine=libaio \
  --rw=randwrite --bs=64k --size=64M --io_size=24M --iodepth=8 --max_open_zones=8 --verify=crc32c --do_verify=1 \
  --verify_fatal=1 --minimal
check "zones are reset after fio" /bin/blkzone reset $DISK

# zonefs needs a superblock and nothing else.
{
  printf '\x53\x46\x4f\x5a\x98\xf9\xac\xfd'
  head -c 64 /dev/zero
  printf '\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10'
  head -c 4008 /dev/zero
} >/tmp/super
check "zonefs is made" /bin/dd if=/tmp/super of=$DISK bs=4k oflag=direct conv=notrunc
check "zonefs is mounted" mount -t zonefs $DISK /mnt
check "a file for each zone but the first" test "$(ls /mnt/seq | wc -l)" = $((ZONES - 1))
check "a file is appended to" /bin/dd if=/tmp/random of=/mnt/seq/3 bs=256k oflag=direct,append conv=notrunc
check "zonefs is unmounted" umount /mnt
check "zonefs is mounted again" mount -t zonefs $DISK /mnt
check "the file has its length" test "$(stat -c %s /mnt/seq/3)" = 4194304
check "the file has what was written" cmp /tmp/random /mnt/seq/3
check "a file is emptied" truncate -s 0 /mnt/seq/3
check "zonefs is put away" umount /mnt
check "zones are reset after zonefs" /bin/blkzone reset $DISK

# A mounted file system gets files, so many of them large, and has them when it is mounted again.
keeps_files() {
  local fs=$1 first=$2 files=$3 number
  check "$fs is mounted" mount -t "$fs" "$first" /mnt
  for number in $(seq "$files"); do cp /tmp/random "/mnt/large$number"; done
  mkdir /mnt/many
  for number in $(seq 60); do echo "$number" >"/mnt/many/$number"; done
  sync
  rm /mnt/many/1?
  (cd /mnt && find . -type f -exec md5sum {} + >/tmp/sums)
  check "$fs is unmounted" umount /mnt
  check "$fs is mounted again" mount -t "$fs" "$first" /mnt
  check "$fs has what was written" sh -c "cd /mnt && md5sum -c /tmp/sums >/tmp/differences"
}

check "btrfs is made" mkfs.btrfs -q -f -O zoned -d single -m single $DISK
keeps_files btrfs $DISK 1

# The server is killed under a mounted file system, which goes on with the next one.
kill -9 $SERVER
wait $SERVER || true
check "the disk outlives its server" test -b $DISK
check "another server takes it over" serve /tmp/d/drive0
cp /tmp/random /mnt/two
sync
check "btrfs goes on" cmp /tmp/random /mnt/two
check "btrfs is put away" umount /mnt
check "btrfs is in order" btrfs check $DISK
check "the server stops" stop
check "the disk is gone" test ! -e $DISK
check "zones tell of it" zoneweave zones /tmp/d/drive0

# Zones that can be filled: fsck.f2fs 1.15 does not know of others, and counts free segments in them.
ZONES=64
check "a drive of full zones is made" zoneweave emu create /tmp/f --drives 1 --zones $ZONES --zone-capacity 16M
check "this drive is served" serve /tmp/f/drive0
# It has no room for the write.
truncate -s 96M /tmp/beside
check "there is a conventional disk" /bin/losetup --sector-size 4096 /dev/loop0 /tmp/beside
check "f2fs is made" mkfs.f2fs -f -m -c $DISK /dev/loop0
keeps_files f2fs /dev/loop0 28
check "zones of it are in use" test "$(in_state em)" -lt $ZONES
check "f2fs is put away" umount /mnt
check "f2fs is in order" fsck.f2fs --dry-run /dev/loop0
check "the conventional disk is put away" losetup -d /dev/loop0
check "the server stops after f2fs" stop
