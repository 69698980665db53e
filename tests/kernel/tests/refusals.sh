# The basis of every other test: the guest has our binary, and drives by the names that were asked for. And drives
# that are not ours to overwrite, and such that cannot be used.
# drives: zns zns zns plainzns disk
# modules: nbd ublk_drv
# tools: mkfs.ext4
# limit: 900

DRIVES="/drives/zns0 /drives/zns1 /drives/zns2"
ls -l /dev/ng* /drives
for drive in zns0 zns1 plainzns0; do
  check "$drive is a character device" test -c "/drives/$drive"
done
check "disk0 is a block device" test -b /drives/disk0
check "the network block device is there" test -b /dev/nbd0
check "ublk is there" test -c /dev/ublk-control
check "our binary runs" zoneweave --version
check "the kernel can do what we need of it" zoneweave doctor --quiet

make() { zoneweave array create "$@"; }
create() { make a --size 64M "$@"; }

check "a drive without metadata is refused, with the remedy" \
  fails_with 'nvme format.*--lbaf=' zoneweave zones /drives/plainzns0
check "a drive without zones is refused" fails_with 'formatted\|no zones' zoneweave zones "/dev/ng$(readlink /drives/disk0 | sed 's|/dev/nvme||')"
check "a block device is looked at" zoneweave zones "$(block_device zns0)"
check "but is no member, and the other device is named" \
  fails_with 'character device, /dev/ng[0-9]' make b --size 64M "$(block_device zns0)" /drives/zns1
check "a block device without zones is refused" fails_with 'has no zones' zoneweave zones /drives/disk0
check "what is no drive is refused" fails_with 'not an NVMe namespace' zoneweave zones /dev/null

# A file system's superblock, written as mkfs would: at the start of the first zone.
dd if=/dev/zero of=/tmp/fs bs=4096 count=32 2>/dev/null
printf 'XFSB' | dd of=/tmp/fs conv=notrunc 2>/dev/null
dd if=/tmp/fs of="$(block_device zns0)" bs=128k count=1 oflag=direct 2>/dev/null
# shellcheck disable=SC2086
check "a file system is not overwritten" fails_with 'XFS' create $DRIVES
# shellcheck disable=SC2086
check "nor with --yes-destroy" fails_with '--destroy /drives/zns0' create $DRIVES --yes-destroy
# shellcheck disable=SC2086
check "only if the drive is named" create $DRIVES --destroy /drives/zns0
# shellcheck disable=SC2086
check "an array is not overwritten" fails_with 'array a' create $DRIVES --yes-destroy
# shellcheck disable=SC2086
check "only if every drive is named" \
  create $DRIVES --destroy /drives/zns0 --destroy /drives/zns1 --destroy /drives/zns2

# shellcheck disable=SC2086
zoneweave serve nbd $DRIVES --socket unix:/run/a.sock >/tmp/log 2>&1 &
within 120 grep -q '^ready' /tmp/log
check "a drive in service is not taken" fails_with 'in use' make b --size 64M /drives/zns0 /drives/zns1
check "and the kernel has it for nobody else" fails_with 'in use' mkfs.ext4 -q "$(block_device zns0)"
# shellcheck disable=SC2086
check "its status is told" zoneweave array status $DRIVES
check "its zones can be looked at" zoneweave zones /drives/zns0
check "and what is on it" zoneweave inspect /drives/zns0
