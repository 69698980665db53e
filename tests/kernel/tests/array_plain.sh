# The same as `array`, on drives that keep no metadata beside their blocks (the inline layout), as zoned block devices.
# drives: plainzns plainzns plainzns plainzns plainzns disk
# modules: ublk_drv crc32c_generic ext4 xfs
# tools: mkfs.ext4 e2fsck mkfs.xfs xfs_repair fio tagged_blocks
# limit: 1500

ARRAY=vol0
DRIVES="$(block_device plainzns0) $(block_device plainzns1) $(block_device plainzns2) $(block_device plainzns3)"
JOURNAL=/drives/disk0
array_lives "$(block_device plainzns4)" c2
