# A zoned volume served over NVMe/TCP to this kernel's own host: a zoned disk with reports, zone management, Zone Append,
# and fio.
# modules: nvme_tcp crc32c_generic
# tools: nvme blkzone dd fio
# limit: 600

DRIVES="/tmp/d/drive0 /tmp/d/drive1 /tmp/d/drive2 /tmp/d/drive3"
NQN=nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555
HOST=nqn.2014-08.org.nvmexpress:uuid:66666666-7777-8888-9999-aaaaaaaaaaaa
DISK=/dev/nvme0n1

serve_zones() {
  # shellcheck disable=SC2086
  zoneweave serve nvme-tcp $DRIVES --listen 127.0.0.1:4420 --nqn $NQN >/tmp/server.log 2>&1 &
  SERVER=$!
  within 200 grep -q '^ready' /tmp/server.log || { cat /tmp/server.log; return 1; }
}
connect() {
  nvme connect -t tcp -a 127.0.0.1 -s 4420 -n $NQN --hostnqn=$HOST --hostid=66666666-7777-8888-9999-aaaaaaaaaaaa "$@" &&
    within 60 test -b $DISK
}
# How many zones are in a state, in the words of blkzone.
in_state() { /bin/blkzone report $DISK | grep -c "zcond:.*($1)" || true; }

check "drives are made" zoneweave emu create /tmp/d --drives 4 --zones 32 --zone-capacity 8M
# shellcheck disable=SC2086
check "a zoned volume is made" zoneweave array create z --kind zoned $DRIVES
check "and served over NVMe/TCP" serve_zones
check "a host connects" connect
check "it is a zoned disk" test "$(cat /sys/block/nvme0n1/queue/zoned)" = host-managed
ZONES=$(cat /sys/block/nvme0n1/queue/nr_zones)
ZONE=$(cat /sys/block/nvme0n1/queue/chunk_sectors)
check "zones are limited" test "$(cat /sys/block/nvme0n1/queue/max_open_zones)" -gt 0
check "every zone is empty" test "$(in_state em)" = "$ZONES"
check "nvme-cli reports zones" nvme zns report-zones $DISK -d 4
check "and the namespace" nvme zns id-ns $DISK
dd if=/dev/urandom of=/tmp/random bs=1M count=1 2>/dev/null
check "a zone is written" /bin/dd if=/tmp/random of=$DISK bs=64k oflag=direct,seek_bytes seek=$((ZONE * 512)) conv=notrunc
check "a zone is appended to" nvme zns zone-append $DISK -s $((ZONE / 8)) -z 8192 -d /tmp/random
check "what was written is read" cmp -n 1048576 /tmp/random $DISK 0 $((ZONE * 512))
check "and what was appended, behind it" cmp -n 8192 /tmp/random $DISK 0 $((ZONE * 512 + 1048576))
refused "a write behind the write pointer" sh -c "/bin/dd if=/tmp/random of=$DISK bs=4k count=1 \
  oflag=direct,seek_bytes seek=$((ZONE * 512)) conv=notrunc 2>/dev/null"
check "a zone is opened" /bin/blkzone open -o $((ZONE * 2)) -l "$ZONE" $DISK
check "it is open explicitly" test "$(in_state oe)" = 1
check "it is closed" /bin/blkzone close -o $((ZONE * 2)) -l "$ZONE" $DISK
check "a zone is finished" /bin/blkzone finish -o "$ZONE" -l "$ZONE" $DISK
check "it is full" test "$(in_state fu)" = 1
check "all zones are reset" /bin/blkzone reset $DISK
check "every zone is empty again" test "$(in_state em)" = "$ZONES"
check "fio writes zones and verifies" fio --name=z --filename=$DISK --direct=1 --zonemode=zbd --ioengine=libaio \
  --rw=randwrite --bs=64k --size=128M --io_size=8M --iodepth=8 --max_open_zones=4 --verify=crc32c --do_verify=1 \
  --verify_fatal=1 --minimal
check "the host disconnects" nvme disconnect -n $NQN
check "a host connects with digests" connect --hdr-digest --data-digest
check "zones are as they were" test "$(in_state em)" -lt "$ZONES"
check "the host disconnects again" nvme disconnect -n $NQN
kill $SERVER
check "the server stops" wait $SERVER
# shellcheck disable=SC2086
check "the array is in order" zoneweave array check $DRIVES
