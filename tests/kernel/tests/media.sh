# Drives whose media fail: writes are answered with 0x280 (write fault), reads with 0x281 (unrecovered read error),
# always at the same places. The volume goes on, nothing is lost, and the damage is healed: of drives with
# metadata beside their blocks, and of drives without.
# drives: zns zns zns zns plainzns plainzns plainzns plainzns
# modules: ublk_drv
# tools: fio
# limit: 900
#
# A zone has 32,768 sectors. Each drive fails in zones of its own, at places of their own: no stripe loses two chunks.
# fails: zns0 write 98560
# fails: zns1 write 166400
# fails: zns2 read 70144
# fails: zns3 read 139520
# fails: zns0 read 205056
# fails: plainzns0 write 98560
# fails: plainzns1 write 166400
# fails: plainzns2 read 70144
# fails: plainzns3 read 139520
# fails: plainzns0 read 205056

media_fail() {
  # shellcheck disable=SC2086
  check "an array is made of $1" zoneweave array create "$1" --level raid5 --size 300M $DRIVES
  # shellcheck disable=SC2086
  check "$1 is served" serve $DRIVES
  check "fio writes and verifies, although media of $1 fail" fio_disk write
  heals
  check "the server stops" stop_serving
  # shellcheck disable=SC2086
  check "the checker finds $1 in order" zoneweave array check $DRIVES
}

PART=96M
DRIVES="/drives/zns0 /drives/zns1 /drives/zns2 /drives/zns3"
# The kernel logs commands that it passes through only on request.
for log in /sys/class/nvme/nvme*/nvme*n1/passthru_err_log_enabled; do echo on >"$log"; done
media_fail beside
answered() { dmesg | grep -q "I/O Cmd($1).*(sct 0x2 / sc $2)"; }
check "the drives have answered writes with 0x280" answered 0x1 0x80
check "and reads with 0x281" answered 0x2 0x81
DRIVES="$(block_device plainzns0) $(block_device plainzns1) $(block_device plainzns2) $(block_device plainzns3)"
media_fail inline
