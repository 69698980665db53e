# The trials of an array, for drives of any kind. A test sets
#   ARRAY, DRIVES   its name and its four drives
#   JOURNAL         storage that outlives the crash, for the acknowledged writes
#   DISK            where `serve DRIVES` (by ublk unless the test has its own) gives it to the kernel
# Nothing here depends on speed: a test waits for the effects of the work that must be in progress.

DISK=/dev/ublkb0
BLOCKS=512
# The part of a disk that fio writes.
PART=128M

# Serves the array of some drives as a disk of this kernel. The output of an earlier server is deleted first: the job may
# empty its file later than it is looked at.
serve() {
  : >/tmp/server.log
  zoneweave serve ublk "$@" >/tmp/server.log 2>&1 &
  SERVER=$!
  within 200 grep -q '^ready' /tmp/server.log || { cat /tmp/server.log; return 1; }
}

# Ends the server in order.
stop_serving() {
  kill "$SERVER"
  wait "$SERVER" || { cat /tmp/server.log; return 1; }
}

# Writes that the kernel has made to the disk since it is there.
writes() { awk '{print $5}' "/sys/block/${DISK#/dev/}/stat"; }
has_written() { [ "$(writes)" -ge "$1" ]; }
# Waits until the disk took some writes more.
writes_more() { within 300 has_written $(($(writes) + $1)); }

# Blocks with a journal of acknowledged writes (tagged_blocks), in a file of the file system.
verify_blocks() { tagged_blocks verify /mnt/blocks "$JOURNAL" $BLOCKS; }
# Writes them until it is told to stop.
write_blocks() {
  tagged_blocks write /mnt/blocks "$JOURNAL" $BLOCKS 3000 >/tmp/load.log 2>&1 &
  LOAD=$!
}

make_fs() {
  case $1 in
    ext4) mkfs.ext4 -q -F "$DISK" ;;
    xfs) mkfs.xfs -q -f "$DISK" ;;
  esac
}
mount_fs() { mount -t "$1" "$DISK" /mnt; }
check_fs() {
  case $1 in
    ext4) e2fsck -fn "$DISK" ;;
    xfs) xfs_repair -n "$DISK" ;;
  esac
}

# fio writes a file and verifies it; or verifies the file of another boot.
fio_file() {
  fio --name=f --filename=/mnt/fio --direct=1 --ioengine=io_uring --rw="$1" --bs=64k --size=8M --iodepth=8 \
    --verify=crc32c --do_verify=1 --verify_fatal=1 --end_fsync=1 --minimal
}

# Small files, one after the other, each durable before the next one, so that the file system's own log is in use.
write_files() {
  local number=0
  mkdir -p /mnt/many
  while :; do
    number=$((number + 1))
    echo "$number" >"/mnt/many/$number" && sync "/mnt/many/$number" || return 0
    echo "$number" >/tmp/files
  done
}

# A file system is made and filled, and then written from two sides until something ends that.
filled_fs() {
  check "$1 is made" make_fs "$1"
  check "$1 is mounted" mount_fs "$1"
  check "$1: fio writes and verifies" fio_file write
  dd if=/dev/urandom of=/mnt/data bs=1M count=8 conv=fsync 2>/dev/null
  (cd /mnt && md5sum data >sums)
  dd if=/dev/zero of=/mnt/blocks bs=4096 count=$BLOCKS conv=fsync 2>/dev/null
  dd if=/dev/zero of="$JOURNAL" bs=4096 count=$BLOCKS conv=notrunc,fsync 2>/dev/null
  sync
  write_blocks
  write_files >/dev/null 2>&1 &
  FILES=$!
  check "$1 is being written" writes_more 600
}

# After the crash: the file system recovers by its log, is in order, and holds all acknowledged writes.
recovered_fs() {
  check "$1 is mounted after it" mount_fs "$1"
  check "$1: what was acknowledged is there" verify_blocks
  check "$1: and what was synced" sh -c 'cd /mnt && md5sum -c sums'
  check "$1: fio verifies what it had written" fio_file read
  check "$1 is put away" umount /mnt
  check "$1 is in order" check_fs "$1"
}

# Ends `write_blocks`, which prints something only if it had to give up.
stop_writers() {
  kill $LOAD
  wait $LOAD || true
  check "writers had no error" test ! -s /tmp/load.log
}

