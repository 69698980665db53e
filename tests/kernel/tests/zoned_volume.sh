# A zoned volume of four zoned drives as a zoned disk of the kernel: reports, zone management and fio. zonefs and btrfs
# are each written and cut off by a crash of the whole machine. Then the server is killed, a drive is pulled out under
# load, and another one rebuilt.
# drives: zns zns zns zns zns disk
# modules: ublk_drv crc32c_generic xxhash_generic blake2b_generic btrfs zonefs
# tools: blkzone dd fio mkfs.btrfs btrfs fresh_memory
# limit: 900

DRIVES="/drives/zns0 /drives/zns1 /drives/zns2 /drives/zns3"
DISK=/dev/ublkb0

sectors() { cat "/sys/block/ublkb0/queue/$1"; }
# How many zones are in a state, in the words of blkzone.
in_state() { /bin/blkzone report $DISK | grep -c "zcond:.*($1)" || true; }

# A superblock of zonefs, which needs nothing else.
zonefs_super() {
  printf '\x53\x46\x4f\x5a\x98\xf9\xac\xfd'
  head -c 64 /dev/zero
  printf '\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10'
  head -c 4008 /dev/zero
}

# Small files, each durable before the next one, until something ends that.
write_files() {
  local number=0
  mkdir -p /mnt/many
  while :; do
    number=$((number + 1))
    echo "$number" >"/mnt/many/$number" && sync "/mnt/many/$number" || return 0
    echo "$number" >/tmp/files
  done
}

# Files that are durable, with their sums.
keep_files() {
  for number in 1 2 3; do dd if=/dev/urandom of="/mnt/$1$number" bs=1M count=2 2>/dev/null; done
  (cd /mnt && md5sum "$1"? >"sums.$1")
  sync
}
has_files() { (cd /mnt && md5sum -c "sums.$1" >/tmp/differences) || { cat /tmp/differences; return 1; }; }

