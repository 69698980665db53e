# The same as `array`, on null_blk's zoned disks. Their contents are lost with the kernel, so the server is killed
# during writes instead. The kernel's NBD client returns errors to the file system until the next server runs. A disk
# is switched off under load, and media fail.
# modules: nbd null_blk crc32c_generic ext4 xfs
# tools: nbd-client mkfs.ext4 e2fsck mkfs.xfs xfs_repair fio tagged_blocks
# limit: 1200

CONFIG=/sys/kernel/config/nullb
ARRAY=nulls
DRIVES="/dev/nullb1 /dev/nullb2 /dev/nullb3 /dev/nullb4"
DISK=/dev/nbd0
JOURNAL=/tmp/journal
PART=48M

# By NBD, unlike the other arrays.
serve() { serve_nbd "$@"; }
stop_serving() { stop_nbd; }

null_disks() {
  mount -t configfs configfs /sys/kernel/config
  for number in 1 2 3 4 5; do
    mkdir $CONFIG/nullb$number
    for setting in size=256 blocksize=4096 memory_backed=1 zoned=1 zone_size=8 zone_capacity=7 power=1; do
      echo "${setting#*=}" >"$CONFIG/nullb$number/${setting%=*}" || return 1
    done
    within 30 test -b /dev/nullb$number || return 1
  done
}

# `bad_block +|- DISK ZONE BLOCK`: a block that gives errors, or no more. Zones have 16,384 sectors of 512 bytes.
bad_block() {
  local first=$((16384 * $3 + 8 * $4))
  echo "$1$first-$((first + 7))" >$CONFIG/nullb$2/badblocks || fail "null_blk takes bad blocks"
}

# Kills the server while the file system is written, and starts another one.
killed_server() {
  kill -9 $SERVER
  wait $SERVER || true
  # Requests in flight would wait for its time limit, with a server that is gone.
  nbd-client -d $DISK
  wait $LOAD && fail "writers did not notice that the server is gone"
  wait $FILES || true
  umount /mnt
  rm -f /run/volume.sock
  # shellcheck disable=SC2086
  check "the array starts after its server was killed" serve $DRIVES
  cat /tmp/server.log
}

truncate -s 2M $JOURNAL
check "null_blk has zoned disks" null_disks
# shellcheck disable=SC2086
check "an array of them is made" zoneweave array create $ARRAY --level raid5 --size 320M $DRIVES
# shellcheck disable=SC2086
check "and served" serve $DRIVES

# Blocks that can be neither written nor read: some where something is, some where it will be.
check "fio writes and verifies" fio_disk write
for zone in 2 3 4 5; do bad_block + 2 $zone $((64 * zone)); done
for zone in $(seq 7 2 31); do bad_block + 1 $zone $((16 * zone)); done
check "fio verifies, although blocks have gone bad" fio_disk read
check "fio writes and verifies, although zones have bad blocks" fio_disk write
heals
for zone in 2 3 4 5; do bad_block - 2 $zone $((64 * zone)); done
for zone in $(seq 7 2 31); do bad_block - 1 $zone $((16 * zone)); done

for fs in ext4 xfs; do
  filled_fs $fs
  killed_server
  recovered_fs $fs
done
switch_off() { echo 0 >$CONFIG/nullb3/power; }
loses_drive xfs /dev/nullb5 switch_off
