# An array served over NVMe/TCP to this kernel's own host: discovery, with and without digests, fio, discards, ext4. The
# server is killed under load, and the host continues with the next one.
# modules: nvme_tcp crc32c_generic ext4
# tools: nvme mkfs.ext4 e2fsck fio fstrim blkdiscard
# limit: 600

DRIVES="/tmp/d/drive0 /tmp/d/drive1 /tmp/d/drive2 /tmp/d/drive3"
NQN=nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555
HOST=nqn.2014-08.org.nvmexpress:uuid:66666666-7777-8888-9999-aaaaaaaaaaaa
WHERE="-t tcp -a 127.0.0.1 -s 4420 --hostnqn=$HOST --hostid=66666666-7777-8888-9999-aaaaaaaaaaaa"
DISK=/dev/nvme0n1

serve_nvme() {
  : >/tmp/server.log
  # shellcheck disable=SC2086
  zoneweave serve nvme-tcp $DRIVES --listen 127.0.0.1:4420 --nqn $NQN --allow-host $HOST >/tmp/server.log 2>&1 &
  SERVER=$!
  within 200 grep -q '^ready' /tmp/server.log || { cat /tmp/server.log; return 1; }
}
connect() {
  # shellcheck disable=SC2086
  nvme connect $WHERE -n $NQN --reconnect-delay=1 --ctrl-loss-tmo=300 "$@" && within 60 test -b $DISK
}
# Bytes that the host has written to the disk.
written() { awk '{print $7}' /sys/block/nvme0n1/stat; }

check "drives are made" zoneweave emu create /tmp/d --drives 4 --zones 48 --zone-capacity 8M
# shellcheck disable=SC2086
check "an array is made" zoneweave array create vol0 --level raid5 --size 400M $DRIVES
check "and served over NVMe/TCP" serve_nvme
# shellcheck disable=SC2086
check "it is discovered" nvme discover $WHERE
# shellcheck disable=SC2086
check "under its name" sh -c "nvme discover $WHERE | grep -q $NQN"
refused "a host that is not in the list" nvme connect -t tcp -a 127.0.0.1 -s 4420 -n $NQN --hostnqn=nqn.a:stranger \
  --hostid=00000000-0000-0000-0000-000000000001
check "a host connects" connect
nvme list
nvme id-ctrl /dev/nvme0
check "the disk has the volume's size" test "$(cat /sys/block/nvme0n1/size)" = $((400 << 11))
check "its blocks have 4 KiB" test "$(cat /sys/block/nvme0n1/queue/logical_block_size)" = 4096
check "it has a cache" grep -q 'write back' /sys/block/nvme0n1/queue/write_cache
check "log pages are read" sh -c 'nvme smart-log /dev/nvme0 && nvme error-log /dev/nvme0 && nvme fw-log /dev/nvme0 &&
  nvme effects-log /dev/nvme0'
check "features are read" sh -c 'nvme get-feature /dev/nvme0 -f 6 && nvme get-feature /dev/nvme0 -f 7'
check "fio writes and verifies" fio_verifies $DISK
check "ranges are discarded" /bin/blkdiscard -o 0 -l 8M $DISK
check "and read as zeros" cmp -n 8388608 $DISK /dev/zero
check "ranges are zeroed" /bin/blkdiscard -z -o 8M -l 8M $DISK
check "and read as zeros, too" cmp -n 16777216 $DISK /dev/zero
check "ext4 keeps what it is given" ext4_keeps $DISK
check "the controller is reset" nvme reset /dev/nvme0
check "the host disconnects" nvme disconnect -n $NQN
check "the disk is gone" within 60 test ! -b $DISK
check "a host connects with digests" connect --hdr-digest --data-digest
before=$(written)
fio_verifies $DISK --io_size=32M >/tmp/fio.log 2>&1 &
FIO=$!
writes_on() { [ "$(written)" -gt $((before + 2048)) ]; }
check "fio is writing" within 60 writes_on
kill -9 $SERVER
wait $SERVER || true
check "another server has the array" serve_nvme
check "fio writes and verifies, although the server is killed" wait $FIO
check "the host disconnects again" nvme disconnect -n $NQN
kill $SERVER
check "the server stops" wait $SERVER
# shellcheck disable=SC2086
check "the array is in order" zoneweave array check $DRIVES