case "$(recall)" in
  '')
    # shellcheck disable=SC2086
    check "a zoned volume is made" zoneweave array create z --kind zoned $DRIVES
    # shellcheck disable=SC2086
    check "and served" serve $DRIVES
    check "it is a zoned disk" test "$(sectors zoned)" = host-managed
    ZONES=$(sectors nr_zones)
    check "zones start every 64 MiB" test "$(sectors chunk_sectors)" = 131072
    check "zones are limited" test "$(sectors max_open_zones)" -gt 0 -a "$(sectors max_open_zones)" -lt 14
    check "36 MiB of a zone can be written" sh -c "/bin/blkzone report -c 1 $DISK | grep -q 'cap 0x012000'"
    check "every zone is empty" test "$(in_state em)" = "$ZONES"
    dd if=/dev/urandom of=/tmp/random bs=1M count=2 2>/dev/null
    check "a zone is written" /bin/dd if=/tmp/random of=$DISK bs=64k oflag=direct,seek_bytes seek=64M conv=notrunc
    check "what was written is read" cmp -n 2097152 /tmp/random $DISK 0 67108864
    refused "a write behind the write pointer" sh -c "/bin/dd if=/tmp/random of=$DISK bs=4k count=1 \
      oflag=direct,seek_bytes seek=64M conv=notrunc 2>/dev/null"
    check "a zone is opened" /bin/blkzone open -o 262144 -l 131072 $DISK
    check "it is open explicitly" test "$(in_state oe)" = 1
    check "zones are closed" /bin/blkzone close -o 131072 -l 262144 $DISK
    check "a zone is finished" /bin/blkzone finish -o 131072 -l 131072 $DISK
    check "it is full" test "$(in_state fu)" = 1
    check "all zones are reset" /bin/blkzone reset $DISK
    check "every zone is empty again" test "$(in_state em)" = "$ZONES"
    check "fio writes zones and verifies" fio --name=z --filename=$DISK --direct=1 --zonemode=zbd --ioengine=libaio \
      --rw=randwrite --bs=64k --size=256M --io_size=12M --iodepth=8 --max_open_zones=4 --verify=crc32c --do_verify=1 \
      --verify_fatal=1 --minimal
    check "zones are reset after fio" /bin/blkzone reset $DISK

    zonefs_super >/tmp/super
    check "zonefs is made" /bin/dd if=/tmp/super of=$DISK bs=4k oflag=direct conv=notrunc
    check "zonefs is mounted" mount -t zonefs $DISK /mnt
    check "a file is appended to" /bin/dd if=/tmp/random of=/mnt/seq/3 bs=256k oflag=direct,append conv=notrunc
    check "and synced" sync /mnt/seq/3
    md5sum </tmp/random | dd of=/drives/disk0 bs=64 seek=1 conv=notrunc,fsync 2>/dev/null
    # Another file is being written when the machine goes.
    while :; do
      /bin/dd if=/tmp/random of=/mnt/seq/5 bs=64k oflag=direct,append conv=notrunc
    done >/dev/null 2>&1 &
    check "zonefs is being written" writes_more 40
    remember zonefs
    crash
    ;;
  zonefs)
    # shellcheck disable=SC2086
    check "the volume starts after a crash" serve $DRIVES
    cat /tmp/server.log
    check "zonefs is mounted after it" mount -t zonefs $DISK /mnt
    check "the synced file has its length" test "$(stat -c %s /mnt/seq/3)" = 2097152
    check "and its contents" test "$(md5sum </mnt/seq/3)" = "$(dd if=/drives/disk0 bs=64 count=1 skip=1 2>/dev/null | tr -d '\0')"
    check "the other file can be read" sh -c 'md5sum </mnt/seq/5'
    check "and appended to" /bin/dd if=/mnt/seq/3 of=/mnt/seq/5 bs=64k count=4 oflag=direct,append conv=notrunc
    check "zonefs is put away" umount /mnt
    check "zones are reset after zonefs" /bin/blkzone reset $DISK
    check "btrfs is made" mkfs.btrfs -q -f -O zoned -d single -m single $DISK
    check "btrfs is mounted" mount -t btrfs $DISK /mnt
    keep_files one
    write_files >/dev/null 2>&1 &
    check "btrfs is being written" writes_more 200
    remember btrfs
    crash
    ;;
  btrfs)
    # shellcheck disable=SC2086
    check "the volume starts after another crash" serve $DRIVES
    cat /tmp/server.log
    check "btrfs is mounted after it" mount -t btrfs $DISK /mnt
    check "what was synced is there" has_files one
    # Commands of a zoned disk are not repeated, so the disk is idle now.
    sync
    kill -9 $SERVER
    wait $SERVER || true
    check "the disk outlives its server" test -b $DISK
    # shellcheck disable=SC2086
    check "another server takes it over" serve $DRIVES
    keep_files two
    check "btrfs goes on" has_files two
    write_files >/dev/null 2>&1 &
    FILES=$!
    check "btrfs is being written again" writes_more 40
    monitor device_del c2
    check "the server notices that a drive is gone" within 300 is_degraded
    check "writing goes on" writes_more 40
    echo 3 >/proc/sys/vm/drop_caches
    check "everything is there without the drive" has_files one
    check "a new drive is rebuilt under load" zoneweave array replace /drives/zns0 --slot 2 --with /drives/zns4
    check "the array is whole" within 300 zoneweave array status /drives/zns0 --check
    check "writing goes on after that" writes_more 40
    kill $FILES
    wait $FILES || true
    zoneweave array status /drives/zns0
    # Another drive is taken out: the contents of the new one count now.
    check "a drive is failed" zoneweave array fail /drives/zns1 --slot 0
    echo 3 >/proc/sys/vm/drop_caches
    check "everything is there from the new drive" has_files one
    check "also what was written since" has_files two
    for _ in 1 2 3 4; do
      echo 3 >/proc/sys/vm/drop_caches
      check "and again" has_files two
    done
    check "reads changed nobody else's memory" fresh_memory
    check "btrfs is put away" umount /mnt
    check "btrfs is in order" btrfs check $DISK
    check "the server stops" stop_serving
    check "the disk is gone" test ! -e $DISK
    ;;
esac
