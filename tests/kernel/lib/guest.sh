# What a test in a guest can say, and what it can ask of the host. What it prints goes to the console, which is
# shown if it fails.

# Reports one thing that is as it should be, or is not.
ok() { echo "ok $*" | tee /dev/ttyS1; }
fail() { echo "FAILED $*" | tee /dev/ttyS1; exit 1; }
# Something to be told with the results, such as a measurement.
note() { echo "note $*" | tee /dev/ttyS1; }

# `check WHAT COMMAND...`: a command that has to succeed; one that does not ends the test.
check() {
  local what=$1
  shift
  if "$@"; then ok "$what"; else fail "$what: $* (status $?)"; fi
}

# `refused WHAT COMMAND...`: one that must not.
refused() {
  local what=$1
  shift
  if "$@"; then fail "$what: not refused: $*"; else ok "$what"; fi
}

# `within SECONDS COMMAND...`: repeats a command until it succeeds, quietly.
within() {
  local end=$(($(cut -d. -f1 /proc/uptime) + $1))
  shift
  until "$@" >/tmp/within 2>&1; do
    if [ "$(cut -d. -f1 /proc/uptime)" -ge "$end" ]; then cat /tmp/within; return 1; fi
    sleep 0.2
  done
}

# Has QEMU's monitor run a command, such as `device_del c1`. Nothing tells when it has: wait for what it does.
monitor() { echo "monitor $*" >/dev/ttyS1; }

# Has the server on the host ended and started again: `host restart` in order, `host kill` not.
host() { echo "host $*" >/dev/ttyS1; }

# fio writes a disk in requests of all sizes, flushes, and verifies what it wrote.
fio_verifies() {
  local disk=$1
  shift
  fio --name=v --filename="$disk" --direct=1 --ioengine=io_uring --rw=randwrite --bsrange=4k-512k --blockalign=4k \
    --size=64M --io_size=16M --iodepth=32 --verify=crc32c --do_verify=1 --verify_fatal=1 --fsync=64 --minimal "$@"
}

# An ext4 on a disk is written, unmounted, mounted again, compared, trimmed and checked.
ext4_keeps() {
  local disk=$1
  mkfs.ext4 -q -F "$disk" && mount -t ext4 "$disk" /mnt || return 1
  dd if=/dev/urandom of=/mnt/one bs=1M count=8 2>/dev/null
  mkdir /mnt/many
  for number in $(seq 60); do echo "$number" >"/mnt/many/$number"; done
  rm /mnt/many/1?
  (cd /mnt && find . -type f -exec md5sum {} + >/tmp/sums)
  umount /mnt && mount -t ext4 "$disk" /mnt && (cd /mnt && md5sum -c /tmp/sums >/tmp/differences) || return 1
  rm /mnt/one
  fstrim /mnt && umount /mnt && e2fsck -fn "$disk"
}

# A word that outlives a `crash`, at the end of disk0; nothing the first time.
remember() { printf '%-4096s' "$1" | dd of=/drives/disk0 bs=4096 seek=131071 conv=notrunc,fsync 2>/dev/null; }
recall() { dd if=/drives/disk0 bs=4096 skip=131071 2>/dev/null | tr -d '\0 '; }

# Serves the array of some drives as /dev/nbd0, through the kernel's client.
serve() {
  zoneweave serve nbd "$@" --socket unix:/run/volume.sock >/tmp/server.log 2>&1 &
  SERVER=$!
  within 120 test -S /run/volume.sock || { cat /tmp/server.log; return 1; }
  nbd-client -unix /run/volume.sock /dev/nbd0 -N "$ARRAY" -b 4096 -timeout 300
}

# Ends the server in order.
stop_serving() {
  nbd-client -d /dev/nbd0
  kill "$SERVER"
  wait "$SERVER" || { cat /tmp/server.log; return 1; }
  rm -f /run/volume.sock
}

# Cuts the machine off as it is, without writing anything back, and starts it anew: the drives stay as they are.
# The test starts from its beginning, so it has to `remember` how far it was.
crash() {
  echo "note crash" >/dev/ttyS1
  echo b >/proc/sysrq-trigger
  sleep 60
}

# Blocks with a journal of what was acknowledged (tagged_blocks).
tagged() { tagged_blocks "$1" /dev/nbd0 /drives/disk0 $BLOCKS ${2:-}; }
# Blocks that the journal has seen acknowledged.
acknowledged() { tagged verify | sed -n 's/.*of which \([0-9]*\) were.*/\1/p'; }

# An array of some drives is made and served, ext4 is written and verified on it, the machine crashes in the midst of
# writing, and what was acknowledged is there afterwards, by the journal on disk0. Of a test's boots this is all.
array_survives_crash() {
  ARRAY=vol0 DRIVES=$* BLOCKS=512
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
}
