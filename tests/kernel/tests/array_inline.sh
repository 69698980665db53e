# Arrays of drives that keep no metadata beside their blocks: of null_blk's zoned disks, whose server is killed under
# load, and of NVMe namespaces, with a crash of the whole machine.
# drives: plainzns plainzns plainzns plainzns disk
# modules: nbd null_blk
# tools: nbd-client mkfs.ext4 e2fsck fio tagged_blocks
# limit: 900

null_disks() {
  mount -t configfs configfs /sys/kernel/config
  for number in 1 2 3 4; do
    mkdir /sys/kernel/config/nullb/nullb$number
    for setting in size=192 blocksize=4096 memory_backed=1 zoned=1 zone_size=8 zone_capacity=7 power=1; do
      echo "${setting#*=}" >"/sys/kernel/config/nullb/nullb$number/${setting%=*}" || return 1
    done
    within 30 test -b /dev/nullb$number || return 1
  done
}
NULLS="/dev/nullb1 /dev/nullb2 /dev/nullb3 /dev/nullb4"
block() { readlink -f "$1" | sed 's|/dev/ng|/dev/nvme|'; }

if [ -z "$(recall)" ]; then
  ARRAY=nulls
  check "null_blk has zoned disks" null_disks
  # shellcheck disable=SC2086
  check "an array of them is made" zoneweave array create $ARRAY --level raid5 --size 64M $NULLS
  check "and served" serve $NULLS
  check "fio verifies what it wrote" fio_verifies /dev/nbd0 --size=60M
  check "ext4 keeps its files" ext4_keeps /dev/nbd0
  check "the server stops" stop_serving
  # shellcheck disable=SC2086
  check "the checker agrees" zoneweave array check $NULLS
fi
array_survives_crash "$(block /drives/plainzns0)" "$(block /drives/plainzns1)" "$(block /drives/plainzns2)" \
  "$(block /drives/plainzns3)"
