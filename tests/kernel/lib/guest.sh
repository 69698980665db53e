# Reports of a test in a guest, and its requests to the host. Its output goes to the console, which is
# shown if it fails.

# Reports to the host; the console gets it with the seconds since the boot.
report() {
  echo "$*" >/dev/ttyS1
  echo "[$(cut -d' ' -f1 /proc/uptime)] $*"
}
# One thing that is as it should be, or is not.
ok() { report "ok $*"; }
fail() { report "FAILED $*"; exit 1; }
# Something to be told with the results, such as a measurement.
note() { report "note $*"; }

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

# `fails_with WORDS COMMAND...`: one that has to fail, and to say something (a pattern of grep's).
fails_with() {
  local words=$1
  shift
  if "$@" >/tmp/said 2>&1; then cat /tmp/said; return 1; fi
  cat /tmp/said
  grep -q -e "$words" /tmp/said
}

# The kernel's block device of a drive.
block_device() { readlink -f "/drives/$1" | sed 's|/dev/ng|/dev/nvme|'; }

# `within SECONDS COMMAND...`: repeats a command until it succeeds, quietly.
within() {
  local end=$(($(cut -d. -f1 /proc/uptime) + $1))
  shift
  until "$@" >/tmp/within 2>&1; do
    if [ "$(cut -d. -f1 /proc/uptime)" -ge "$end" ]; then cat /tmp/within; return 1; fi
    sleep 0.2
  done
}

# Has QEMU's monitor run a command, such as `device_del c1`. There is no answer: wait for the effect.
monitor() { echo "monitor $*" >/dev/ttyS1; }

# Has the server on the host ended and started again: `host restart` in order, `host kill` not.
host() { echo "host $*" >/dev/ttyS1; }

# fio writes a disk in requests of all sizes, flushes, and verifies them.
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

# Serves the array of some drives as /dev/nbd0, through the kernel's client, and ends the server in order. Without a
# scheduler: before Linux 6.14 the client confuses replies with one ("nbd: fix partial sending"), those of any server.
serve_nbd() {
  zoneweave serve nbd "$@" --socket unix:/run/volume.sock >/tmp/server.log 2>&1 &
  SERVER=$!
  within 200 grep -q '^ready' /tmp/server.log || { cat /tmp/server.log; return 1; }
  nbd-client -unix /run/volume.sock /dev/nbd0 -N "$ARRAY" -b 4096 -timeout 300 &&
    echo none >/sys/block/nbd0/queue/scheduler
}
stop_nbd() {
  nbd-client -d /dev/nbd0
  kill "$SERVER"
  wait "$SERVER" || { cat /tmp/server.log; return 1; }
  rm -f /run/volume.sock
}