is_degraded() { [ "$(zoneweave array status "${DRIVES%% *}" --check >/dev/null; echo $?)" = 11 ]; }

# Under load the third drive goes, by a command of the test's, and another one takes its place. The file system is
# mounted, and stays so.
loses_drive() {
  local fs=$1 other=$2 first=${DRIVES%% *}
  shift 2
  check "$fs is mounted before a drive goes" mount_fs "$fs"
  write_blocks
  check "writers are at work" writes_more 200
  "$@"
  check "the server notices that a drive is gone" within 300 is_degraded
  check "writing goes on" writes_more 100
  stop_writers
  check "everything is there without the drive" verify_blocks
  write_blocks
  check "a new drive is rebuilt under load" zoneweave array replace "$first" --slot 2 --with "$other"
  check "the array is whole" within 300 zoneweave array status "$first" --check
  check "writing goes on after that" writes_more 100
  stop_writers
  zoneweave array status "$first"
  check "everything is there" verify_blocks
  check "$fs is put away after that" umount /mnt
  check "$fs is in order after that" check_fs "$fs"
  check "the server stops" stop_serving
  DRIVES=$(echo "$DRIVES" | awk -v other="$other" '{ $3 = other; print }')
  # shellcheck disable=SC2086
  check "the checker agrees" zoneweave array check $DRIVES
}

# fio writes a part of the disk and verifies it; or verifies the present contents.
fio_disk() {
  fio --name=m --filename=$DISK --direct=1 --ioengine=io_uring --rw="$1" --bs=64k --size="$PART" --iodepth=8 \
    --verify=crc32c --do_verify=1 --verify_fatal=1 --minimal
}
# How many errors of a kind the drives have answered.
errors() {
  zoneweave array status "${DRIVES%% *}" --json | sed -n "s/.*\"$1_errors\": *\([0-9]*\).*/\1/p" |
    awk '{ sum += $1 } END { print sum + 0 }'
}
finds_no_damage() { zoneweave array scrub "${DRIVES%% *}" >/tmp/scrub && grep 'no damage' /tmp/scrub; }

# Media have failed: nothing is lost, and the damage is healed.
heals() {
  zoneweave array status "${DRIVES%% *}"
  check "writes have failed" test "$(errors write)" -gt 0
  check "reads have failed" test "$(errors read)" -gt 0
  check "no drive was taken out for that" zoneweave array status "${DRIVES%% *}" --check
  check "a scrub heals" zoneweave array scrub "${DRIVES%% *}"
  check "another one finds no damage" finds_no_damage
  check "everything is there after that" fio_disk read
}

# Cuts the machine off as it is, without writing anything back, and starts it anew: the drives stay as they are.
# The test starts from its beginning, so it has to `remember` how far it was.
#
# The server is stopped where it is, and the drives answer the commands in flight: QEMU 7.2 dies of the reset of a
# controller that has a flush under way, which it completes into a queue that is gone. A report is answered after that.
crash() {
  local drive
  kill -STOP "$SERVER"
  for drive in $DRIVES; do zoneweave zones "$drive" >/dev/null; done
  note crash
  echo b >/proc/sysrq-trigger
  sleep 60
}

# All of an array's life on drives that outlive the machine: crashes in the midst of writing on two file systems, each
# with a start after it, and a drive that is pulled out. `crash` starts the test anew, so each boot is one step.
array_lives() {
  local other=$1 pulled=$2
  case "$(recall)" in
    '')
      # shellcheck disable=SC2086
      check "an array is made" zoneweave array create $ARRAY --level raid5 --size 400M $DRIVES
      # shellcheck disable=SC2086
      check "and served" serve $DRIVES
      filled_fs ext4
      remember ext4
      crash
      ;;
    ext4)
      # shellcheck disable=SC2086
      check "the array starts after a crash" serve $DRIVES
      cat /tmp/server.log
      recovered_fs ext4
      filled_fs xfs
      remember xfs
      crash
      ;;
    xfs)
      # shellcheck disable=SC2086
      check "the array starts after another crash" serve $DRIVES
      cat /tmp/server.log
      recovered_fs xfs
      loses_drive xfs "$other" monitor "device_del $pulled"
      ;;
  esac
}
